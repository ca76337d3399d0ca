// Gradients of parameters: summed over micro-batches and replicas, in buckets that are reduced while the backward pass goes on.

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"
#include "plan/memory/planner.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

}  // namespace

void RoleBuilder::plan_buckets() {
  // In the order in which the backward pass produces them.
  std::vector<TensorId> gradients;
  for (const auto& p : c_.training.parameters)
    if (p.gradient != TensorId::None && g_[p.gradient].producer != NodeId::None && runs_here(g_[p.gradient].producer) &&
        body_of(g_[p.gradient].producer) == backward_ && is_summed_everywhere(p))
      gradients.push_back(p.gradient);
  std::stable_sort(gradients.begin(), gradients.end(), [&](TensorId a, TensorId b) { return g_[a].producer < g_[b].producer; });
  gradients.erase(std::unique(gradients.begin(), gradients.end()), gradients.end());
  const bool summed_over_ranks = c_.plan.dp > 1;
  if (!summed_over_ranks && c_.program.micro_batches == 1) return;
  std::int64_t filled = 0;
  for (auto t : gradients) {
    const auto shapes = shapes_of(t, c_.sharding.layout(t));
    auto part = describe(t, c_.sharding.layout(t), shapes, backward_);
    part.lifetime = Lifetime::Step;
    const bool full = filled > 0 && filled + part.bytes > c_.options.bucket_bytes;
    const bool other_type = !buckets_.empty() && role_.buffers[buckets_.back().buffer].dtype != part.dtype;
    if (buckets_.empty() || full || other_type) {
      Buffer bucket;
      bucket.name = "gradient bucket " + std::to_string(buckets_.size());
      bucket.dtype = part.dtype;
      bucket.category = MemoryCategory::Gradients;
      bucket.lifetime = Lifetime::Step;
      buckets_.push_back({{}, new_buffer(std::move(bucket), nullptr), 0});
      filled = 0;
    }
    auto& bucket = buckets_.back();
    part.part_of = bucket.buffer;
    part.part_offset = filled;
    filled += aligned(part.bytes);
    bucket.gradients.push_back(t);
    ++bucket.missing;
    auto& whole = role_.buffers[bucket.buffer];
    whole.bytes = filled;
    whole.shapes = {{filled / static_cast<std::int64_t>(size_of(whole.dtype))}};
    whole.tensor = bucket.gradients.front();
    bucket_of_[t] = buckets_.size() - 1;
    part_of_bucket_[t] = new_buffer(std::move(part), nullptr);
  }
}

/// True when the update wants the gradient summed over every axis that splits the batch (a gradient that does not depend on the samples is
/// not).
bool RoleBuilder::is_summed_everywhere(const graph::TrainedParameter& p) const {
  const auto& layout = c_.sharding.layout(p.gradient);
  return std::all_of(layout.begin(), layout.end(), [](const AxisLayout& axis) { return axis.partial(); });
}

bool RoleBuilder::is_bucketed(TensorId t) const { return bucket_of_.contains(t); }

void RoleBuilder::gradient_produced(TensorId t, BufferIndex source, std::uint16_t body) {
  const auto part = part_of_bucket_.at(t);
  if (c_.program.micro_batches > 1) {
    accumulated(t, source, body);
  } else if (source != part) {
    Instruction copy;  // a view, or a gradient in another format
    copy.kind = InstructionKind::Reorder;
    copy.phase = Phase::Backward;
    copy.tensor = t;
    copy.inputs = {source};
    copy.outputs = {part};
    copy.kernel = static_cast<std::int32_t>(role_.kernels.size());
    role_.kernels.push_back({"reorder", {role_.buffers[source].format}, {Format::Plain}, 0});
    emit(body, std::move(copy));
  }
  const auto bucket = bucket_of_.at(t);
  if (--buckets_[bucket].missing == 0 && c_.plan.dp > 1) reduce_bucket(bucket, c_.plan.overlap ? body : update_);
}

void RoleBuilder::reduce_bucket(std::size_t index, std::uint16_t body) {
  const auto& bucket = buckets_[index];
  all_reduce(bucket.buffer, bucket.gradients.front(), body, body == update_ ? When::Always : When::LastMicroBatch);
}

std::string RoleBuilder::allreduce_algorithm(std::int64_t bytes) const {
  if (c_.plan.allreduce != "auto") return c_.plan.allreduce;
  if (!c_.options.links) return "ring";
  return std::string(best_collective(CollectiveKind::AllReduce, c_.plan.dp, Bytes(static_cast<double>(bytes)), *c_.options.links).name);
}

}  // namespace rehearsal::plan
