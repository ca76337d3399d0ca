#include "exec/host/non_finite.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec {
namespace {

using plan::BufferIndex;

template <class T>
void count(const T* values, std::int64_t elements, NonFinite& found) {
  for (std::int64_t i = 0; i < elements; ++i) {
    if (std::isfinite(values[i])) continue;
    ++(std::isnan(values[i]) ? found.nan : values[i] > 0 ? found.infinite : found.minus_infinite);
  }
}

/// In blocks through f32, which has every number of the 16-bit types.
void count_narrow(DType dtype, const void* data, std::int64_t elements, NonFinite& found) {
  constexpr std::int64_t kBlock = 1024;
  float block[kBlock];
  const auto* from = static_cast<const std::uint16_t*>(data);
  for (std::int64_t at = 0; at < elements; at += kBlock) {
    const auto size = std::min(kBlock, elements - at);
    widen(from + at, dtype, block, size);
    count(block, size, found);
  }
}

NonFinite count_of(const TensorView& view) {
  const bool opaque = view.data == nullptr || view.format == plan::Format::Packed;
  return opaque ? NonFinite{} : count_non_finite(view.type->dtype, view.data, graph::element_count(view.type->shape));
}

/// Of passes: what update bodies do not make themselves.
class UpdateReads {
 public:
  explicit UpdateReads(const plan::Role& role) : role_(role) {
    for (const auto& body : role.bodies)
      if (body.kind == plan::BodyKind::Update)
        instructions_.insert(instructions_.end(), body.instructions.begin(), body.instructions.end());
    for (const auto& i : instructions_)
      for (const auto b : i.outputs)
        if (b != plan::kNoBuffer && !reads(i, b)) made_.insert(b);
  }

  [[nodiscard]] std::vector<BufferIndex> all() const {
    std::set<BufferIndex> found;
    for (const auto& i : instructions_) found.insert(i.inputs.begin(), i.inputs.end());
    return of_passes(found);
  }
  [[nodiscard]] std::vector<BufferIndex> of_loss() const {
    std::set<BufferIndex> wanted;
    for (auto i = instructions_.rbegin(); i != instructions_.rend(); ++i) {
      const bool makes_one = std::any_of(i->outputs.begin(), i->outputs.end(), [&](BufferIndex b) { return wanted.contains(b); });
      if (makes_one || i->kind == plan::InstructionKind::Report) wanted.insert(i->inputs.begin(), i->inputs.end());
    }
    return of_passes(wanted);
  }

 private:
  static bool reads(const plan::Instruction& i, BufferIndex b) { return std::find(i.inputs.begin(), i.inputs.end(), b) != i.inputs.end(); }

  [[nodiscard]] std::vector<BufferIndex> of_passes(const std::set<BufferIndex>& read) const {
    std::vector<BufferIndex> found;
    for (const auto b : read) {
      if (b == plan::kNoBuffer || made_.contains(b)) continue;
      const auto& buffer = role_.buffers[b];
      const bool stored = role_.buffers[plan::base_of(role_, b)].lifetime == plan::Lifetime::Persistent;
      if (is_float(buffer.dtype) && holds_numbers(buffer) && !stored) found.push_back(b);
    }
    return found;
  }

  const plan::Role& role_;
  std::vector<plan::Instruction> instructions_;
  std::set<BufferIndex> made_;
};

}  // namespace

NonFinite count_non_finite(DType dtype, const void* data, std::int64_t elements) {
  NonFinite found;
  if (dtype == DType::F32)
    count(static_cast<const float*>(data), elements, found);
  else if (dtype == DType::F64)
    count(static_cast<const double*>(data), elements, found);
  else if (is_narrow(dtype))
    count_narrow(dtype, data, elements, found);
  return found;
}

std::vector<BufferIndex> results_of_passes(const plan::Role& role, bool with_gradients) {
  const UpdateReads update(role);
  return with_gradients ? update.all() : update.of_loss();
}

NonFiniteWatch::Severity NonFiniteWatch::severity_of(std::span<const TensorView> inputs, const TensorView& output) {
  const auto made = count_of(output);
  if (!made.any()) return Severity::None;
  NonFinite had;
  for (const auto& input : inputs) {
    if (input.data == output.data) continue;  // changed in place: what was there is gone
    const auto own = count_of(input);
    had = {had.nan + own.nan, had.infinite + own.infinite, had.minus_infinite + own.minus_infinite};
  }
  if (had.nan > 0 || (made.nan == 0 && had.any())) return Severity::None;
  return made.nan + made.infinite > 0 ? Severity::Certain : Severity::Doubtful;
}

std::int64_t NonFiniteWatch::first_of(const TensorView& view) {
  const auto elements = graph::element_count(view.type->shape);
  const auto size = static_cast<std::int64_t>(size_of(view.type->dtype));
  std::int64_t at = 0;
  while (at < elements && !count_non_finite(view.type->dtype, static_cast<const std::byte*>(view.data) + at * size, 1).any()) ++at;
  return at;
}

std::string NonFiniteWatch::text_of(const TensorView& view) {
  const auto made = count_of(view);
  const bool nan = made.nan > 0;
  return std::to_string(nan ? made.nan : made.infinite + made.minus_infinite) + " of " +
         std::to_string(graph::element_count(view.type->shape)) + " elements are " + (nan ? "NaN" : "infinite");
}

}  // namespace rehearsal::exec
