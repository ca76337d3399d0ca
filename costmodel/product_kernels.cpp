#include "costmodel/product_kernels.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/names.hpp"
#include "costmodel/embedded_constants.hpp"
#include "costmodel/matmul_tiles.hpp"
#include "platforms/object_reader.hpp"
#include "platforms/strict_json.hpp"

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

constexpr std::size_t kMostProducts = 1000;

ProductKernels product_row(platforms::ObjectReader& row) {
  const auto& known = kWords[row.choice("arithmetic", names_of_rows(kWords, &WordRow::word))];
  ProductKernels k;
  k.generation = row.text("generation");
  k.arithmetic = known.arithmetic;
  k.scaling = known.scaling;
  k.share = row.number("share", 0.05, 1.2).value;
  k.fill = row.number("fill", 0, 5000).value;
  k.cast_bytes = row.number("cast_bytes", 0, 50).value;
  if (const auto grouped = row.number_or_none("grouped_share", 0.05, 2)) k.grouped_share = grouped->value;
  return k;
}

}  // namespace

std::vector<ProductKernels> product_kernels_from_json_text(const std::string& text, const std::string& where) {
  const auto json = platforms::parse_strict_json(text, where);
  std::vector<ProductKernels> all;
  for (auto& row : platforms::ObjectReader(json, where, "").objects("rows", 1, kMostProducts)) all.push_back(product_row(row));
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
