// Conversions of a tensor from the layout in which it lies to the one in which it is wanted, axis by axis.

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/algorithms.hpp"
#include "plan/lowering/gathered_parameters.hpp"
#include "plan/lowering/sharded_gradients.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

CollectiveKind collective_of(ConversionKind kind) {
  switch (kind) {
    case ConversionKind::ReduceScatter:
      return CollectiveKind::ReduceScatter;
    case ConversionKind::AllGather:
      return CollectiveKind::AllGather;
    case ConversionKind::AllToAll:
      return CollectiveKind::AllToAll;
    case ConversionKind::Halo:
      return CollectiveKind::Halo;
    case ConversionKind::Shift:
      return CollectiveKind::Shift;
    default:
      return CollectiveKind::AllReduce;
  }
}

}  // namespace

BufferIndex RoleBuilder::converted(int index, BufferIndex source, std::uint16_t body) {
  const auto& conversion = c_.sharding.conversions[static_cast<std::size_t>(index)];
  if (const auto part = dealt_gradients_->part(conversion.tensor, index); part != kNoBuffer) return part;
  // Micro-batches are summed before ranks: one message a step instead of one a micro-batch.
  auto steps = conversion.steps;
  std::stable_partition(steps.begin(), steps.end(), [&](const ConversionStep& step) {
    return step.axis == c_.time_axis && step.kind == ConversionKind::AllReduce;  // slices go from outer axes to inner ones
  });
  const bool bucketed = part_of_bucket_.contains(conversion.tensor);
  const bool before = once_a_step_;
  once_a_step_ = once_a_step_ || is_gathered_once(conversion);
  BufferIndex b = source;
  for (std::size_t i = 0; i < steps.size();) {
    // What is computed once before the loop is converted there, whoever asks first: nodes before the loop may ask later.
    const bool early = home_[base(b)] == prologue_ && steps[i].axis != c_.time_axis;
    const auto where = early ? prologue_ : body;
    const std::size_t together = bucketed ? 1 : std::max<std::size_t>(1, sums_together(steps, i));
    b = together > 1 ? summed(conversion, std::span(steps).subspan(i, together), b, where) : apply_step(conversion, steps[i], b, where);
    i += together;
  }
  if (once_a_step_ && b != source) keep_for_backward(b);
  once_a_step_ = before;
  const Key key{conversion.tensor, index, role_.buffers[b].format, false};
  buffers_[key] = b;
  return b;
}

/// Of parameters that are stored in parts: stages 1 and 2 of ZeRO have whole ones from the first use to the last one of a step; stage 3
/// gathers them wherever they are used.
bool RoleBuilder::is_gathered_once(const Conversion& conversion) const {
  if (c_.plan.zero == 3 || g_[conversion.tensor].role != graph::TensorRole::Parameter) return false;
  return std::any_of(conversion.steps.begin(), conversion.steps.end(), [&](const ConversionStep& step) {
    return step.kind == ConversionKind::AllGather && c_.sharding.axes[step.axis].deals_out_updates;
  });
}

void RoleBuilder::keep_for_backward(BufferIndex gathered) {
  auto& buffer = role_.buffers[base(gathered)];
  if (c_.program.micro_batches > 1) buffer.lifetime = Lifetime::Step;
  buffer.category = MemoryCategory::Parameters;
}

BufferIndex RoleBuilder::apply_step(const Conversion& conversion, const ConversionStep& step, BufferIndex source, std::uint16_t body) {
  const auto t = conversion.tensor;
  if (step.from.partial()) refuse_unless_reducible(conversion, step);
  if (step.kind == ConversionKind::AllReduce) {
    if (const auto bucketed = part_of_bucket_.find(t); bucketed != part_of_bucket_.end()) {
      widen_bucket(bucket_of_.at(t), body);
      return bucketed->second;  // done by their bucket
    }
    if (step.axis != c_.time_axis) return summed(conversion, {&step, 1}, source, body);
    const auto sum = accumulators_.find(t);
    ensure(sum != accumulators_.end(), "a sum over micro-batches is accumulated where it is produced");
    return sum->second;
  }
  Buffer target = after_step(conversion, step, source, body);
  if (step.axis == c_.time_axis) {
    if (step.kind != ConversionKind::Slice) refuse_in_time(conversion, step);
    return cut({InstructionKind::Slice, step.axis}, source, std::move(target), body);
  }
  if (step.kind == ConversionKind::Slice) return cut({InstructionKind::Slice, step.axis}, source, std::move(target), body);
  if (step.kind == ConversionKind::Mask) return cut({InstructionKind::Mask, step.axis}, source, std::move(target), body);
  if (step.kind == ConversionKind::Halo && every_rank_has(step, source, target))
    return role_.buffers[source].shapes == target.shapes ? source
                                                         : cut({InstructionKind::Slice, step.axis}, source, std::move(target), body);
  return redistributed(step, source, new_buffer(std::move(target), nullptr), body);
}

