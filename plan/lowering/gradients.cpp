// Gradients of parameters: summed over micro-batches and replicas, in buckets that are reduced while the backward pass goes on.

#include <algorithm>

#include "plan/lowering/sharded_gradients.hpp"
#include "plan/memory/planner.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

void RoleBuilder::plan_gradients() {
  // In the order in which the backward pass produces them.
  std::vector<TensorId> gradients;
  for (const auto& p : c_.training.parameters)
    if (p.gradient != TensorId::None && g_[p.gradient].producer != NodeId::None && runs_here(g_[p.gradient].producer) &&
        kind(body_of(g_[p.gradient].producer)) == BodyKind::Backward)
      gradients.push_back(p.gradient);
  std::stable_sort(gradients.begin(), gradients.end(), [&](TensorId a, TensorId b) { return g_[a].producer < g_[b].producer; });
  gradients.erase(std::unique(gradients.begin(), gradients.end()), gradients.end());
  dealt_gradients_->plan(gradients);
  for (auto t : gradients)
    if (is_summed_only(t)) add_to_bucket(t);
}

/// A bucket holds gradients that are summed over the same axes, and travel in the same type.
void RoleBuilder::add_to_bucket(TensorId t) {
  auto layout = c_.sharding.layout(t);
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < layout.size(); ++a) {
    if (!layout[a].partial()) continue;
    if (a != c_.time_axis) axes.push_back(a);
    layout[a] = {};
  }
  const auto sent = describe(t, layout, backward_.front());
  auto part = c_.program.micro_batches > 1 ? retyped(sent, sum_type(sent.dtype)) : sent;
  part.lifetime = Lifetime::Step;
  auto open = std::find_if(buckets_.rbegin(), buckets_.rend(),
                           [&](const Bucket& b) { return b.axes == axes && g_[role_.buffers[b.buffer].tensor].type.dtype == sent.dtype; });
  if (open == buckets_.rend() || retyped(role_.buffers[open->buffer], sent.dtype).bytes + sent.bytes > c_.options.bucket_bytes) {
    Buffer bucket;
    bucket.name = "gradient bucket " + std::to_string(buckets_.size());
    bucket.dtype = part.dtype;
    bucket.category = MemoryCategory::Gradients;
    bucket.lifetime = Lifetime::Step;
    bucket.tensor = t;
    buckets_.push_back({{}, new_buffer(std::move(bucket), nullptr), 0, axes, 0});
    open = buckets_.rbegin();
  }
  auto& whole = role_.buffers[open->buffer];
  part.part_of = open->buffer;
  part.part_offset = whole.bytes;
  whole.bytes += buffer_aligned(part.bytes);
  whole.shapes = {{whole.bytes / static_cast<std::int64_t>(size_of(whole.dtype))}};
  open->gradients.push_back(t);
  ++open->missing;
  bucket_of_[t] = static_cast<std::size_t>(&*open - buckets_.data());
  part_of_bucket_[t] = new_buffer(std::move(part), nullptr);
}

/// True when all that the update wants of a gradient is to be summed, over ranks or micro-batches.
bool RoleBuilder::is_summed_only(TensorId gradient) const {
  bool summed = false;
  for (const auto& conversion : c_.sharding.conversions) {
    if (conversion.tensor != gradient) continue;
    for (const auto& step : conversion.steps)
      if (step.kind != ConversionKind::AllReduce) return false;
    summed = true;
  }
  return summed && !is_wanted_in_parts(gradient);
}

bool RoleBuilder::is_for_update(const Conversion& conversion) const {
  return std::all_of(conversion.consumers.begin(), conversion.consumers.end(),
                     [&](const Use& use) { return runs_here(use.node) && body_of(use.node) == update_; });
}

void RoleBuilder::gradient_produced(TensorId t, BufferIndex source, std::uint16_t body) {
  if (const auto part = part_of_bucket_.at(t); c_.program.micro_batches > 1)
    accumulated(t, source, body);
  else if (source != part)
    copy_into(source, part, body);  // a view, or a gradient in another format
  const auto bucket = bucket_of_.at(t);
  auto& last = buckets_[bucket].last;
  last = std::max(last, last_of_backward(body));
  if (--buckets_[bucket].missing > 0 || (is_bidirectional() && !c_.plan.overlap)) return;
  reduce_bucket(bucket, c_.plan.overlap ? last : update_);
}

/// overlap=off: gradients could be summed as soon as they are there, wherever that is written; the first sum of the update, and with it all
/// that follow on its stream, waits for the end of the backward passes.
void RoleBuilder::hold_sums_back() {
  const auto last = weights_.empty() ? backward_.front() : weights_.front();
  const auto& passes = role_.bodies[last].instructions;
  const auto computed = std::find_if(passes.rbegin(), passes.rend(),
                                     [](const Instruction& i) { return i.stream == Stream::Compute && i.when != When::FirstMicroBatch; });
  if (computed == passes.rend()) return;
  auto& updates = role_.bodies[update_].instructions;
  const auto sum = std::find_if(updates.begin(), updates.end(), [](const Instruction& i) { return i.kind == InstructionKind::Collective; });
  if (sum != updates.end()) sum->after.push_back({last, static_cast<std::uint32_t>(passes.rend() - computed - 1)});
}

void RoleBuilder::reduce_bucket(std::size_t index, std::uint16_t body) {
  const auto& bucket = buckets_[index];
  const auto when = body == update_ ? When::Always : When::LastMicroBatch;
  const auto axes = joint_axes(bucket.axes);
  if (const auto first = bucket.gradients.front(); !axes.empty() && travels_compressed(first)) {
    std::vector<BufferIndex> parts;
    for (const auto t : bucket.gradients) parts.push_back(part_of_bucket_.at(t));
    compressed_buckets_[index] = sum_compressed(bucket.buffer, std::move(parts), {axis_of_compressed(first, axes), body, when});
    return;
  }
  if (replicas_part() && is_of_parameter(bucket.gradients.front()))
    return sum_within_replica(bucket.buffer, bucket.gradients.front(), bucket.axes, {axis_of_replicas(), body, when});
  auto sum = bucket.buffer;
  if (!axes.empty() && travels_narrowly(bucket.buffer)) narrow_buckets_[index] = sum = narrowed(sum, body, when);
  for (const auto axis : axes) all_reduce(sum, bucket.gradients.front(), {axis, body, when});
}

}  // namespace rehearsal::plan
