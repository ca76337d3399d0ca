#include "sim/max_min_rates.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace rehearsal::sim {
namespace {

/// Links whose fair rates differ by less than rounding are full together.
constexpr double kSameRate = 1 + 1e-12;

}  // namespace

void FairShare::start(const MessageFlow& started, double now, Token token) {
  const auto& route = *started.route;
  ensure(!route.links.empty() && started.bytes > 0, "a flow crosses links and has bytes");
  links_.resize(std::max(links_.size(), routes_.links().size()));
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const auto id = unused_.back();
  unused_.pop_back();
  auto& flow = flows_[id];
  flow.route = &route;
  flow.loads = started.loads;
  flow.left = started.bytes;
  flow.rate = 0;
  flow.since = now;
  flow.token = token;
  flow.positions.clear();
  for (std::uint32_t hop = 0; hop < route.links.size(); ++hop) {
    auto& crossing = links_[route.links[hop]].flows;
    flow.positions.push_back(static_cast<std::uint32_t>(crossing.size()));
    crossing.push_back({id, hop});
    mark(route.links[hop]);
  }
}

void FairShare::mark(std::uint32_t link) {
  if (links_[link].changed) return;
  links_[link].changed = true;
  changed_.push_back(link);
}

void FairShare::remove(std::uint32_t id) {
  auto& flow = flows_[id];
  ++flow.version;
  for (std::uint32_t hop = 0; hop < flow.positions.size(); ++hop) {
    const auto link = flow.route->links[hop];
    auto& crossing = links_[link].flows;
    crossing[flow.positions[hop]] = crossing.back();
    flows_[crossing.back().flow].positions[crossing.back().hop] = flow.positions[hop];
    crossing.pop_back();
    mark(link);
  }
  unused_.push_back(id);
}

void FairShare::drop_void_ends() {
  while (!ends_.empty() && flows_[ends_.top().flow].version != ends_.top().version) ends_.pop();
}

double FairShare::next_end(double now) {
  share(now);
  drop_void_ends();
  return ends_.empty() ? -1.0 : ends_.top().time;
}

bool FairShare::pop_end(double now, Token& token) {
  drop_void_ends();
  if (ends_.empty() || ends_.top().time > now) return false;
  const auto id = ends_.top().flow;
  ends_.pop();
  token = flows_[id].token;
  remove(id);
  return true;
}

void FairShare::share(double now) {
  if (changed_.empty()) return;
  ++stamp_;
  for (const auto link : changed_) {
    links_[link].changed = false;
    if (links_[link].seen == stamp_ || links_[link].flows.empty()) continue;
    collect(link);
    fill();
    reschedule(now);
  }
  changed_.clear();
}

void FairShare::collect(std::uint32_t first) {
  joined_flows_.clear();
  joined_links_.assign(1, first);
  links_[first].seen = stamp_;
  for (std::size_t i = 0; i < joined_links_.size(); ++i)
    for (const auto& crossing : links_[joined_links_[i]].flows) {
      auto& flow = flows_[crossing.flow];
      if (flow.seen == stamp_) continue;
      flow.seen = stamp_;
      flow.next_rate = -1;
      joined_flows_.push_back(crossing.flow);
      for (const auto link : flow.route->links) {
        if (links_[link].seen == stamp_) continue;
        links_[link].seen = stamp_;
        joined_links_.push_back(link);
      }
    }
}

void FairShare::fill() {
  for (const auto link : joined_links_) {
    auto& state = links_[link];
    state.left = routes_.links()[link].bandwidth.value();
    state.open = state.flows.size();
    state.load = 0;
    for (const auto& crossing : state.flows) state.load += flows_[crossing.flow].load(crossing.hop);
  }
  while (!joined_links_.empty()) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto link : joined_links_) least = std::min(least, links_[link].left / links_[link].load);
    if (!fix_at_full_speed(least))
      for (const auto link : joined_links_) {
        const auto& state = links_[link];
        if (state.open > 0 && state.left <= least * kSameRate * state.load) fix_flows_of(link, least);
      }
    std::erase_if(joined_links_, [&](std::uint32_t link) { return links_[link].open == 0; });
  }
}

/// Messages whose time alone is known are no quicker beside others. True when there were some that no link holds back.
bool FairShare::fix_at_full_speed(double rate) {
  bool found = false;
  for (const auto id : joined_flows_) {
    auto& flow = flows_[id];
    if (flow.loads == nullptr || flow.next_rate >= 0 || rate < 1) continue;
    fix(flow, 1);
    found = true;
  }
  return found;
}

void FairShare::fix(Moving& flow, double rate) {
  flow.next_rate = rate;
  for (std::uint32_t hop = 0; hop < flow.route->links.size(); ++hop) {
    auto& state = links_[flow.route->links[hop]];
    state.left -= rate * flow.load(hop);
    state.load -= flow.load(hop);
    --state.open;
  }
}

void FairShare::fix_flows_of(std::uint32_t full, double rate) {
  for (const auto& crossing : links_[full].flows)
    if (flows_[crossing.flow].next_rate < 0) fix(flows_[crossing.flow], rate);
}

void FairShare::reschedule(double now) {
  for (const auto id : joined_flows_) {
    auto& flow = flows_[id];
    if (flow.next_rate == flow.rate) continue;
    flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
    flow.since = now;
    flow.rate = flow.next_rate;
    ends_.push({now + flow.left / flow.rate, ++order_, id, ++flow.version});
  }
}

}  // namespace rehearsal::sim
