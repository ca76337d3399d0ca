#pragma once
// Matrix products of libraries as they were measured alone on a cool device: costmodel/constants/products.json, which
// scripts/distil-products writes from published tables.

#include <span>
#include <string>
#include <string_view>

#include "costmodel/precision.hpp"

namespace rehearsal::costmodel {

struct ProductKernels {
  std::string generation;
  Arithmetic arithmetic = Arithmetic::Half;
  Scaling scaling = Scaling::None;
  double share = 1;          ///< of the peak that large products reach; in training, which heats the device, less
  double fill = 0;           ///< elements of k that filling and draining the main loop of a tile cost
  double cast_bytes = 0;     ///< traffic per element of an operand that is cast
  double grouped_share = 1;  ///< of products of many experts in one kernel, over `share`
};

/// Rows of a generation; of one that nobody measured, or an arithmetic it was not measured in, those of a usual GPU. Row-wise scales,
/// which the tables do not have, are those of tensors.
[[nodiscard]] const ProductKernels& product_kernels(std::string_view generation, Arithmetic, Scaling);
/// What of the share of their peak that 16-bit products reach others reach of theirs: levels in training come from published runs.
[[nodiscard]] double share_over_16_bits(std::string_view generation, Arithmetic, Scaling);
[[nodiscard]] std::span<const ProductKernels> measured_product_kernels();
/// Throws BadInput naming `where`, the row and what is wrong with it.
[[nodiscard]] std::vector<ProductKernels> product_kernels_from_json_text(const std::string& text, const std::string& where);

}  // namespace rehearsal::costmodel
