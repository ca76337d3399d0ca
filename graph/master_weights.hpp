#pragma once
// Training in a 16-bit type keeps every parameter a second time in f32 ("Mixed Precision Training", Micikevicius et al., ICLR 2018,
// section 3.1): gradients are added to that copy, a slot of the optimizer, and the 16-bit parameter is its rounding.

#include <string>
#include <string_view>

namespace rehearsal::graph {

inline constexpr std::string_view kMasterSuffix = ".master";

/// The name of a parameter's f32 copy, and back. Random initial values of the copy are its parameter's.
[[nodiscard]] inline std::string master_name(std::string_view parameter) { return std::string(parameter).append(kMasterSuffix); }
[[nodiscard]] inline bool is_master(std::string_view tensor) { return tensor.ends_with(kMasterSuffix); }
[[nodiscard]] inline std::string_view parameter_of_master(std::string_view tensor) {
  return tensor.substr(0, tensor.size() - kMasterSuffix.size());
}

}  // namespace rehearsal::graph
