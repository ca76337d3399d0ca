#include "tests/plan/collective_play.hpp"

#include <algorithm>

namespace rehearsal::plan::played {

Steps all_steps(const CollectiveRow& row, int ranks, std::int64_t count, int ranks_per_node) {
  Steps steps;
  for (int r = 0; r < ranks; ++r) steps.push_back(row.steps(r, ranks, count, ranks_per_node));
  return steps;
}

Clock clock_of(const CollectiveLinks& links) {
  const auto message = [links](int from, int to, Bytes size) {
    const bool outer = from / links.ranks_per_node != to / links.ranks_per_node;
    return outer ? links.outer_latency + size / links.outer_bandwidth : links.inner_latency + size / links.inner_bandwidth;
  };
  return {message, links.reduction};
}

Play::Play(const Steps& steps, Clock clock) : steps_(steps), clock_(std::move(clock)), ranks_(steps.size()) {}

double Play::run() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) begin(r);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) moved = hand_over(r) || moved;
  }
  double end = 0.0;
  for (const auto& rank : ranks_) {
    if (!rank.entries.empty()) return -1.0;
    end = std::max(end, rank.clock);
  }
  return end;
}

void Play::make_copies(std::size_t r) {
  auto& me = ranks_[r];
  for (; me.first < steps_[r].size() && steps_[r][me.first].send_to == static_cast<int>(r); ++me.first) {
    const auto& s = steps_[r][me.first];
    if (!memory.empty()) std::copy_n(memory[r].begin() + s.send_first, s.send_count, memory[r].begin() + s.receive_first);
  }
}

void Play::begin(std::size_t r) {
  auto& me = ranks_[r];
  make_copies(r);
  me.entries.clear();
  me.ends = me.clock;
  for (auto n = me.first; n < steps_[r].size(); ++n) {
    const auto& s = steps_[r][n];
    auto& entry = me.entries.emplace_back();
    entry.sent = s.send_to < 0;
    entry.received = s.receive_from < 0;
    if (!memory.empty() && !entry.sent)
      entry.outgoing.assign(memory[r].begin() + s.send_first, memory[r].begin() + s.send_first + s.send_count);
    if (!s.with_next) break;
  }
}

std::size_t Play::awaiting(std::size_t r, int from) const {
  const auto& me = ranks_[r];
  for (std::size_t e = 0; e < me.entries.size(); ++e)
    if (!me.entries[e].received && steps_[r][me.first + e].receive_from == from) return e;
  return me.entries.size();
}

bool Play::hand_over(std::size_t r) {
  bool moved = false;
  for (std::size_t e = 0; e < ranks_[r].entries.size(); ++e)
    if (!ranks_[r].entries[e].sent && deliver(r, e)) {
      moved = true;
      e = static_cast<std::size_t>(-1);  // the rank may have gone on to its next step
    }
  return moved;
}

bool Play::deliver(std::size_t r, std::size_t e) {
  auto& me = ranks_[r];
  const auto& s = steps_[r][me.first + e];
  const auto to = static_cast<std::size_t>(s.send_to);
  for (std::size_t earlier = 0; earlier < e; ++earlier)  // messages of a pair keep their order
    if (!me.entries[earlier].sent && steps_[r][me.first + earlier].send_to == s.send_to) return false;
  const auto slot = awaiting(to, static_cast<int>(r));
  auto& other = ranks_[to];
  if (slot == other.entries.size() || steps_[to][other.first + slot].receive_count != s.send_count) return false;
  const Bytes size(static_cast<double>(s.send_count) * clock_.bytes_per_element);
  const double arrives = std::max(me.clock, other.clock) + clock_.message(static_cast<int>(r), s.send_to, size).value();
  auto& received = other.entries[slot];
  received.incoming = me.entries[e].outgoing;
  received.received_at = arrives;
  me.entries[e].sent = received.received = true;
  me.ends = std::max(me.ends, arrives);
  other.ends = std::max(other.ends, arrives);
  end(r);
  end(to);
  return true;
}

void Play::end(std::size_t r) {
  auto& me = ranks_[r];
  if (me.entries.empty() || !std::ranges::all_of(me.entries, [](const Entry& e) { return e.sent && e.received; })) return;
  double added = 0;  // until then
  for (std::size_t e = 0; e < me.entries.size(); ++e) {
    const auto& s = steps_[r][me.first + e];
    if (s.receive_from < 0) continue;
    if (s.reduce) {
      added = std::max(added, me.entries[e].received_at);
      added += (Bytes(static_cast<double>(s.receive_count) * clock_.bytes_per_element) / clock_.reduction).value();
    }
    for (std::size_t i = 0; !memory.empty() && i < me.entries[e].incoming.size(); ++i) {
      auto& own = memory[r][static_cast<std::size_t>(s.receive_first) + i];
      own = s.reduce ? own + me.entries[e].incoming[i] : me.entries[e].incoming[i];
    }
  }
  me.clock = std::max(me.ends, added);
  me.first += me.entries.size();
  begin(r);
}

double busiest_rank(const Steps& steps, const Clock& clock) {
  double busiest = 0;
  for (std::size_t r = 0; r < steps.size(); ++r) {
    double total = 0, step = 0;
    for (const auto& s : steps[r]) {
      const auto me = static_cast<int>(r);
      if (s.send_to == me) continue;
      const auto bytes = [&](std::int64_t count) { return Bytes(static_cast<double>(count) * clock.bytes_per_element); };
      if (s.send_to >= 0) step = std::max(step, clock.message(me, s.send_to, bytes(s.send_count)).value());
      if (s.receive_from >= 0)
        step = std::max(step, clock.message(s.receive_from, me, bytes(s.receive_count)).value() +
                                  (s.reduce ? (bytes(s.receive_count) / clock.reduction).value() : 0.0));
      if (s.with_next) continue;
      total += step;
      step = 0;
    }
    busiest = std::max(busiest, total);
  }
  return busiest;
}

}  // namespace rehearsal::plan::played
