#include "sim/evaluator.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "predict/steady.hpp"
#include "sim/playback.hpp"

namespace rehearsal::sim {
namespace {

std::vector<int> all_ranks(const plan::Program& program) {
  std::vector<int> ranks(static_cast<std::size_t>(program.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int> first_of_roles(const plan::Program& program) {
  std::vector<int> ranks;
  for (std::uint32_t role = 0; role < program.roles.size(); ++role) {
    const auto at = std::ranges::find(program.role_of, role);
    if (at != program.role_of.end()) ranks.push_back(static_cast<int>(at - program.role_of.begin()));
  }
  return ranks;
}

/// Links that no message crosses are not counted: they may serve other jobs.
Joules link_energy(const Routes& routes, double message_joules, Seconds step) {
  Joules total(message_joules);
  for (const auto& link : routes.links()) total += link.idle_power * step;
  return total;
}

/// Plays the ranks; busy_seconds and timeline are in their order.
predict::StepCost play(const predict::EvaluationRequest& request, PlaybackOptions options, NetworkOf network_of) {
  Routes routes(request.platform);
  const auto network = network_of(routes);
  const auto ranks = options.ranks;
  Playback playback(request, std::move(options), routes, *network);
  playback.play();
  std::map<std::uint32_t, double> busy;  // by role
  std::vector<predict::RankEnd> ends;
  predict::StepCost cost;
  for (const int rank : ranks) {
    const auto [at, fresh] = busy.try_emplace(request.program.role_of[static_cast<std::size_t>(rank)]);
    if (fresh) at->second = playback.account(rank).busy();
    ends.push_back({rank, playback.end(rank), playback.active(rank), at->second});
    cost.busy_seconds.push_back(at->second);
    if (request.keep_timeline) cost.timeline.push_back(playback.timeline(rank));
  }
  predict::stretch(cost.timeline, request.model.composition_factor());
  predict::set_step(request, ends, playback.account(ends[predict::step_end(ends).limiting].rank), cost);
  cost.events = playback.events();
  cost.links_energy = link_energy(routes, playback.message_joules(), cost.step);
  return cost;
}

class Full final : public predict::StepEvaluator {
 public:
  explicit Full(NetworkOf network) : network_(network) {}
  [[nodiscard]] std::string_view name() const override { return "full"; }

  [[nodiscard]] predict::StepCost evaluate(const predict::EvaluationRequest& request) override {
    return predict::step_among_steps(request, [this](const predict::EvaluationRequest& r) { return played(r, network_); });
  }

  static predict::StepCost played(const predict::EvaluationRequest& request, NetworkOf network) {
    const auto& program = request.program;
    PlaybackOptions options;
    options.ranks = all_ranks(program);
    if (request.keep_timeline) options.recorded = program.ranks <= kRecordedRanks ? options.ranks : first_of_roles(program);
    auto cost = play(request, std::move(options), network);
    predict::set_device_energy(
        request, [&](int rank) { return cost.busy_seconds[static_cast<std::size_t>(rank)]; }, cost);
    return cost;
  }

 private:
  NetworkOf network_;
};

/// The rank whose stage a rank's replica repeats.
std::size_t stage_index(const plan::Program& program, const std::vector<int>& representatives, int rank) {
  const auto same = [&](int other) { return program.role(other).stage == program.role(rank).stage; };
  return static_cast<std::size_t>(std::ranges::find_if(representatives, same) - representatives.begin());
}

class Folded final : public predict::StepEvaluator {
 public:
  [[nodiscard]] std::string_view name() const override { return "folded"; }

  [[nodiscard]] predict::StepCost evaluate(const predict::EvaluationRequest& request) override {
    return predict::step_among_steps(request, played);
  }

 private:
  static predict::StepCost played(const predict::EvaluationRequest& request) {
    const auto& program = request.program;
    const auto ranks = predict::busiest_representatives(program, request.costs, request.platform);
    const auto alike = [&](int rank) {
      return program.role_of[static_cast<std::size_t>(rank)] ==
             program.role_of[static_cast<std::size_t>(ranks[stage_index(program, ranks, rank)])];
    };
    if (!std::ranges::all_of(all_ranks(program), alike)) return Full::played(request, fluid_network);
    PlaybackOptions options{ranks, request.keep_timeline ? ranks : std::vector<int>{}, true};
    auto cost = play(request, std::move(options), fluid_network);
    predict::set_device_energy(
        request, [&](int rank) { return cost.busy_seconds[stage_index(program, ranks, rank)]; }, cost);
    return cost;
  }
};

}  // namespace

std::unique_ptr<predict::StepEvaluator> full_evaluator(NetworkOf network) { return std::make_unique<Full>(network); }
std::unique_ptr<predict::StepEvaluator> folded_evaluator() { return std::make_unique<Folded>(); }

}  // namespace rehearsal::sim
