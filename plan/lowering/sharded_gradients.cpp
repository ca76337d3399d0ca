#include "plan/lowering/sharded_gradients.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "plan/memory/planner.hpp"

namespace rehearsal::plan {

using graph::Phase;
using graph::TensorId;

namespace {

bool is_scatter(const ConversionStep& step) { return step.kind == ConversionKind::ReduceScatter; }

}  // namespace

/// That which sums a gradient and deals it out, for this stage's update alone; -1: there is none.
int RoleBuilder::DealtGradients::conversion_of(TensorId t) const {
  const auto& conversions = b_.c_.sharding.conversions;
  int found = -1;
  for (std::size_t i = 0; i < conversions.size(); ++i) {
    if (conversions[i].tensor != t) continue;
    const auto& steps = conversions[i].steps;
    const bool sums =
        std::all_of(steps.begin(), steps.end(), [](const auto& s) { return is_scatter(s) || s.kind == ConversionKind::AllReduce; });
    // What backward nodes want is one micro-batch's: an activation's gradient is not added up.
    if (!sums || std::count_if(steps.begin(), steps.end(), is_scatter) != 1 || !b_.is_for_update(conversions[i]) || found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

void RoleBuilder::DealtGradients::plan(const std::vector<TensorId>& gradients) {
  for (const auto t : gradients)
    if (const int conversion = conversion_of(t); conversion >= 0) add_to_bucket(t, conversion);
  for (auto& bucket : buckets_) close(bucket);
}

void RoleBuilder::DealtGradients::add_to_bucket(TensorId t, int conversion) {
  const auto& steps = b_.c_.sharding.conversions[static_cast<std::size_t>(conversion)].steps;
  const auto& scatter = *std::find_if(steps.begin(), steps.end(), is_scatter);
  Bucket wanted;
  wanted.axis = scatter.axis;
  wanted.dtype = b_.g_[t].type.dtype;
  wanted.body = adds_up_vectors() ? std::uint16_t{0} : b_.body_of(b_.g_[t].producer);
  for (const auto& s : steps)
    if (!is_scatter(s) && s.axis != b_.c_.time_axis) wanted.sums.push_back(s.axis);

  Redistribution r;
  r.tensor = t;
  r.from = r.to = b_.c_.sharding.layout(t);
  r.to[scatter.axis] = scatter.to;
  r.axis = scatter.axis;
  r.kind = scatter.kind;
  const auto dealing = dealing_of(b_.c_.sharding, r, b_.at_.front());
  const auto most = b_.c_.options.bucket_bytes / static_cast<std::int64_t>(size_of(wanted.dtype));
  wanted.straight = b_.travels_alone(dealing, wanted.dtype) && !b_.is_wanted_in_parts(t);
  auto open = std::find_if(buckets_.rbegin(), buckets_.rend(), [&](const Bucket& b) { return b.alike(wanted) && !b.straight; });
  if (wanted.straight || open == buckets_.rend() || open->elements + dealing.count > most) {
    buckets_.push_back(std::move(wanted));
    open = buckets_.rbegin();
  }
  open->elements += dealing.count;
  places_[t] = {static_cast<std::size_t>(buckets_.rend() - open) - 1, open->gradients.size()};
  open->gradients.push_back({t, conversion, std::move(r), dealing.out});
}

/// Nothing more comes into it.
void RoleBuilder::DealtGradients::close(Bucket& bucket) {
  const auto count = static_cast<std::int32_t>(bucket.gradients.size());
  bucket.missing = bucket.gradients.size();
  bucket.redistribution = static_cast<std::int32_t>(b_.role_.redistributions.size());
  for (std::int32_t n = 0; n < count; ++n) {
    auto& r = bucket.gradients[static_cast<std::size_t>(n)].redistribution;
    r.before = n;
    r.behind = count - 1 - n;
    b_.role_.redistributions.push_back(r);
  }
  if (adds_up_vectors() || bucket.straight) make_vector(bucket, adds_up_vectors() ? Lifetime::Step : Lifetime::Transient);
  if (!bucket.straight) return;
  auto& only = bucket.gradients.front();
  auto whole = retyped(b_.describe(only.tensor, bucket.body), b_.role_.buffers[bucket.vector].dtype);
  whole.part_of = bucket.vector;
  only.place = b_.new_buffer(std::move(whole), nullptr);
}

BufferIndex RoleBuilder::DealtGradients::place_of(TensorId t) const {
  const auto at = places_.find(t);
  return at == places_.end() || adds_up_vectors() ? kNoBuffer : buckets_[at->second.bucket].gradients[at->second.gradient].place;
}

void RoleBuilder::DealtGradients::make_vector(Bucket& bucket, Lifetime lifetime) {
  const TensorId first = bucket.gradients.front().tensor;
  Buffer vector;
  vector.tensor = first;
  vector.name = b_.g_[first].name + (bucket.gradients.size() > 1 ? " and " + std::to_string(bucket.gradients.size() - 1) + " more" : "") +
                ":" + std::string(name(ConversionKind::ReduceScatter));
  vector.dtype = adds_up_vectors() ? sum_type(bucket.dtype) : bucket.dtype;
  vector.shapes = {{bucket.elements}};
  vector.bytes = bucket.elements * static_cast<std::int64_t>(size_of(vector.dtype));
  vector.category = keeps_whole_sums() ? MemoryCategory::Gradients : MemoryCategory::Communication;
  vector.lifetime = lifetime;
  bucket.vector = b_.new_buffer(std::move(vector), nullptr);
}

void RoleBuilder::DealtGradients::add(TensorId t, BufferIndex made, std::uint16_t body) {
  const auto place = places_.at(t);
  auto& bucket = buckets_[place.bucket];
  take_in(bucket, bucket.gradients[place.gradient], made, body);
  bucket.last = std::max(bucket.last, b_.last_of_backward(body));
  if (--bucket.missing > 0) return;
  if (!adds_up_vectors() && !bucket.straight) pack(bucket, body);
  if (keeps_whole_sums() && b_.is_bidirectional()) return;  // its micro-batches' are missing
  scatter(bucket, !keeps_whole_sums() ? body : b_.c_.plan.overlap ? bucket.last : b_.update_);
}

void RoleBuilder::DealtGradients::take_in(Bucket& bucket, Gradient& gradient, BufferIndex made, std::uint16_t body) {
  gradient.made = made;
  if (!adds_up_vectors()) {
    if (bucket.straight && made != gradient.place) b_.copy_into(made, gradient.place, body);  // a view, or one in another format
    return;
  }
  const auto sum = bucket.straight ? gradient.place : bucket.vector;
  auto add = b_.instruction(InstructionKind::Accumulate, gradient.tensor, body, {made}, {sum});
  add.phase = Phase::Backward;
  if (!bucket.straight) add.redistribution = bucket.redistribution + gradient.redistribution.before;
  b_.emit(body, std::move(add));
}

void RoleBuilder::DealtGradients::pack(Bucket& bucket, std::uint16_t body) {
  make_vector(bucket, Lifetime::Transient);
  std::vector<BufferIndex> made;
  for (const auto& g : bucket.gradients) made.push_back(g.made);
  b_.emit_copy({InstructionKind::Pack, bucket.redistribution}, std::move(made), {bucket.vector}, body);
}

/// Whole sums travel once a step, parts of sums with every micro-batch.
When RoleBuilder::DealtGradients::when_in(std::uint16_t body) const {
  return adds_up_vectors() && per_micro_batch(b_.kind(body)) ? When::LastMicroBatch : When::Always;
}

void RoleBuilder::DealtGradients::scatter(Bucket& bucket, std::uint16_t body) {
  bucket.scattered = true;
  const auto& first = bucket.gradients.front();
  auto sent = bucket.vector;
  if (b_.travels_narrowly(bucket.vector)) sent = bucket.narrow = b_.narrowed(bucket.vector, body, when_in(body));
  std::vector<DealtOut> dealt;
  for (const auto& g : bucket.gradients) dealt.push_back(g.dealt);
  const auto& steps = b_.c_.sharding.conversions[static_cast<std::size_t>(first.conversion)].steps;
  const auto& step = *std::find_if(steps.begin(), steps.end(), is_scatter);
  const auto at = b_.emit_collective(step, bucket.redistribution, in_fewer(dealt), sent, body);
  b_.role_.bodies[body].instructions[at].when = when_in(body);
  if (!keeps_whole_sums()) unpack(bucket, body);
}

void RoleBuilder::DealtGradients::unpack(Bucket& bucket, std::uint16_t body) {
  if (bucket.narrow != kNoBuffer) b_.widen(bucket.narrow, bucket.vector, body);
  Buffer parts;
  parts.tensor = bucket.gradients.front().tensor;
  parts.name = b_.g_[parts.tensor].name + ":parts";
  parts.dtype = b_.role_.buffers[bucket.vector].dtype;
  parts.category = MemoryCategory::Gradients;
  bucket.parts = b_.new_buffer(std::move(parts), nullptr);
  set_parts(bucket, bucket.parts);
  std::vector<BufferIndex> targets;
  for (const auto& g : bucket.gradients) targets.push_back(g.part);
  b_.emit_copy({InstructionKind::Unpack, bucket.redistribution}, {bucket.vector}, std::move(targets), body);
  if (!keeps_whole_sums() && b_.c_.program.micro_batches > 1) add_up_parts(bucket, body);
}

/// The own parts of the gradients side by side in a buffer, each as many elements behind the others whatever their type.
void RoleBuilder::DealtGradients::set_parts(Bucket& bucket, BufferIndex parts) {
  const auto dtype = b_.role_.buffers[parts].dtype;
  const auto element = static_cast<std::int64_t>(size_of(dtype)), sent = static_cast<std::int64_t>(size_of(bucket.dtype));
  std::int64_t elements = 0;
  for (auto& g : bucket.gradients) {
    auto part = b_.describe(g.tensor, b_.c_.sharding.conversions[static_cast<std::size_t>(g.conversion)].to, b_.update_);
    const auto room = buffer_aligned(part.bytes) / sent;
    part = retyped(std::move(part), dtype);
    part.part_of = parts;
    part.part_offset = elements * element;
    elements += room;
    g.part = b_.new_buffer(std::move(part), nullptr);
  }
  auto& all = b_.role_.buffers[parts];
  all.bytes = elements * element;
  all.shapes = {{elements}};
}

void RoleBuilder::DealtGradients::add_up_parts(Bucket& bucket, std::uint16_t body) {
  Buffer sums = retyped(b_.role_.buffers[bucket.parts], sum_type(bucket.dtype));
  sums.lifetime = Lifetime::Step;
  const auto sum = b_.new_buffer(std::move(sums), nullptr);
  auto add = b_.instruction(InstructionKind::Accumulate, bucket.gradients.front().tensor, body, {bucket.parts}, {sum});
  add.phase = Phase::Backward;
  b_.emit(body, std::move(add));
  bucket.parts = sum;
  set_parts(bucket, sum);
}

/// Over the other axes along which they are sums: once a step, of the parts alone.
void RoleBuilder::DealtGradients::sum_parts(Bucket& bucket) {
  const auto axes = b_.joint_axes(std::exchange(bucket.sums, {}));
  const auto first = bucket.gradients.front().tensor;
  const bool narrow = !axes.empty() && b_.travels_narrowly(bucket.parts);
  const auto sent = narrow ? b_.narrowed(bucket.parts, b_.update_, When::Always) : bucket.parts;
  for (const auto axis : axes) b_.all_reduce(sent, first, {axis, b_.update_, When::Always});
  if (narrow) b_.widen(sent, bucket.parts, b_.update_);
}

BufferIndex RoleBuilder::DealtGradients::part(TensorId t, int conversion) {
  const auto at = places_.find(t);
  if (at == places_.end()) return kNoBuffer;
  auto& bucket = buckets_[at->second.bucket];
  auto& gradient = bucket.gradients[at->second.gradient];
  if (gradient.conversion != conversion) return kNoBuffer;
  ensure(bucket.scattered, "gradients are summed before the update reads them");
  if (bucket.parts == kNoBuffer) unpack(bucket, b_.update_);
  sum_parts(bucket);
  return gradient.part;
}

void RoleBuilder::DealtGradients::scatter_rest() {
  for (auto& bucket : buckets_)
    if (!bucket.scattered && bucket.missing == 0) scatter(bucket, b_.update_);
}

}  // namespace rehearsal::plan
