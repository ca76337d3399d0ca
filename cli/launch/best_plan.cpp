#include "cli/launch/best_plan.hpp"

#include "base/progress.hpp"
#include "search/search.hpp"

namespace rehearsal::cli {

plan::Plan best_plan(const JobSetup& setup, double seconds) {
  search::SearchOptions options;
  options.seconds = seconds;
  options.top = 1;
  Progress silent;
  std::vector<predict::Predictor*> jobs{&setup.choosing()};
  return search::search(jobs, options, silent).plans.front().answer.plan;
}

}  // namespace rehearsal::cli
