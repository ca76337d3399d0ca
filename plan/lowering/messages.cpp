// Tensors that cross from one pipeline stage to another.

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

int RoleBuilder::stage_of_tensor(TensorId t) const {
  const auto producer = g_[t].producer;
  return producer == NodeId::None ? kAnyStage : c_.stages[producer];
}

std::vector<int> RoleBuilder::stages_reading(TensorId t) const {
  std::set<int> stages;
  for (auto n : c_.consumers[graph::index(t)]) {
    const int s = c_.stages[n];
    if (s != kAnyStage && s != stage_of_tensor(t)) stages.insert(s);
  }
  return {stages.begin(), stages.end()};
}

std::uint32_t RoleBuilder::channel(TensorId t, int to_stage) const {
  return static_cast<std::uint32_t>(graph::index(t)) * static_cast<std::uint32_t>(c_.plan.pp) + static_cast<std::uint32_t>(to_stage);
}

std::int32_t RoleBuilder::message(int other_stage, std::uint32_t channel) {
  role_.messages.push_back({(other_stage - stage_) * direction_, channel});
  return static_cast<std::int32_t>(role_.messages.size()) - 1;
}

/// Added up over micro-batches where it is made, and sent once: all that read it on the other stage follow the last micro-batch.
bool RoleBuilder::travels_summed(TensorId t, int reader) const {
  if (!time_summed_.contains(t) || !per_micro_batch(kind(body_of(g_[t].producer)))) return false;
  return std::ranges::all_of(c_.consumers[graph::index(t)], [&](NodeId n) { return c_.stages[n] != reader || body_of(n) == update_; });
}

void RoleBuilder::send_sums() {
  for (const auto& [t, to] : sums_to_send_) {
    const auto sum = accumulators_.at(t);
    // Where steps overlap, the next one adds up while the message is still under way: a copy is sent.
    const bool is_wide = is_wide_sum(sum);
    send(t, to, is_wide ? rounded_sum(sum, update_) : c_.pipeline.schedule->asynchronous ? copy_of(sum, update_) : sum, update_);
  }
  sums_to_send_.clear();
}

void RoleBuilder::send(TensorId t, int to, BufferIndex b, std::uint16_t body) {
  auto send = instruction(InstructionKind::Send, t, body, {b}, {});
  send.stream = Stream::Send;
  send.phase = g_[g_[t].producer].phase;
  send.message = message(to, channel(t, to));
  role_.buffers[base(b)].sent = true;
  emit(body, std::move(send));
}

void RoleBuilder::send_results(NodeId n, std::uint16_t body) {
  if (c_.plan.pp == 1 || c_.stages[n] == kAnyStage) return;
  for (auto t : g_[n].outputs) {
    if (t == TensorId::None || g_[t].role == graph::TensorRole::Updated) continue;
    for (int to : stages_reading(t)) {
      if (travels_summed(t, to)) {
        sums_to_send_.emplace_back(t, to);
        continue;
      }
      const auto b = lies_at(t);
      ensure(b != kNoBuffer, "a result is in memory when it is sent");
      send(t, to, in_format(b, Key{t}, Format::Plain, body), body);
      if (per_micro_batch(kind(body))) keep_until_taken(n, to, body);
    }
  }
}

/// What was sent last must outlive the body it was filled in: the micro-batch has not ended before its backward pass. A gradient that goes
/// past other stages is taken when they have had their turn, and further micro-batches have passed here by then. It has as many places as
/// the stage that takes it has micro-batches in flight: the pass that needs a place anew follows one of that stage, which by then has
/// finished the micro-batch that was there.
void RoleBuilder::keep_until_taken(NodeId n, int to, std::uint16_t body) {
  const auto& send = role_.bodies[body].instructions.back();
  const auto owner = base(send.inputs.front());
  auto& buffer = role_.buffers[owner];
  if (buffer.lifetime == Lifetime::Transient) buffer.lifetime = Lifetime::Saved;
  const auto part = [&](NodeId node) { return c_.pipeline.part_of_node[graph::index(node)]; };
  const auto& readers = c_.consumers[graph::index(send.tensor)];
  const bool far = std::any_of(readers.begin(), readers.end(), [&](NodeId r) { return c_.stages[r] == to && part(r) < part(n) - 1; });
  const bool made_here = home_[owner] == body && (buffer.lifetime == Lifetime::Saved || buffer.lifetime == Lifetime::Sent);
  if (!far || !made_here || kind(body) != BodyKind::Backward) return;
  const auto shape = pipeline_shape(c_.plan, c_.program.micro_batches);
  const auto in_flight = [&](int stage) { return c_.pipeline.schedule->in_flight(direction_ > 0 ? stage : c_.plan.pp - 1 - stage, shape); };
  buffer.lifetime = Lifetime::Sent;
  buffer.versions = std::max({buffer.versions, in_flight(to), in_flight(stage_)});
}

