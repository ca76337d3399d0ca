#pragma once
// Numbers that are none: where in a training step they come from.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/kernels/kernel.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

struct NonFinite {
  std::int64_t nan = 0, infinite = 0, minus_infinite = 0;  ///< elements
  [[nodiscard]] bool any() const { return nan + infinite + minus_infinite > 0; }
};
/// 0 of types that have no such numbers.
[[nodiscard]] NonFinite count_non_finite(DType, const void* data, std::int64_t elements);

/// Buffers that passes wrote and the update reads: those from which it computes the loss, or all of gradients, too.
[[nodiscard]] std::vector<plan::BufferIndex> results_of_passes(const plan::Role&, bool with_gradients);

/// False of vectors of messages and of scratch memory, which may have gaps.
[[nodiscard]] inline bool holds_numbers(const plan::Buffer& b) {
  return b.tensor != graph::TensorId::None && b.category != plan::MemoryCategory::Communication &&
         b.category != plan::MemoryCategory::Workspace;
}

/// Where the first such numbers of a rank's step were made.
struct BadTensor {
  std::string tensor, what;  ///< what: "3 of 128 elements are NaN"
  std::string made_by;       ///< "MatMul h.0.attn.scores", "the data"
  bool in_backward = false;
  std::int32_t micro_batch = 0;  ///< -1: it was there before the step
};

/// Looks at what each instruction makes of what. An instruction whose operands have such numbers already is not where they come from.
/// Minus infinity alone may be a mask: it is named when nothing else is found.
class NonFiniteWatch {
 public:
  struct Result {
    std::span<const TensorView> inputs, outputs;
  };
  /// `describe` makes a BadTensor of a result's index and the first such element of its local block; it is called for a find only.
  template <class Describe>
  void look(const Result& result, const Describe& describe) {
    if (found_) return;
    for (std::size_t n = 0; n < result.outputs.size(); ++n)
      if (const auto severity = severity_of(result.inputs, result.outputs[n]); severity != Severity::None) {
        auto& place = severity == Severity::Certain ? found_ : doubtful_;
        if (place) continue;
        place = describe(n, first_of(result.outputs[n]));
        place->what = text_of(result.outputs[n]);
      }
  }
  [[nodiscard]] const std::optional<BadTensor>& find() const { return found_ ? found_ : doubtful_; }

 private:
  enum class Severity : std::uint8_t { None, Doubtful, Certain };
  static Severity severity_of(std::span<const TensorView> inputs, const TensorView& output);
  static std::int64_t first_of(const TensorView&);
  static std::string text_of(const TensorView&);
  std::optional<BadTensor> found_, doubtful_;
};

}  // namespace rehearsal::exec
