// Results of the forward pass that wait for the backward pass in the host's memory or in fewer bits, and state that lives on the host.

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"
#include "plan/recompute/sparse.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

constexpr std::int64_t kBitsOfByte = 8;

/// As bytes that no tensor's layout describes.
void make_bytes(Buffer& buffer, const std::function<std::int64_t(std::int64_t elements)>& bytes_of) {
  buffer.dtype = DType::U8;
  buffer.layout.clear();
  buffer.tensor = TensorId::None;
  for (auto& shape : buffer.shapes) shape = {bytes_of(graph::element_count(shape))};
}

/// Shapes and type in which a buffer is stashed.
Buffer stash_of(Buffer buffer, StashKind kind, const Plan& plan) {
  buffer.name += ":stash";
  buffer.lifetime = Lifetime::Transient;
  buffer.on_host = kind == StashKind::Host;
  if (kind == StashKind::F16 || kind == StashKind::BF16) buffer.dtype = kind == StashKind::F16 ? DType::F16 : DType::BF16;
  if (kind == StashKind::Signs) make_bytes(buffer, [](std::int64_t elements) { return (elements + kBitsOfByte - 1) / kBitsOfByte; });
  if (kind == StashKind::Sparse)
    make_bytes(buffer, [density = plan.compression.density, size = size_of(buffer.dtype)](std::int64_t elements) {
      return SparseStash{elements, static_cast<std::int64_t>(size)}.bytes(density);
    });
  return buffer;
}

}  // namespace

/// Copies to and from the host run beside the kernels, each after what was computed before it.
std::uint32_t RoleBuilder::emit_move(InstructionKind kind, BufferIndex from, BufferIndex to, std::uint16_t body) {
  auto move = instruction(kind, role_.buffers[kind == InstructionKind::Stash ? from : to].tensor, body, {from}, {to});
  if (role_.buffers[from].on_host != role_.buffers[to].on_host) {
    move.stream = Stream::Host;
    const auto& list = role_.bodies[body].instructions;
    for (auto n = static_cast<std::uint32_t>(list.size()); n-- > 0;) {
      if (list[n].stream != Stream::Compute) continue;
      move.after.push_back({body, n});
      break;
    }
  }
  return emit(body, std::move(move));
}

void RoleBuilder::stash_results(NodeId n, std::uint16_t body) {
  const auto at = c_.stashed_after.find(n);
  if (at == c_.stashed_after.end()) return;
  for (const TensorId t : at->second) stash(t, body);
}

/// vDNN waits for a copy before the memory is used again: here the kernels after the next copy's begin wait for this one's end, and its
/// memory is kept until then.
void RoleBuilder::stash(TensorId t, std::uint16_t body) {
  BufferIndex source = kNoBuffer;
  for (const auto format : {Format::ChannelsLast, Format::Plain})
    if (const auto at = buffers_.find({t, -1, format, false}); at != buffers_.end() && (source == kNoBuffer || at->second < source))
      source = at->second, stashed_formats_[t] = format;
  ensure(source != kNoBuffer, "a result is in memory when it is stashed");
  const auto kind = c_.stashing.of(t);
  auto waiting = stash_of(by_itself(role_.buffers[source]), kind, c_.plan);
  set_bytes(waiting);
  const auto target = new_buffer(std::move(waiting), nullptr);
  stashes_[t] = target;
  const auto at = emit_move(InstructionKind::Stash, source, target, body);
  if (kind != StashKind::Host) return;
  auto& instruction = role_.bodies[body].instructions[at];
  if (has_stash_ && last_stash_.body == body) {
    instruction.inputs.push_back(role_.bodies[body].instructions[last_stash_.instruction].inputs.front());
    stash_awaited_ = false;
    awaited_stash_ = last_stash_;
  }
  last_stash_ = {body, at};
  has_stash_ = true;
}

void RoleBuilder::restore(TensorId t, std::uint16_t body) {
  if (!restored_.insert(t).second) return;
  const auto stash = stashes_.at(t);
  auto buffer = describe(t, body);
  buffer.format = stashed_formats_.at(t);
  const Key key{t, -1, buffer.format, false};
  const auto target = new_buffer(std::move(buffer), &key);
  const bool before = again_;
  again_ = false;
  emit_move(InstructionKind::Restore, stash, target, body);
  again_ = before;
  if (role_.buffers[stash].on_host) restore_ahead(t, body);
}

/// The one that is wanted next is on its way while kernels use this one.
void RoleBuilder::restore_ahead(TensorId t, std::uint16_t body) {
  if (fetching_ahead_) return;
  fetching_ahead_ = true;
  const auto& order = c_.stashing.in_order;
  for (auto at = std::find(order.begin(), order.end(), t); at != order.begin();) {
    const TensorId next = *--at;
    if (!stashes_.contains(next) || restored_.contains(next)) continue;
    if (c_.pipeline.chunk(g_[next].producer) == role_.bodies[body].chunk) restore(next, body);
    break;
  }
  fetching_ahead_ = false;
}

/// Optimizer state (ZeRO-Offload keeps it on the host; Ren et al., USENIX ATC 2021), unless it is a mere number or sharded elsewhere.
bool RoleBuilder::lives_on_host(TensorId stored) const {
  if (c_.plan.offload != Offload::Optimizer || g_[stored].role != graph::TensorRole::Slot || g_[stored].type.shape.empty()) return false;
  return std::none_of(into_storage_.begin(), into_storage_.end(), [&](const auto& entry) { return g_[entry.first].stored_in == stored; });
}

BufferIndex RoleBuilder::brought_from_host(BufferIndex stored, std::uint16_t body) {
  const auto t = role_.buffers[stored].tensor;
  if (const auto known = at_work_.find(t); known != at_work_.end()) return known->second;
  auto buffer = describe(t, body);
  const auto target = new_buffer(std::move(buffer), nullptr);
  emit_move(InstructionKind::Restore, stored, target, body);
  return at_work_[t] = target;
}

void RoleBuilder::put_back(TensorId updated, BufferIndex b, std::uint16_t body) {
  emit_move(InstructionKind::Stash, b, stored_buffer(g_[updated].stored_in), body);
}

}  // namespace rehearsal::plan
