#include "cli/best_plan.hpp"

#include "search/search.hpp"

namespace rehearsal::cli {

plan::Plan best_plan(const JobSetup& setup, double seconds, std::optional<int> ranks, Progress& progress) {
  search::SearchOptions options;
  options.seconds = seconds;
  options.top = 1;
  options.ranks = ranks;
  std::erase(options.free, "fill");  // ranks are on the hosts that are there
  std::vector<predict::Predictor*> jobs{&setup.choosing()};
  return search::search(jobs, options, progress).plans.front().answer.plan;
}

}  // namespace rehearsal::cli