/// A message is received in a body of the kind that sent it, so that both sides meet in the same slot of the schedule; where this stage has
/// several, in the first one that wants it, or the first one that runs after it was sent.
std::uint16_t RoleBuilder::body_receiving(TensorId t, std::uint16_t body) const {
  const auto producer = g_[t].producer;
  const auto sent_in = body_of(producer);
  if (!per_micro_batch(kind(sent_in))) return std::min(body, sent_in);
  const auto in_time = [&](std::uint16_t b) { return runs_late(b) ? backward_[role_.bodies[b].chunk] : b; };
  if (kind(body) == kind(sent_in)) {
    auto first = in_time(body);
    for (const NodeId n : c_.consumers[graph::index(t)])
      if (runs_here(n) && kind(body_of(n)) == kind(sent_in)) first = std::min(first, in_time(body_of(n)));
    return first;
  }
  const auto& p = c_.pipeline;
  const int part = p.part_of_node[graph::index(producer)], chunks = p.shape.chunks;
  const bool forward = kind(sent_in) == BodyKind::Forward;
  for (int i = 0; i < chunks; ++i) {
    const int chunk = forward ? i : chunks - 1 - i;
    const int own = part_of(p.schedule->placement, p.shape, stage_, chunk);
    if (forward ? own > part : own < part) return (forward ? forward_ : backward_)[static_cast<std::size_t>(chunk)];
  }
  return forward ? forward_.back() : backward_.front();
}

BufferIndex RoleBuilder::receive(TensorId t, std::uint16_t body) {
  const int from = stage_of_tensor(t);
  ensure(from != kAnyStage && from != stage_, "an operand is computed before it is used");
  const bool summed = travels_summed(t, stage_);
  const auto where = summed ? update_ : body_receiving(t, body);
  const Key key{t, -1, Format::Plain, false};
  auto layout = c_.sharding.layout(t);
  if (summed) layout[c_.time_axis] = {};
  const auto b = new_buffer(describe(t, layout, where), &key);
  if (summed) accumulators_[t] = b;
  role_.buffers[b].category = g_[t].role == graph::TensorRole::Gradient ? MemoryCategory::Gradients : MemoryCategory::Activations;
  auto receive = instruction(InstructionKind::Receive, t, where, {}, {b});
  receive.stream = Stream::Receive;
  receive.phase = g_[g_[t].producer].phase;
  receive.message = message(from, channel(t, stage_));
  emit(where, std::move(receive));
  if (per_micro_batch(role_.bodies[where].kind) && time_summed_.contains(t)) accumulated(t, b, where);
  return b;
}

void RoleBuilder::exchange_updated_parameters() {
  if (c_.plan.pp == 1) return;
  for (const auto& p : c_.training.parameters) {
    if (p.update == NodeId::None) continue;
    const int owner = c_.stages[p.update];
    std::set<int> readers;
    for (auto n : c_.consumers[graph::index(p.value)])
      if (c_.stages[n] != kAnyStage && c_.stages[n] != owner) readers.insert(c_.stages[n]);
    for (int reader : readers) {
      if (stage_ != owner && stage_ != reader) continue;
      refuse_ages(p.value, owner, reader);
      const bool sends = stage_ == owner;
      auto i = instruction(sends ? InstructionKind::Send : InstructionKind::Receive, p.value, update_, {}, {});
      // Without a flush they have a whole step's time: the next step's activations must not queue behind them.
      i.stream = c_.pipeline.schedule->asynchronous ? Stream::Collective : sends ? Stream::Send : Stream::Receive;
      (sends ? i.inputs : i.outputs).push_back(version_of(stored_buffer(p.value), WeightVersion::Next));
      i.message = message(sends ? reader : owner, channel(p.value, reader));
      emit(update_, std::move(i));
    }
  }
}

}  // namespace rehearsal::plan
