#include "traces/timeline_data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "traces/memory_levels.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNanoseconds = 1e9;
enum Lane : std::uint8_t { kCompute, kMessages, kHost, kLanes };
constexpr std::array<const char*, kLanes> kLaneNames{"compute", "messages", "host"};

Lane lane_of(plan::Stream stream) { return stream == plan::Stream::Compute ? kCompute : stream == plan::Stream::Host ? kHost : kMessages; }

/// An instruction, or several short ones of a pass.
struct Drawn {
  double begin = 0, end = 0;
  std::int64_t kind = 0;  ///< of the rank; below 0: -1 - body of several
  std::int32_t micro_batch = 0;
  plan::BodyKind body{};
};
using Lanes = std::array<std::vector<Drawn>, kLanes>;

Lanes lanes_of(const RankTrace& rank, const StepRecord& step) {
  Lanes lanes;
  for (const auto& e : rank.events)
    if (e.step == step.step)
      lanes[lane_of(e.stream)].push_back(
          {e.begin - step.begin, e.end - step.begin, e.kind, e.micro_batch, rank.kinds[e.kind].identity.body});
  for (auto& lane : lanes) std::ranges::stable_sort(lane, {}, &Drawn::begin);
  return lanes;
}

/// Neighbours of one pass over one micro-batch, of which each is shorter than `least`, as one.
std::vector<Drawn> with_short_ones_joined(const std::vector<Drawn>& lane, double least) {
  std::vector<Drawn> result;
  bool open = false;  // the last one takes more
  for (const auto& e : lane) {
    const bool is_short = e.end - e.begin < least;
    auto* last = result.empty() ? nullptr : &result.back();
    if (last != nullptr && open && is_short && last->body == e.body && last->micro_batch == e.micro_batch && e.begin - last->end < least) {
      last->end = std::max(last->end, e.end);
      last->kind = -1 - static_cast<std::int64_t>(e.body);
    } else {
      result.push_back(e);
    }
    open = is_short;
  }
  return result;
}

std::string kernel_text(const costmodel::KernelCase& kernel) {
  return kernel.implementation + (kernel.signature.empty() ? "" : " " + kernel.signature);
}

Json kind_json(const EventKind& kind) {
  Json json{{"op", kind.kernel.op}, {"name", kind.name}, {"body", static_cast<int>(kind.identity.body)}};
  if (communicates(kind)) {
    json["bytes"] = kind.message_bytes;
    if (kind.message_ranks > 0) json["ranks"] = kind.message_ranks;
    return json;
  }
  json["kernel"] = kernel_text(kind.kernel);
  if (const double flops = kind.kernel.work.flops.value(); flops > 0) json["flops"] = std::round(flops);
  if (const double bytes = kind.kernel.work.bytes.value(); bytes > 0) json["bytes"] = std::round(bytes);
  return json;
}

/// Kinds of all roles of a trace, each once.
class Kinds {
 public:
  std::int64_t number(const EventKind& kind) {
    auto json = kind_json(kind);
    const auto [at, is_new] = numbers_.try_emplace(json.dump(-1, ' ', false, Json::error_handler_t::replace), all_.size());
    if (is_new) all_.push_back(std::move(json));
    return static_cast<std::int64_t>(at->second);
  }
  [[nodiscard]] Json all() && { return std::move(all_); }

 private:
  std::map<std::string, std::size_t> numbers_;
  Json all_ = Json::array();
};

Json lane_json(const std::vector<Drawn>& lane, const char* name, const RankTrace& rank, Kinds& kinds) {
  auto events = Json::array();
  std::int64_t at = 0;
  for (const auto& e : lane) {
    const auto begin = std::llround(e.begin * kNanoseconds), end = std::llround(e.end * kNanoseconds);
    events.insert(events.end(), {begin - at, end - begin, e.kind < 0 ? e.kind : kinds.number(rank.kinds[static_cast<std::size_t>(e.kind)]),
                                 e.micro_batch});
    at = begin;
  }
  return {{"name", name}, {"events", std::move(events)}};
}

struct DrawnRole {
  RankRole role;
  Lanes lanes;
};

std::size_t count(const std::vector<std::vector<DrawnRole>>& traces, double least) {
  std::size_t events = 0;
  for (const auto& roles : traces)
    for (const auto& role : roles)
      for (const auto& lane : role.lanes) events += least > 0 ? with_short_ones_joined(lane, least).size() : lane.size();
  return events;
}

/// [begin behind the one before, bytes] in one flat list.
Json memory_json(const RankTrace& rank, const StepRecord& step) {
  constexpr std::size_t kMostLevels = 600;  // half the width of a screen
  auto levels = Json::array();
  std::int64_t at = 0;
  for (const auto& level : memory_levels(rank, step, kMostLevels)) {
    const auto begin = std::llround((level.begin - step.begin) * kNanoseconds);
    levels.insert(levels.end(), {begin - at, level.bytes});
    at = begin;
  }
  return levels;
}

