#include "search/search.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/platform_options.hpp"

namespace rehearsal::cli {
namespace {

struct Options {
  ModelOptions model;
  PlatformOptions platform;            ///< what holds for all `platforms`
  std::vector<std::string> platforms;  ///< a choice of hardware
  std::string objective = "time", budget, output;
  std::size_t top = 5;
};

/// "30s" is a time, "2000plans" a count.
void set_budget(const std::string& text, search::SearchOptions& options) {
  if (text.empty()) return;
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  const bool good = number && std::isfinite(*number) && *number > 0;
  if (good && unit == "plans")
    options.plans = static_cast<std::int64_t>(*number);
  else if (good && (unit == "s" || unit == "ms" || unit == "min"))
    options.seconds = *number * (unit == "ms" ? 1e-3 : unit == "min" ? 60 : 1);
  else
    throw BadInput("--budget " + text, "write a time such as 30s, or a count such as 2000plans");
}

/// One job for each platform.
std::vector<std::unique_ptr<JobSetup>> setups_of(const Options& o, Terminal& terminal) {
  std::vector<std::unique_ptr<JobSetup>> setups;
  for (const auto& platform : o.platforms) {
    auto on = o.platform;
    on.platform = platform;
    setups.push_back(std::make_unique<JobSetup>(o.model, on));
    for (const auto& earlier : std::span(setups).first(setups.size() - 1))
      if (earlier->platform().name == setups.back()->platform().name)
        throw BadInput("--platform " + platform, "has the name of another one, " + earlier->platform().name);
  }
  for (const auto& w : setups.front()->warnings()) terminal.warn(w);
  return setups;
}

search::SearchOptions search_options(const Options& o) {
  search::SearchOptions options;
  options.objective = o.objective;
  options.top = o.top;
  set_budget(o.budget, options);
  if (!o.platform.plan.empty()) {
    // Keys given as "auto" are searched, the others are fixed.
    options.fixed = plan_argument(o.platform.plan).plan;
    options.free = options.fixed.searched;
    options.splits_samples = true;
  }
  return options;
}

int search(const Options& o, Terminal& terminal) {
  if (!o.output.empty()) require_place(o.output);
  const auto setups = setups_of(o, terminal);
  std::vector<predict::Predictor*> jobs;
  for (const auto& setup : setups) jobs.push_back(&setup->predictor());
  const auto progress = terminal.progress("searching");
  const auto found = search::search(jobs, search_options(o), *progress);
  const auto& winner = **std::ranges::find_if(setups, [&](const auto& s) { return s->platform().name == found.plans.front().platform; });
  auto result = winner.heading(o.model);
  result["objective"] = o.objective;
  auto plans = nlohmann::ordered_json::array();
  for (const auto& a : found.plans) {
    auto entry = to_json(a, 1);
    entry["platform"] = a.platform;
    entry["why_not"] = a.why_not;
    plans.push_back(std::move(entry));
  }
  result["plans"] = plans;
  result["searched"] = found.searched;
  result["pruned"] = found.pruned;
  result["exhausted"] = found.exhausted;
  result["seconds"] = found.seconds;
  if (!o.output.empty()) {
    plan::write_plan_file(o.output, {winner.to_write(found.plans.front().plan), winner.context(o.model)});
    result["written"] = o.output;
  }
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_search(CLI::App& app) {
  auto o = std::make_shared<Options>();
  o->model.add_to(app);
  app.add_option("--platform", o->platforms, std::string(kPlatformHelp) + "; several are a choice of hardware")->required();
  o->platform.add_without_platform_to(app);
  app.add_option("--objective", o->objective, "time, energy, cost, memory or pareto");
  app.add_option("--budget", o->budget, "30s, or 2000plans to be reproducible");
  app.add_option("--top", o->top, "plans to show")->check(CLI::Range(1, 1000));
  app.add_option("-o,--output", o->output, "where to write the best plan");
  return [o](Terminal& terminal) { return search(*o, terminal); };
}

}  // namespace rehearsal::cli