/// Of what a micro-batch computes another one cannot be given a part: they follow each other.
void RoleBuilder::refuse_in_time(const Conversion& conversion, const ConversionStep& step) const {
  const auto user = conversion.consumers.empty() ? std::string("the result") : "node '" + g_[conversion.consumers.front().node].name + "'";
  throw NoMicroBatches("micro-batches: " + user + " wants " + g_[conversion.tensor].name + " sharded in another way (" +
                       std::string(name(step.kind)) + ") than micro-batches compute it; let a micro-batch be the replica's whole batch");
}

/// Sums are what micro-batches accumulate, and what 16-bit numbers are added up to between ranks.
void RoleBuilder::refuse_unless_reducible(const Conversion& conversion, const ConversionStep& step) const {
  if (step.from.reduction == graph::LabelKind::Sum) return;
  const auto& tensor = g_[conversion.tensor];
  const bool in_time = step.axis == c_.time_axis;
  if (!in_time && (!is_float(tensor.type.dtype) || size_of(tensor.type.dtype) >= 4)) return;
  const auto user = conversion.consumers.empty() ? std::string("the result") : "node " + g_[conversion.consumers.front().node].name;
  throw Refusal("plan: " + user + " needs the " + std::string(graph::name(step.from.reduction)) + " of " + tensor.name + " over all " +
                (in_time ? "micro-batches, which are only summed; use one micro-batch"
                         : "ranks of " + c_.sharding.axes[step.axis].name + ", which " + std::string(name(tensor.type.dtype)) +
                               " cannot; use " + c_.sharding.axes[step.axis].name + "=1"));
}

/// What a step leaves of its source: the same tensor in another layout.
Buffer RoleBuilder::after_step(const Conversion& conversion, const ConversionStep& step, BufferIndex source, std::uint16_t body) {
  Layout layout = role_.buffers[source].layout;
  layout[step.axis] = step.to;
  const bool has_halo = std::any_of(layout.begin(), layout.end(), [](const AxisLayout& l) { return l.halo != 0; });
  const bool own_dims = has_halo || g_[conversion.tensor].role == graph::TensorRole::Constant;
  if (own_dims && !conversion.consumers.empty()) {
    const Use& use = conversion.consumers.front();
    return describe_operand(use.node, use.operand, layout, body);
  }
  auto buffer = describe(conversion.tensor, layout, body);
  buffer.category = role_.buffers[base(source)].category == MemoryCategory::Gradients ? MemoryCategory::Gradients : buffer.category;
  if (buffer.category == MemoryCategory::Parameters) buffer.category = MemoryCategory::Communication;
  return is_wide_sum(source) ? retyped(std::move(buffer), role_.buffers[source].dtype) : buffer;
}

BufferIndex RoleBuilder::cut(LocalStep step, BufferIndex source, Buffer target, std::uint16_t body) {
  const auto from = plain(source, body);
  const auto b = new_buffer(std::move(target), nullptr);
  auto i = instruction(step.kind, role_.buffers[b].tensor, body, {from}, {b});
  i.axis = static_cast<std::int8_t>(step.axis);
  emit(body, std::move(i));
  return b;
}

/// Of a buffer that may be one of several of its tensor.
BufferIndex RoleBuilder::in_format(BufferIndex source, Format format, std::uint16_t body) {
  return in_format(source, Key{role_.buffers[source].tensor, -2 - static_cast<int>(source), format, false}, format, body);
}

