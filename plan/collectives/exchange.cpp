#include "plan/collectives/exchange.hpp"

#include <algorithm>
#include <bit>

#include "plan/collectives/algorithm_rows.hpp"
#include "plan/collectives/meetings.hpp"
#include "plan/collectives/message_arrivals.hpp"

namespace rehearsal::plan {
namespace {

const PackedBlock* block_of(const std::vector<PackedBlock>& blocks, int peer) {
  const auto at = std::find_if(blocks.begin(), blocks.end(), [&](const PackedBlock& b) { return b.peer == peer; });
  return at == blocks.end() ? nullptr : &*at;
}

}  // namespace

std::vector<CollectiveStep> exchange_steps(int me, int ranks, const Packing& packing) {
  std::vector<CollectiveStep> steps;
  for (int s = 1; s < ranks; ++s) {
    CollectiveStep step;
    if (const auto* sent = block_of(packing.packed, (me + s) % ranks)) {
      step.send_to = (me + s) % ranks;
      step.send_first = sent->offset;
      step.send_count = sent->count;
    }
    if (const auto* received = block_of(packing.unpacked, (me - s + ranks) % ranks)) {
      step.receive_from = (me - s + ranks) % ranks;
      step.receive_first = received->offset;
      step.receive_count = received->count;
    }
    add_step(steps, step);
  }
  return steps;
}

Seconds exchange_time(int me, const std::vector<CollectiveStep>& steps, double element_bytes, const CollectiveLinks& links) {
  const int node = links.ranks_per_node;
  const auto time_of = [&](int other, std::int64_t count) {
    if (other < 0) return Seconds(0);
    const bool outer = other / node != me / node;
    return message_time(links, outer, Bytes(static_cast<double>(count) * element_bytes),
                        outer ? std::min(std::abs(other - me), node) : node, path_of(links.around, std::abs(other - me)));
  };
  Seconds total;
  for (const auto& step : steps) total += std::max(time_of(step.send_to, step.send_count), time_of(step.receive_from, step.receive_count));
  return total;
}

std::vector<std::int64_t> begins_of_parts(std::span<const DealtOut> dealt, int ranks, std::int64_t count) {
  std::vector<std::int64_t> begins;
  const auto all = begin_of_part(dealt, ranks, ranks);
  for (int r = 0; r <= ranks; ++r)
    begins.push_back(dealt.empty() ? block(count, ranks, r).begin : all == 0 ? 0 : begin_of_part(dealt, ranks, r) * (count / all));
  return begins;
}

namespace {

/// Where the parts of ranks lie in a vector; behind it, in scratch, they follow each other from the own one on.
class Parts {
 public:
  explicit Parts(const RowMember& m)
      : rank_(m.rank), ranks_(m.ranks), count_(m.count), begins_(begins_of_parts(m.dealt, m.ranks, m.count)) {}
  /// Turns a range of parts into one of elements.
  void place(std::int64_t& first, std::int64_t& count) const {
    const auto begin = element(first);
    count = element(first + count) - begin;
    first = begin;
  }

 private:
  [[nodiscard]] std::int64_t element(std::int64_t part) const {
    if (part <= ranks_) return begins_[static_cast<std::size_t>(part)];
    const auto own = begins_[static_cast<std::size_t>(rank_)], last = rank_ + part - ranks_;
    const auto end = last <= ranks_ ? begins_[static_cast<std::size_t>(last)] : count_ + begins_[static_cast<std::size_t>(last - ranks_)];
    return count_ + end - own;
  }

