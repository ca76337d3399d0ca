#include "sim/played_collectives.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::sim {

namespace {

/// One end of a message: which step of which member. Sorted, the ends of a pair of members come in the order of their steps.
struct MessageEnd {
  int from, to;
  std::uint32_t step;
  friend auto operator<=>(const MessageEnd&, const MessageEnd&) = default;
};

}  // namespace

StepPattern match_steps(int ranks, const std::function<std::vector<plan::CollectiveStep>(int member)>& steps_of) {
  StepPattern pattern;
  std::vector<MessageEnd> sent, received;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& steps = pattern.members.emplace_back();
    for (const auto& s : steps_of(rank)) {
      if (s.send_to == rank) continue;
      const auto number = static_cast<std::uint32_t>(steps.size());
      if (s.send_to >= 0) sent.push_back({rank, s.send_to, number});
      if (s.receive_from >= 0) received.push_back({s.receive_from, rank, number});
      steps.push_back({s.send_to, s.receive_from, static_cast<double>(s.send_count), static_cast<double>(s.receive_count), 0, 0, s.reduce,
                       s.with_next});
    }
  }
  ensure(sent.size() == received.size(), "a collective receives what it sends");
  std::ranges::sort(sent);
  std::ranges::sort(received);
  for (std::size_t n = 0; n < sent.size(); ++n) {
    const auto &s = sent[n], &r = received[n];
    ensure(s.from == r.from && s.to == r.to, "a collective receives from whom it sends to");
    pattern.members[static_cast<std::size_t>(s.from)][s.step].received_in = r.step;
    pattern.members[static_cast<std::size_t>(r.to)][r.step].sent_in = s.step;
  }
  return pattern;
}

std::shared_ptr<const StepPattern> Collectives::pattern(const SimulatedCollective& call, const std::vector<int>& group) {
  const auto& [program, info, role, member, sequence] = call;
  const bool exchanges = info->algorithm == plan::kExchange;
  const void* which = exchanges ? &role->redistributions[static_cast<std::size_t>(info->redistribution)] : nullptr;
  const auto ranks = static_cast<int>(group.size());
  auto& known = patterns_[{info->kind, info->algorithm, ranks, member.ranks_per_node, exchanges ? 0 : member.count, info->dealt, info->root,
                           which, exchanges ? group.front() : 0, exchanges ? member.micro_batch : 0}];
  auto found = known.lock();
  if (found) return found;
  const auto steps = [&](int position) {
    auto other = member;
    other.rank = group[static_cast<std::size_t>(position)];
    return plan::steps_of(*program, *info, *role, other);
  };
  known = found = std::make_shared<const StepPattern>(match_steps(ranks, steps));
  return found;
}

std::uint32_t Collectives::find_or_open(const SimulatedCollective& call, const std::vector<int>& group) {
  const auto [at, fresh] = open_.try_emplace({call.info->axis, group.front(), call.sequence}, 0);
  if (!fresh) {
    const auto& other = active_[at->second].call;
    ensure(other.info->kind == call.info->kind && (call.info->algorithm == plan::kExchange || other.member.count == call.member.count),
           "the ranks of a group perform the same collectives in the same order");
    return at->second;
  }
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(active_.size()));
    active_.emplace_back();
  }
  at->second = unused_.back();
  unused_.pop_back();
  active_[at->second] = {pattern(call, group), call, group, std::vector<Member>(group.size()), group.size()};
  return at->second;
}

bool Collectives::join(const SimulatedCollective& call, const std::vector<int>& group, int position) {
  const auto which = find_or_open(call, group);
  active_[which].members[static_cast<std::size_t>(position)].joined = true;
  if (!begin_step(which, static_cast<std::uint32_t>(position))) return false;
  leave(which);
  return true;
}

bool Collectives::is_at(const Active& a, int position, std::uint32_t step) const {
  const auto& member = a.members[static_cast<std::size_t>(position)];
  return member.joined && member.step <= step && step < member.end;
}

bool Collectives::begin_step(std::uint32_t which, std::uint32_t position) {
  auto& a = active_[which];
  auto& member = a.members[position];
  const auto& steps = a.pattern->members[position];
  if (member.step == steps.size()) return true;
  do ++member.end;
  while (steps[member.end - 1].with_next && member.end < steps.size());
  for (auto n = member.step; n < member.end; ++n) member.unfinished += (steps[n].to >= 0 ? 1 : 0) + (steps[n].from >= 0 ? 1 : 0);
  for (auto n = member.step; n < member.end; ++n) {
    const auto& step = steps[n];
    if (step.to >= 0 && is_at(a, step.to, step.received_in)) send(which, position, n);
    if (step.from >= 0 && is_at(a, step.from, step.sent_in)) send(which, static_cast<std::uint32_t>(step.from), step.sent_in);
  }
  return false;
}

void Collectives::send(std::uint32_t which, std::uint32_t sender, std::uint32_t number) {
  const auto& a = active_[which];
  const auto& step = a.pattern->members[sender][number];
  messages_.send({a.group[sender], a.group[static_cast<std::size_t>(step.to)]}, step.send_count * a.call.member.element_bytes,
                 {true, which, sender, number});
}

void Collectives::arrived(const MessagePurpose& purpose, std::vector<int>& ended) {
  auto& a = active_[purpose.which];
  const auto& sent = a.pattern->members[purpose.sender][purpose.step];
  const auto receiver = static_cast<std::uint32_t>(sent.to);
  const auto& step = a.pattern->members[receiver][sent.received_in];
  if (step.reduce) {
    const Bytes received(step.receive_count * a.call.member.element_bytes);
    auto& until = a.members[receiver].adds_until;
    until = std::max(until, network_.now()) + (received / reduction_).value() * messages_.factor();
    network_.alarm(until, token_of(Occasion::Reduced, static_cast<std::uint64_t>(purpose.which) << 32 | receiver));
  } else {
    part_ended(purpose.which, receiver, ended);
  }
  part_ended(purpose.which, purpose.sender, ended);
}

void Collectives::reduced(std::uint64_t number, std::vector<int>& ended) {
  part_ended(static_cast<std::uint32_t>(number >> 32), static_cast<std::uint32_t>(number & 0xFFFFFFFFU), ended);
}

void Collectives::part_ended(std::uint32_t which, std::uint32_t position, std::vector<int>& ended) {
  auto& a = active_[which];
  auto& member = a.members[position];
  if (--member.unfinished > 0) return;
  member.step = member.end;
  if (!begin_step(which, position)) return;
  ended.push_back(a.group[position]);
  leave(which);
}

void Collectives::leave(std::uint32_t which) {
  auto& a = active_[which];
  if (--a.left > 0) return;
  open_.erase({a.call.info->axis, a.group.front(), a.call.sequence});
  a.pattern.reset();
  unused_.push_back(which);
}

}  // namespace rehearsal::sim