BufferIndex RoleBuilder::plain(BufferIndex source, std::uint16_t body) { return in_format(source, Format::Plain, body); }

/// How many steps from `first` on are sums of one kind between ranks.
std::size_t RoleBuilder::sums_together(const std::vector<ConversionStep>& steps, std::size_t first) const {
  std::size_t end = first;
  const auto joins = [&](const ConversionStep& s) {
    return s.kind == ConversionKind::AllReduce && s.axis != c_.time_axis && s.to.replicated() &&
           s.from.reduction == steps[first].from.reduction;
  };
  while (end < steps.size() && joins(steps[end])) ++end;
  return end - first;
}

/// Axes of the mesh that cover these of the sharding: neighbours as one.
std::vector<std::size_t> RoleBuilder::joint_axes(const std::vector<std::size_t>& axes) const {
  std::vector<std::size_t> left, found;
  for (const auto a : axes) left.push_back(c_.mesh_axis[a]);
  std::sort(left.begin(), left.end());
  for (std::size_t i = 0; i < left.size();) {
    std::size_t best = left[i], count = 1;
    std::string name = c_.program.axes[best].name;
    for (std::size_t n = i + 1; n < left.size(); ++n) {
      name += "." + c_.program.axes[left[n]].name;
      const auto joint =
          std::find_if(c_.program.axes.begin(), c_.program.axes.end(), [&](const MeshAxisInfo& m) { return m.name == name; });
      if (joint == c_.program.axes.end()) break;
      best = static_cast<std::size_t>(joint - c_.program.axes.begin());
      count = n - i + 1;
    }
    found.push_back(best);
    i += count;
  }
  return found;
}

/// Sums in place where nobody else wants the parts.
BufferIndex RoleBuilder::summed(const Conversion& conversion, std::span<const ConversionStep> steps, BufferIndex source,
                                std::uint16_t body) {
  BufferIndex b = source;
  if (is_wanted_in_parts(conversion.tensor)) b = copy_of(source, body);
  std::vector<std::size_t> axes;
  for (const auto& step : steps) {
    refuse_unless_reducible(conversion, step);
    role_.buffers[b].layout[step.axis] = step.to;
    axes.push_back(step.axis);
  }
  if (replicas_part() && is_of_parameter(conversion.tensor) && is_for_update(conversion)) {
    sum_within_replica(b, conversion.tensor, axes, {axis_of_replicas(), body, When::Always, steps.front().from.reduction});
    return b;
  }
  if (travels_compressed(conversion.tensor) && is_for_update(conversion)) {
    decompress(sum_compressed(b, {b}, {axis_of_compressed(conversion.tensor, joint_axes(axes)), body, When::Always}), body);
    return b;
  }
  if (replicas_part()) scale_to_all(b, conversion.tensor, {axis_of_replicas(), body, When::Always}, axes);
  const bool narrow = travels_narrowly(b) && is_for_update(conversion);
  const auto sum = narrow ? narrowed(b, body, When::Always) : b;
  for (const auto axis : joint_axes(axes)) all_reduce(sum, conversion.tensor, {axis, body, When::Always, steps.front().from.reduction});
  if (narrow) widen(sum, b, body);
  return b;
}

BufferIndex RoleBuilder::copy_of(BufferIndex source, std::uint16_t body) {
  Buffer copy = by_itself(role_.buffers[source]);
  copy.lifetime = lifetime_in(body);
  return copy_into(source, new_buffer(std::move(copy), nullptr), body);
}

BufferIndex RoleBuilder::copy_into(BufferIndex source, BufferIndex target, std::uint16_t body) {
  auto reorder = instruction(InstructionKind::Reorder, role_.buffers[source].tensor, body, {source}, {target});
  reorder.kernel = static_cast<std::int32_t>(role_.kernels.size());
  role_.kernels.push_back({"reorder", {role_.buffers[source].format}, {role_.buffers[target].format}, 0});
  emit(body, std::move(reorder));
  return target;
}

