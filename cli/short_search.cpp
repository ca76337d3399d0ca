#include "cli/short_search.hpp"

#include "search/search.hpp"

namespace rehearsal::cli {

plan::Plan best_of_few(JobSetup& setup, std::string_view objective) {
  search::SearchOptions search;
  search.objective = objective;
  search.plans = 300;
  search.top = 1;
  Progress silent;
  return search::search(setup.predictor(), search, silent).plans.front().answer.plan;
}

}  // namespace rehearsal::cli
