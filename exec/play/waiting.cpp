#include "exec/play/waiting.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/statistics.hpp"
#include "exec/play/last_instructions.hpp"

namespace rehearsal::exec {
void Waiting::add(const StepResult& result) {
  waited_ += result.waited;
  busy_ += result.end - result.begin - result.waited;
  for (const auto& wait : result.waits) awaited_[{wait.body, wait.instruction}] += wait.seconds;
}

std::vector<RankTimes> Waiting::gather(const Training& training) const {
  nlohmann::json own{{"busy", busy_}, {"waited", waited_}, {"awaited", ""}, {"awaited_seconds", 0.0}};
  const auto longest = std::ranges::max_element(awaited_, {}, [](const auto& entry) { return entry.second; });
  if (longest != awaited_.end()) {
    const auto& role = training.program.role(training.world.rank());
    own["awaited"] = instruction_text(training, role, role.bodies[longest->first.first].instructions[longest->first.second]);
    own["awaited_seconds"] = longest->second;
  }
  std::vector<RankTimes> all;
  for (const auto& text : training.world.gather(own.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))) {
    const auto of_rank = nlohmann::json::parse(text);
    all.push_back({of_rank.at("busy"), of_rank.at("waited"), of_rank.at("awaited"), of_rank.at("awaited_seconds")});
  }
  return all;
}

std::vector<Straggler> stragglers(const plan::Program& program, const std::vector<RankTimes>& times, double least) {
  std::vector<Straggler> found;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const auto* role = &program.role(static_cast<int>(rank));
    std::vector<double> alike;
    std::size_t most = rank;  // of the others, the one that waited most
    for (std::size_t other = 0; other < times.size(); ++other) {
      if (&program.role(static_cast<int>(other)) == role) alike.push_back(times[other].busy);
      if (other != rank && (most == rank || times[other].waited > times[most].waited)) most = other;
    }
    const double usual = lower_median_of(alike);  // with the upper one the slower of two ranks would be compared with itself
    if (alike.size() < 2 || !(times[rank].busy > usual * (1 + least))) continue;
    found.push_back(
        {static_cast<int>(rank), times[rank].busy / usual - 1, times[most].awaited, times[most].awaited_seconds, static_cast<int>(most)});
  }
  std::ranges::sort(found, std::greater(), &Straggler::slower);
  return found;
}

}  // namespace rehearsal::exec
