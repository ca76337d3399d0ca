#pragma once
// Slots that stand for the parameter they belong to. Training in a 16-bit type keeps every parameter a second time in f32 ("Mixed Precision
// Training", Micikevicius et al., ICLR 2018, section 3.1): gradients are added to that copy, a slot of the optimizer, and the 16-bit
// parameter is its rounding. Schedule-free optimizers keep the sequence z from which the average of the weights is made.

#include <string>
#include <string_view>

namespace rehearsal::graph {

inline constexpr std::string_view kMasterSuffix = ".master";
/// The attribute of an update whose last result is the new parameter, rounded to the 16-bit type that it names.
inline constexpr std::string_view kRoundedTo = "rounded_to";
/// The slot of z, and what its tensors' names end in: no model names its own so.
inline constexpr std::string_view kAveragedSlot = "schedule_free.z", kAveragedSuffix = ".schedule_free.z";

/// The name of a parameter's f32 copy, and back.
[[nodiscard]] inline std::string master_name(std::string_view parameter) { return std::string(parameter).append(kMasterSuffix); }
[[nodiscard]] inline bool is_master(std::string_view tensor) { return tensor.ends_with(kMasterSuffix); }
[[nodiscard]] inline bool is_averaged(std::string_view tensor) { return tensor.ends_with(kAveragedSuffix); }
/// The parameter that such a slot belongs to, whose random initial values are its own, too; of other tensors the tensor itself.
[[nodiscard]] inline std::string_view parameter_of_slot(std::string_view tensor) {
  if (is_master(tensor)) tensor.remove_suffix(kMasterSuffix.size());
  if (is_averaged(tensor)) tensor.remove_suffix(kAveragedSuffix.size());
  return tensor;
}

}  // namespace rehearsal::graph
