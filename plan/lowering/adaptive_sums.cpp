// Replicas whose ways since they last met are added adaptively, tensor by tensor (Maleki et al., "Scaling distributed training with
// adaptive summation", MLSys 2021): of two ways a and b, (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b. Replicas 1 apart add theirs, then those
// 2 apart what they have then, and so on. Both of a pair compute the same from the same numbers in the same order, so that all end equal.

#include "plan/collectives/meetings.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

RoleBuilder::Way RoleBuilder::way_of(const Common& one) {
  const Buffer like = role_.buffers[one.buffer];
  Buffer both;
  both.name = "both ways:" + like.name;
  both.tensor = like.tensor;
  both.dtype = like.dtype;
  both.category = MemoryCategory::Communication;
  both.lifetime = Lifetime::Step;
  both.bytes = 2 * like.bytes;
  for (auto shape : like.shapes) {
    shape.insert(shape.begin(), 2);
    both.shapes.push_back(std::move(shape));
  }
  Buffer first = both, products = both;
  first.name = "own way:" + like.name;
  first.shapes = like.shapes;
  first.bytes = like.bytes;
  products.name = "products of ways:" + like.name;
  products.dtype = DType::F64;
  products.shapes = {{3}};
  products.bytes = 3 * static_cast<std::int64_t>(size_of(DType::F64));
  Way way{one.buffer, kept_beside(one, "met", MemoryCategory::Parameters), new_buffer(std::move(both), nullptr), kNoBuffer, kNoBuffer,
          one.node};
  first.part_of = way.both;
  way.first = new_buffer(std::move(first), nullptr);
  way.products = new_buffer(std::move(products), nullptr);
  return way;
}

void RoleBuilder::exchange_ways(const Way& way, int distance) {
  copy_into(way.own, way.first, meeting_);
  meet_by(partners_at(distance), CollectiveKind::AllGather, way.both, {meeting_, role_.buffers[way.own].tensor});
}

/// Products are of whole tensors: of those that other axes divide, the parts' products are summed.
void RoleBuilder::add_both(const Way& way) {
  emit_kernel_of(way.node, "AdaptiveSumProducts", {}, {{way.both}, meeting_, When::Always}, {way.products});
  const auto& own = role_.buffers[way.own];
  std::vector<std::size_t> divided;
  for (std::size_t axis = 0; axis < own.layout.size(); ++axis)
    if (own.layout[axis].split() && c_.mesh_axis[axis] != axis_of_replicas()) divided.push_back(axis);
  const auto tensor = own.tensor;
  for (const auto axis : joint_axes(divided)) all_reduce(way.products, tensor, {axis, meeting_, When::Always});
  emit_kernel_of(way.node, "AdaptiveSum", {}, {{way.both, way.products}, meeting_, When::Always}, {way.own});
}

/// While a tensor is added, the next one is under way.
void RoleBuilder::add_ways_adaptively(const std::vector<Common>& common) {
  std::vector<Way> ways;
  for (const auto& one : common)
    if (one.trained) ways.push_back(way_of(one));
  during_ = During::Partings;
  for (const auto& way : ways) copy_into(way.own, way.met, prologue_);
  during_ = During::Meetings;
  for (const auto& way : ways) blend(way.node, way.own, 1, way.met, -1);
  for (int distance = 1; distance < c_.plan.dp; distance *= 2)
    for (std::size_t n = 0; n < ways.size(); ++n) {
      if (n == 0) exchange_ways(ways[n], distance);
      if (n + 1 < ways.size()) exchange_ways(ways[n + 1], distance);
      add_both(ways[n]);
    }
  for (const auto& way : ways) {
    blend(way.node, way.met, 1, way.own, 1);
    copy_into(way.met, way.own, meeting_);
  }
  for (const auto& one : common)
    if (!one.trained) average(one);
  during_ = During::Training;
}

}  // namespace rehearsal::plan