/// Is a tensor, whose sum someone wants, also read or sent as it was produced, or wanted in a second layout?
bool RoleBuilder::is_wanted_in_parts(TensorId t) const {
  if (!stages_reading(t).empty()) return true;
  const auto& uses = c_.consumers[graph::index(t)];
  int wanted = -1;
  for (const NodeId n : uses) {
    for (std::size_t i = 0; i < g_[n].inputs.size(); ++i) {
      if (g_[n].inputs[i] != t) continue;
      const int fed = c_.sharding.fed_by[graph::index(n)][i];
      if (fed < 0 || (wanted >= 0 && fed != wanted)) return true;
      wanted = fed;
    }
  }
  return false;
}

BufferIndex RoleBuilder::redistributed(const ConversionStep& step, BufferIndex source, BufferIndex target, std::uint16_t body) {
  Redistribution r;
  r.tensor = role_.buffers[source].tensor;
  r.user = role_.buffers[target].user;
  r.operand = role_.buffers[target].operand;
  r.from = role_.buffers[source].layout;
  r.to = role_.buffers[target].layout;
  r.axis = step.axis;
  r.kind = step.kind;
  if (gathered_parameters_->takes(r, source)) {
    gathered_parameters_->gather(step, std::move(r), {source, target}, body);
    return target;
  }
  Buffer vector = retyped(message_vector(r), role_.buffers[source].dtype);
  const bool deals_out = step.kind == ConversionKind::AllGather || step.kind == ConversionKind::ReduceScatter;
  const bool gathers = step.kind == ConversionKind::AllGather;
  bool straight = gathers || (step.kind == ConversionKind::ReduceScatter && !is_wanted_in_parts(r.tensor));  // a tensor is its own vector
  std::vector<DealtOut> dealt;
  for (const auto& at : at_) {
    const auto dealing = deals_out ? dealing_of(c_.sharding, r, at) : Dealing{{}, packing_of(c_.sharding, r, at).count, false};
    straight = straight && dealing.in_order;
    if (deals_out) dealt = {{dealing.out.units, 1}};
    vector.shapes.push_back({dealing.count});
  }
  set_bytes(vector);
  const auto number = static_cast<std::int32_t>(role_.redistributions.size());
  const bool exchanges = step.kind == ConversionKind::AllToAll || step.kind == ConversionKind::Halo;
  const auto old = plain(source, body);
  const auto message = !straight ? new_buffer(std::move(vector), nullptr) : gathers ? target : old;
  role_.redistributions.push_back(std::move(r));
  if (message != old) emit_copy({InstructionKind::Pack, number}, {old}, {message}, body);
  const bool narrow = step.kind == ConversionKind::ReduceScatter && travels_narrowly(message);
  const auto sent = narrow ? narrowed(message, body, When::Always) : message;
  emit_collective(step, number, std::move(dealt), sent, body);
  if (narrow) widen(sent, message, body);
  if (message != target)
    emit_copy({InstructionKind::Unpack, number}, exchanges ? std::vector{message, old} : std::vector{message}, {target}, body);
  return target;
}

/// What fills half a message or more is no better off with others, where it needs no packing by itself.
bool RoleBuilder::travels_alone(const Dealing& dealing, DType dtype) const {
  return dealing.in_order && 2 * dealing.count * static_cast<std::int64_t>(size_of(dtype)) > c_.options.bucket_bytes;
}

/// Writes what an update made to where it is stored, which lies in another layout.
void RoleBuilder::store_converted(TensorId t, BufferIndex source, std::uint16_t body) {
  const auto& conversion = c_.sharding.conversions[static_cast<std::size_t>(conversion_into_storage(t))];
  const auto stored = version_of(stored_buffer(g_[t].stored_in), WeightVersion::Next);
  BufferIndex b = source;
  for (std::size_t i = 0; i + 1 < conversion.steps.size(); ++i) b = apply_step(conversion, conversion.steps[i], b, body);
  const auto& last = conversion.steps.back();
  if (last.kind == ConversionKind::AllGather)
    redistributed(last, b, stored, body);
  else
    copy_into(apply_step(conversion, last, b, body), stored, body);
}

/// Windows that tile the blocks, or jump over rows, need none of the neighbours'.
bool RoleBuilder::every_rank_has(const ConversionStep& step, BufferIndex source, const Buffer& target) const {
  const Redistribution r{target.tensor, target.user, target.operand, role_.buffers[source].layout, target.layout, step.axis, step.kind};
  auto at = at_.front();
  for (at[step.axis] = 0; at[step.axis] < c_.sharding.axes[step.axis].size; ++at[step.axis])
    if (!contains(region_before(c_.sharding, r, at), region_after(c_.sharding, r, at))) return false;
  return true;
}