  int rank_, ranks_;
  std::int64_t count_;
  std::vector<std::int64_t> begins_;
};

/// Without the messages that have no elements.
std::vector<CollectiveStep> of_elements(std::span<const CollectiveStep> steps) {
  std::vector<CollectiveStep> left;
  while (!steps.empty()) {
    const auto now = together(steps);
    const auto first = left.size();
    for (auto step : now) {
      step.with_next = false;
      add_step(left, step);
    }
    for (auto s = first; s + 1 < left.size(); ++s) left[s].with_next = true;
    steps = steps.subspan(now.size());
  }
  return left;
}

}  // namespace

std::vector<CollectiveStep> steps_in_parts(const CollectiveRow& row, const RowMember& m) {
  if (m.dealt.empty()) return row.steps(m.rank, m.ranks, m.count, m.ranks_per_node);
  auto steps = row.steps(m.rank, m.ranks, m.ranks, m.ranks_per_node);
  const Parts parts(m);
  for (auto& step : steps) {
    parts.place(step.send_first, step.send_count);
    parts.place(step.receive_first, step.receive_count);
  }
  return of_elements(steps);
}

namespace {

/// As if the group began at its root and went on behind its end from its first rank.
std::vector<CollectiveStep> steps_from(int root, const CollectiveRow& row, RowMember m) {
  m.rank = (m.rank - root + m.ranks) % m.ranks;
  auto steps = steps_in_parts(row, m);
  for (auto& step : steps)
    for (auto* other : {&step.send_to, &step.receive_from})
      if (*other >= 0) *other = (*other + root) % m.ranks;
  return steps;
}

}  // namespace

std::vector<CollectiveStep> steps_of(const Program& program, const CollectiveInfo& info, const Role& role, const CollectiveMember& member) {
  const int ranks = program.axes[info.axis].size, me = coordinate(program, member.rank, info.axis);
  if (info.algorithm == kExchange) {
    const auto& r = role.redistributions[static_cast<std::size_t>(info.redistribution)];
    return exchange_steps(me, ranks, packing_of(*program.sharding, r, position(program, member.rank, member.micro_batch)));
  }
  const RowMember in_row{me, ranks, member.count, member.ranks_per_node, info.dealt};
  if (const auto* row = meeting_row(info.algorithm)) return row->steps(info.kind, in_row, meeting_terms(info.algorithm, program.plan));
  const auto& row = collective(info.kind, info.algorithm);
  return info.root == 0 ? steps_in_parts(row, in_row) : steps_from(info.root, row, in_row);
}

namespace {

void check_algorithm(const Program& program, const CollectiveInfo& info) {
  if (info.algorithm == kExchange) return;
  if (meeting_row(info.algorithm) == nullptr) return static_cast<void>(collective(info.kind, info.algorithm));
  if (info.algorithm == kServers && info.center < 0)
    throw BadInput("\"center\"", "must be the number of a vector of the center, from 0 on");
  const auto& axis = program.axes[info.axis];
  const auto number = static_cast<unsigned>(std::max(0, meeting_terms(info.algorithm, program.plan).distance));
  const bool fits = std::has_single_bit(number) && number < (1U << 30) && static_cast<unsigned>(axis.size) % (2 * number) == 0;
  if (info.algorithm.starts_with(kPartners) && !fits)
    throw BadInput("algorithm \"" + info.algorithm + "\"",
                   "needs a distance behind its colon: a power of two, and twice that distance must divide the " +
                       std::to_string(axis.size) + " ranks of " + axis.name);
}

}  // namespace

void check_algorithms(const Program& program) {
  for (const auto& role : program.roles)
    for (const auto& info : role.collectives) check_algorithm(program, info);
}

bool is_one_sided(const CollectiveInfo& info) {
  const bool is_row = info.algorithm != kExchange && meeting_row(info.algorithm) == nullptr;
  return is_row && collective(info.kind, info.algorithm).one_sided;
}

Seconds collective_time(const Program& program, const CollectiveInfo& info, const Role& role, const CollectiveMember& member,
                        const CollectiveLinks& links) {
  if (program.axes[info.axis].size == 1) return Seconds(0);
  const Bytes size(static_cast<double>(member.count) * member.element_bytes);
  if (info.algorithm == kExchange)
    return exchange_time(coordinate(program, member.rank, info.axis), steps_of(program, info, role, member), member.element_bytes, links);
  const int ranks = program.axes[info.axis].size;
  if (const auto* row = meeting_row(info.algorithm))
    return row->closed_form(info.kind, ranks, size, links, meeting_terms(info.algorithm, program.plan));
  return collective(info.kind, info.algorithm).closed_form(ranks, size, links);
}

}  // namespace rehearsal::plan
