#include "costmodel/product_kernels.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/embedded_constants.hpp"
#include "costmodel/matmul_tiles.hpp"
#include "costmodel/measured_rows.hpp"

namespace rehearsal::costmodel {
namespace {

struct WordRow {
  std::string_view word;
  Arithmetic arithmetic;
  Scaling scaling;
};
constexpr WordRow kWords[] = {{"16-bit", Arithmetic::Half, Scaling::None},
                              {"fp8", Arithmetic::Fp8, Scaling::Tensor},
                              {"fp8-block", Arithmetic::Fp8, Scaling::Block},
                              {"nvfp4", Arithmetic::Fp4, Scaling::Micro}};

/// Kernels with scales of rows are counted as those of tensors, and mxfp8 as blocks of 128, which Blackwell's libraries run with its units
/// for mxfp8.
Scaling measured_scaling(Arithmetic arithmetic, Scaling scaling) {
  if (arithmetic != Arithmetic::Fp8) return scaling;
  return scaling == Scaling::Row ? Scaling::Tensor : scaling == Scaling::Micro ? Scaling::Block : scaling;
}

/// Tables of servers have one scale per tensor with kernels that are slower on Blackwell than those of blocks, whose scales are more work:
/// training libraries pick others, which are no slower.
const ProductKernels* quickest(const ProductKernels* tensor, const ProductKernels* block) {
  if (tensor == nullptr || block == nullptr) return tensor;
  return tensor->share >= block->share ? tensor : block;
}

/// What counts where a generation was not measured.
constexpr std::string_view kUsualGeneration = "hopper";

const ProductKernels* find(std::string_view generation, Arithmetic arithmetic, Scaling scaling) {
  const auto rows = measured_product_kernels();
  const auto row = std::ranges::find_if(
      rows, [&](const ProductKernels& k) { return k.generation == generation && k.arithmetic == arithmetic && k.scaling == scaling; });
  return row == rows.end() ? nullptr : &*row;
}

ProductKernels read_row(const MeasuredRow& row, const std::string& where) {
  const auto& word = row.word("arithmetic");
  const auto* known = std::ranges::find(kWords, word, &WordRow::word);
  if (known == std::end(kWords)) throw BadInput(where, "rows: arithmetic '" + word + "' is none of 16-bit, fp8, fp8-block, nvfp4");
  ProductKernels k;
  k.generation = row.word("generation");
  k.arithmetic = known->arithmetic;
  k.scaling = known->scaling;
  k.share = row.number("share", 0.05, 1.2);
  k.fill = row.number("fill", 0, 5000);
  k.cast_bytes = row.number("cast_bytes", 0, 50);
  if (row.has("grouped_share")) k.grouped_share = row.number("grouped_share", 0.05, 2);
  return k;
}

}  // namespace

std::vector<ProductKernels> product_kernels_from_json_text(const std::string& text, const std::string& where) {
  std::vector<ProductKernels> all;
  for (const auto& row : measured_rows(text, where)) all.push_back(read_row(row, where));
  return all;
}

std::span<const ProductKernels> measured_product_kernels() {
  static const auto kRows = product_kernels_from_json_text(std::string(embedded_products()), "costmodel/constants/products.json");
  return kRows;
}

const ProductKernels& product_kernels(std::string_view generation, Arithmetic arithmetic, Scaling scaling) {
  static const ProductKernels kWider{"", Arithmetic::F32, Scaling::None, 1, kDenseLoopOverhead, 0, 1};
  const auto measured = measured_scaling(arithmetic, scaling);
  const auto* row = find(generation, arithmetic, measured);
  if (measured == Scaling::Tensor) row = quickest(row, find(generation, arithmetic, Scaling::Block));
  if (row != nullptr) return *row;
  if (arithmetic != Arithmetic::Fp8 && arithmetic != Arithmetic::Fp4) return kWider;
  const auto* usual = find(kUsualGeneration, arithmetic, measured);
  return usual != nullptr ? *usual : *find("blackwell", arithmetic, measured);
}

double share_over_16_bits(std::string_view generation, Arithmetic arithmetic, Scaling scaling) {
  const auto& own = product_kernels(generation, arithmetic, scaling);
  return own.share / product_kernels(own.generation, Arithmetic::Half, Scaling::None).share;
}

}  // namespace rehearsal::costmodel