Json trace_json(const Trace& trace, const std::vector<DrawnRole>& roles, double least) {
  Kinds kinds;
  auto drawn = Json::array();
  const auto step = typical_step(trace);
  for (const auto& [role, lanes] : roles) {
    auto shown = Json::array();
    for (std::size_t n = 0; n < kLanes; ++n)
      if (!lanes[n].empty())
        shown.push_back(lane_json(least > 0 ? with_short_ones_joined(lanes[n], least) : lanes[n], kLaneNames[n], *role.shown, kinds));
    drawn.push_back({{"label", label(role)}, {"lanes", std::move(shown)}, {"memory", memory_json(*role.shown, step)}});
    if (role.again) drawn.back()["again"] = true;
  }
  return {{"title", named(trace) + " " + trace.plan},
          {"step", std::llround((step.end - step.begin) * kNanoseconds)},
          {"kinds", std::move(kinds).all()},
          {"roles", std::move(drawn)}};
}

using Did = std::vector<std::tuple<std::string, int, std::int32_t>>;

/// What a rank did in a step, in order, without when.
Did done_by(const RankTrace& rank, const StepRecord& step) {
  Did did;
  for (const auto& e : rank.events)
    if (e.step == step.step)
      did.emplace_back(rank.kinds[e.kind].kernel.op + " " + rank.kinds[e.kind].name, static_cast<int>(e.stream), e.micro_batch);
  return did;
}

/// The first one is shown.
RankRole together(const std::vector<RankRole>& ranks) {
  RankRole all{{}, ranks.front().shown};
  for (const auto& r : ranks) all.ranks.push_back(r.ranks.front());
  return all;
}

/// Ranks that did the same, apart where they took another time for it.
std::vector<RankRole> split_by_time(std::vector<RankRole> ranks, const StepRecord& step) {
  for (auto& rank : ranks) rank.computing = accounts(*rank.shown, {step}).front().compute;
  std::ranges::stable_sort(ranks, {}, &RankRole::computing);
  std::vector<RankRole> roles;
  double least = 0;
  for (const auto& rank : ranks) {
    if (roles.empty() || rank.computing > (1 + kAlikeWithin) * least) roles.emplace_back(), least = rank.computing;
    roles.back().ranks.push_back(rank.ranks.front());
    roles.back().shown = rank.shown;
    roles.back().computing = rank.computing;
  }
  for (auto& role : roles) std::ranges::sort(role.ranks);
  std::ranges::sort(roles, {}, [](const RankRole& r) { return r.ranks.front(); });
  for (std::size_t n = 1; n < roles.size(); ++n) roles[n].again = true;
  return roles;
}

}  // namespace

StepRecord typical_step(const Trace& trace) {
  auto steps = counted_steps(trace);
  std::ranges::stable_sort(steps, {}, [](const StepRecord& s) { return s.end - s.begin; });
  return steps[steps.size() / 2];
}

std::vector<RankRole> rank_roles(const Trace& trace, const StepRecord& step) {
  std::vector<std::vector<RankRole>> by_work;  // each rank by itself
  std::map<Did, std::size_t> known;
  for (const auto& rank : trace.ranks) {
    const auto [at, is_new] = known.try_emplace(done_by(rank, step), by_work.size());
    if (is_new) by_work.emplace_back();
    by_work[at->second].push_back({{rank.rank}, &rank});
  }
  std::vector<RankRole> roles;
  for (const auto& alike : by_work) {
    const auto found = trace.kind == "measured" ? split_by_time(alike, step) : std::vector{together(alike)};
    roles.insert(roles.end(), found.begin(), found.end());
  }
  return roles;
}

std::string label(const RankRole& role) {
  constexpr std::size_t kTold = 3;
  const auto& ranks = role.ranks;
  const auto number = [](int n) { return std::to_string(n); };
  if (ranks.size() == 1) return "rank " + number(ranks.front());
  const auto all = " (" + std::to_string(ranks.size()) + ")";
  if (ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size()))
    return "ranks " + number(ranks.front()) + " to " + number(ranks.back()) + all;
  std::string text = "ranks " + number(ranks.front());
  for (std::size_t n = 1; n < std::min(kTold, ranks.size()); ++n) text += ", " + number(ranks[n]);
  return text + (ranks.size() > kTold ? ", ..." : "") + all;
}

std::string timeline_data(std::span<const Trace> traces, std::size_t most) {
  std::vector<std::vector<DrawnRole>> drawn;
  double longest = 0;
  for (const auto& trace : traces) {
    const auto step = typical_step(trace);
    longest = std::max(longest, step.end - step.begin);
    auto& roles = drawn.emplace_back();
    for (auto& role : rank_roles(trace, step)) roles.push_back({role, lanes_of(*role.shown, step)});
  }
  constexpr double kFirst = 1e-5;  // of the longest step: a tenth of a pixel of a large screen
  double least = 0;
  while (count(drawn, least) > most && least < longest) least = least > 0 ? 2 * least : kFirst * longest;
  auto json = Json::array();
  for (std::size_t n = 0; n < traces.size(); ++n) json.push_back(trace_json(traces[n], drawn[n], least));
  auto text = Json{{"traces", std::move(json)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (auto at = text.find("</"); at != std::string::npos; at = text.find("</", at)) text.replace(at, 2, "<\\/");
  return text;
}

}  // namespace rehearsal::traces