Buffer RoleBuilder::message_vector(const Redistribution& r) const {
  Buffer vector;
  vector.tensor = r.tensor;
  vector.name = g_[r.tensor].name + ":" + std::string(name(r.kind));
  vector.dtype = g_[r.tensor].type.dtype;
  vector.category = MemoryCategory::Communication;
  vector.lifetime = Lifetime::Transient;
  return vector;
}

std::uint32_t RoleBuilder::emit_copy(PackingStep step, std::vector<BufferIndex> from, std::vector<BufferIndex> to, std::uint16_t body) {
  const auto tensor = role_.buffers[step.kind == InstructionKind::Pack ? to.front() : from.front()].tensor;
  auto i = instruction(step.kind, tensor, body, std::move(from), std::move(to));
  i.redistribution = step.redistribution;
  return emit(body, std::move(i));
}

std::uint32_t RoleBuilder::emit_collective(const ConversionStep& step, std::int32_t redistribution, std::vector<DealtOut> dealt,
                                           BufferIndex vector, std::uint16_t body) {
  const auto mesh_axis = c_.mesh_axis[step.axis];
  const auto kind = collective_of(step.kind);
  const auto reduction = step.from.partial() ? step.from.reduction : graph::LabelKind::Sum;
  return emit_collective({kind, algorithm(kind, mesh_axis, role_.buffers[vector].bytes), {}, std::move(dealt), redistribution, reduction},
                         vector, role_.buffers[vector].tensor, {mesh_axis, body, When::Always});
}

/// A message, or several, among the ranks of an axis, of a vector where it lies.
std::uint32_t RoleBuilder::emit_collective(CollectiveInfo info, BufferIndex vector, TensorId t, SumPlace place) {
  auto i = instruction(InstructionKind::Collective, t, place.body, {vector}, {vector});
  i.stream = Stream::Collective;
  i.when = place.when;
  i.collective = static_cast<std::int32_t>(role_.collectives.size());
  info.axis = static_cast<std::uint8_t>(place.mesh_axis);
  role_.collectives.push_back(std::move(info));
  return emit(place.body, std::move(i));
}

void RoleBuilder::all_reduce(BufferIndex buffer, TensorId t, SumPlace place) {
  const auto named = algorithm(CollectiveKind::AllReduce, place.mesh_axis, role_.buffers[buffer].bytes);
  const auto at = emit_collective({CollectiveKind::AllReduce, named, {}, {}, -1, place.reduction}, buffer, t, place);
  if (kind(place.body) != BodyKind::Forward) role_.bodies[place.body].instructions[at].phase = Phase::Backward;
}

std::string RoleBuilder::algorithm(CollectiveKind kind, std::size_t mesh_axis, std::int64_t bytes) const {
  if (kind == CollectiveKind::AllToAll || kind == CollectiveKind::Halo || kind == CollectiveKind::Shift) return std::string(kExchange);
  return quickest(kind, mesh_axis, bytes);
}

/// By the plan, or else by closed forms.
std::string RoleBuilder::quickest(CollectiveKind kind, std::size_t mesh_axis, std::int64_t bytes) const {
  if (kind == CollectiveKind::AllReduce && c_.plan.allreduce != "auto") return c_.plan.allreduce;
  const auto& axis = c_.program.axes[mesh_axis];
  if (const auto named = named_algorithm(c_.plan, {kind, axis.name, bytes}); !named.empty()) return named;
  if (c_.links.empty()) {
    if (kind == CollectiveKind::Broadcast) return "scatter-all-gather";
    return kind == CollectiveKind::AllToAll ? "pairwise" : "ring";
  }
  auto& known = c_.quickest[{kind, mesh_axis, bytes}];
  if (known.empty()) known = best_collective(kind, axis.size, Bytes(static_cast<double>(bytes)), c_.links[mesh_axis]).name;
  return std::string(known);
}

}  // namespace rehearsal::plan
