#include "sim/collectives.hpp"

#include <deque>
#include <unordered_map>

#include "base/error.hpp"

namespace rehearsal::sim {

StepPattern match_steps(const plan::CollectiveRow& row, int ranks, std::int64_t count, int ranks_per_node) {
  StepPattern pattern;
  std::unordered_map<std::uint64_t, std::deque<std::uint32_t>> sent;
  const auto pair = [](int from, int to) { return static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to); };
  for (int rank = 0; rank < ranks; ++rank) {
    auto& steps = pattern.members.emplace_back();
    for (const auto& s : row.steps(rank, ranks, count, ranks_per_node)) {
      if (s.send_to >= 0) sent[pair(rank, s.send_to)].push_back(static_cast<std::uint32_t>(steps.size()));
      steps.push_back({s.send_to, s.receive_from, static_cast<double>(s.send_count), static_cast<double>(s.receive_count), 0, 0, s.reduce});
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    auto& steps = pattern.members[static_cast<std::size_t>(rank)];
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      if (steps[s].from < 0) continue;
      auto& waiting = sent[pair(steps[s].from, rank)];
      ensure(!waiting.empty(), "a collective receives what nobody sends");
      steps[s].sent_in = waiting.front();
      pattern.members[static_cast<std::size_t>(steps[s].from)][waiting.front()].received_in = s;
      waiting.pop_front();
    }
  }
  for (const auto& [key, waiting] : sent) ensure(waiting.empty(), "a collective sends what nobody receives");
  return pattern;
}

std::shared_ptr<const StepPattern> Collectives::pattern(const CollectiveCall& call, int ranks) {
  auto& known = patterns_[{call.row, ranks, call.count, call.ranks_per_node}];
  auto found = known.lock();
  if (!found) known = found = std::make_shared<const StepPattern>(match_steps(*call.row, ranks, call.count, call.ranks_per_node));
  return found;
}

std::uint32_t Collectives::find_or_open(const CollectiveCall& call, const std::vector<int>& group) {
  const auto [at, fresh] = open_.try_emplace({call.axis, group.front(), call.sequence}, 0);
  if (!fresh) {
    const auto& other = active_[at->second].call;
    ensure(other.row == call.row && other.count == call.count, "the ranks of a group perform the same collectives in the same order");
    return at->second;
  }
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(active_.size()));
    active_.emplace_back();
  }
  at->second = unused_.back();
  unused_.pop_back();
  active_[at->second] = {pattern(call, static_cast<int>(group.size())), call, group, std::vector<Member>(group.size()), group.size()};
  return at->second;
}

bool Collectives::join(const CollectiveCall& call, const std::vector<int>& group, int position) {
  const auto which = find_or_open(call, group);
  active_[which].members[static_cast<std::size_t>(position)].joined = true;
  if (!begin_step(which, static_cast<std::uint32_t>(position))) return false;
  leave(which);
  return true;
}

bool Collectives::is_at(const Active& a, int position, std::uint32_t step) const {
  const auto& member = a.members[static_cast<std::size_t>(position)];
  return member.joined && member.step == step;
}

bool Collectives::begin_step(std::uint32_t which, std::uint32_t position) {
  auto& a = active_[which];
  auto& member = a.members[position];
  const auto& steps = a.pattern->members[position];
  if (member.step == steps.size()) return true;
  const auto& step = steps[member.step];
  member.unfinished = (step.to >= 0 ? 1 : 0) + (step.from >= 0 ? 1 : 0);
  if (step.to >= 0 && is_at(a, step.to, step.received_in)) send(which, position, static_cast<std::uint32_t>(step.to));
  if (step.from >= 0 && is_at(a, step.from, step.sent_in)) send(which, static_cast<std::uint32_t>(step.from), position);
  return false;
}

void Collectives::send(std::uint32_t which, std::uint32_t sender, std::uint32_t receiver) {
  const auto& a = active_[which];
  const auto& step = a.pattern->members[sender][a.members[sender].step];
  messages_.send(a.group[sender], a.group[receiver], step.send_count * a.call.element_bytes, {true, which, sender, receiver});
}

void Collectives::arrived(const Purpose& purpose, std::vector<int>& ended) {
  const auto& a = active_[purpose.which];
  const auto& step = a.pattern->members[purpose.receiver][a.members[purpose.receiver].step];
  if (step.reduce) {
    const Bytes received(step.receive_count * a.call.element_bytes);
    const double seconds = (received / reduction_).value() * messages_.factor();
    network_.alarm(network_.now() + seconds, token_of(Occasion::Reduced, static_cast<std::uint64_t>(purpose.which) << 32 | purpose.receiver));
  } else {
    part_ended(purpose.which, purpose.receiver, ended);
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
  ++member.step;
  if (!begin_step(which, position)) return;
  ended.push_back(a.group[position]);
  leave(which);
}

void Collectives::leave(std::uint32_t which) {
  auto& a = active_[which];
  if (--a.left > 0) return;
  open_.erase({a.call.axis, a.group.front(), a.call.sequence});
  a.pattern.reset();
  unused_.push_back(which);
}

}  // namespace rehearsal::sim
