#include "plan/collectives/message_arrivals.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "graph/shape.hpp"
#include "plan/collectives/meetings.hpp"

namespace rehearsal::plan {
namespace {

constexpr std::size_t kMostPieces = 64;  // of one message: more of them cost more than they overlap
constexpr std::size_t kLargestPiece = std::size_t{1} << 30;

bool in_common(const CollectiveStep& a, const CollectiveStep& b) {
  if (a.send_to < 0 || b.receive_from < 0) return false;
  return a.send_first < b.receive_first + b.receive_count && b.receive_first < a.send_first + a.send_count;
}

bool adds(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::Reduce;
}

/// Numbers of ranks of a node that a group may have: which one is known when the ranks have been started.
std::vector<int> shares_of_nodes(const CollectiveRow& row, int ranks) {
  std::vector<int> shares{1};
  for (int n = 2; row.name == "hierarchical" && n <= ranks; ++n)
    if (ranks % n == 0) shares.push_back(n);
  return shares;
}

/// The most that any rank of the group needs, in bytes.
std::int64_t needed_by(const CollectiveInfo& info, int ranks, std::int64_t count, std::size_t element_bytes) {
  if (const auto* row = meeting_row(info.algorithm)) {  // of all ranks alike; what is put at a center arrives in the center
    const auto beside = beside_vector(row->steps(info.kind, {0, ranks, count}, {{}, 1}), count, {element_bytes});
    return info.algorithm == kServers ? 0 : beside.scratch + beside.arrivals;
  }
  const auto& row = collective(info.kind, info.algorithm);
  std::int64_t most = 0;
  for (const int share : shares_of_nodes(row, ranks))
    for (int rank = 0; rank < ranks; ++rank) {
      const auto beside = beside_vector(steps_in_parts(row, {rank, ranks, count, share, info.dealt}), count, {element_bytes});
      most = std::max(most, beside.scratch + beside.arrivals);
    }
  return most;
}

}  // namespace

std::int64_t piece_elements(std::int64_t count, const SegmentSize& size) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size.element_bytes;
  const std::size_t wanted = std::min(std::max(size.segment_bytes, bytes / kMostPieces + 1), kLargestPiece);
  return static_cast<std::int64_t>(std::max<std::size_t>(wanted / size.element_bytes, 1));
}

std::span<const CollectiveStep> together(std::span<const CollectiveStep> steps) {
  std::size_t end = 0;
  while (end < steps.size() && steps[end].with_next) ++end;
  return steps.first(std::min(end + 1, steps.size()));
}

Overlap overlap_of(std::span<const CollectiveStep> together) {
  Overlap overlap;
  for (const auto& s : together)
    overlap.any = overlap.any || std::ranges::any_of(together, [&](const CollectiveStep& r) { return in_common(s, r); });
  const auto& s = together.front();
  overlap.same = together.size() == 1 && s.send_first == s.receive_first && s.send_count == s.receive_count;
  return overlap;
}

bool arrive_by_turns(std::span<const CollectiveStep> together) {
  const auto overlap = overlap_of(together);
  return together.size() == 1 && (!overlap.any || overlap.same);
}

BesideVector beside_vector(std::span<const CollectiveStep> steps, std::int64_t count, const SegmentSize& size) {
  BesideVector most;
  const auto element = static_cast<std::int64_t>(size.element_bytes);
  std::int64_t behind = 0;  // in elements: a vector of any length counts as the longest there is
  for (const auto& s : steps) behind = std::max({behind, s.send_first + s.send_count - count, s.receive_first + s.receive_count - count});
  most.scratch = element * behind;
  while (!steps.empty()) {
    const auto now = together(steps);
    std::int64_t arriving = 0, piece = 0;
    for (const auto& s : now) {
      if (!s.reduce || s.receive_from < 0) continue;
      arriving += element * s.receive_count;
      piece = std::max(piece, element * std::min(s.receive_count, piece_elements(s.receive_count, size)));
    }
    if (arrive_by_turns(now)) arriving = std::min(arriving, static_cast<std::int64_t>(kArrivalPlaces) * piece);
    most.arrivals = std::max(most.arrivals, arriving);
    steps = steps.subspan(now.size());
  }
  return most;
}

void add_arrivals(Role& role, const Program& program) {
  std::int64_t most = 0;
  std::set<std::tuple<CollectiveKind, std::string, int, std::vector<DealtOut>, std::int64_t, std::size_t>> known;
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions) {
      if (i.kind != InstructionKind::Collective) continue;
      const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
      if (!adds(info.kind)) continue;
      const auto& vector = role.buffers[i.outputs.front()];
      const int ranks = program.axes[info.axis].size;
      for (const auto& shape : vector.shapes) {
        const auto count = graph::element_count(shape);
        if (known.insert({info.kind, info.algorithm, ranks, info.dealt, count, size_of(vector.dtype)}).second)
          most = std::max(most, needed_by(info, ranks, count, size_of(vector.dtype)));
      }
    }
  if (most == 0) return;
  Buffer arrivals;
  arrivals.name = "arrivals";
  arrivals.dtype = DType::U8;
  arrivals.shapes.assign(std::max<std::size_t>(role.variant_samples.size(), 1), {most});
  arrivals.bytes = most;
  arrivals.category = MemoryCategory::Communication;
  arrivals.lifetime = Lifetime::Step;
  role.arrivals = static_cast<BufferIndex>(role.buffers.size());
  role.buffers.push_back(std::move(arrivals));
}

}  // namespace rehearsal::plan
