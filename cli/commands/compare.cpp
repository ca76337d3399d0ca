#include "traces/compare.hpp"

#include <fstream>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "cli/command.hpp"
#include "cli/comparison_json.hpp"
#include "validation/own_run.hpp"

namespace rehearsal::cli {
namespace {

struct CompareOptions {
  std::string predicted, measured;
  std::int64_t top = 10;
};

/// A measured run beside what `estimate` said of it.
int compare_run(const CompareOptions& o, Terminal& terminal) {
  const auto predicted = validation::read_prediction(o.predicted);
  const auto file = validation::read_record_file(o.measured);
  std::optional<validation::OwnRun> found;
  std::vector<std::string> last;
  for (const auto& record : file.records) {
    const auto run = validation::own_run(record);
    last = validation::differences(predicted, run);
    if (last.empty()) found = run;
  }
  if (!found)
    throw BadInput(o.measured,
                   "has no run of what was predicted" + (last.empty() ? std::string() : "; of its last one the " + joined(last, ", the ")));
  nlohmann::ordered_json result{
      {"schema", 1},     {"model", found->model}, {"plan", found->plan}, {"batch", found->batch}, {"kinds", {"predicted", "measured"}},
      {"run", found->id}};
  result.update(to_json(validation::comparison(predicted, *found), static_cast<std::size_t>(o.top)));
  result.erase("rows_add_up_to");
  result.erase("input");
  result.erase("instructions");
  for (auto& row : result["rows"]) row.erase("instructions");
  result["step"]["measured_deviation_seconds"] = found->measured.deviation;
  result["communication"] = {{"measured_seconds", found->measured.communication}};
  terminal.print(result);
  return 0;
}

int compare(const CompareOptions& o, Terminal& terminal) {
  if (o.top < 0) throw BadInput("--top " + std::to_string(o.top), "must be at least 0");
  if (std::ifstream(o.measured) && std::ifstream(o.predicted) && !traces::is_trace_file(o.measured) && !traces::is_trace_file(o.predicted))
    return compare_run(o, terminal);
  const auto predicted = traces::read_trace(o.predicted), measured = traces::read_trace(o.measured);
  const auto comparison = traces::compare(predicted, measured);
  if (comparison.only_predicted + comparison.only_measured > 0)
    terminal.warn(std::to_string(comparison.only_predicted) + " instructions are in " + o.predicted + " alone, " +
                  std::to_string(comparison.only_measured) + " in " + o.measured + " alone");
  nlohmann::ordered_json result{{"schema", 1},
                                {"model", measured.model},
                                {"plan", measured.plan},
                                {"batch", measured.batch},
                                {"kinds", {predicted.kind, measured.kind}}};
  result.update(to_json(comparison, static_cast<std::size_t>(o.top)));
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_compare(CLI::App& app) {
  auto o = std::make_shared<CompareOptions>();
  app.add_option("PREDICTED", o->predicted, "a trace of simulate or run, or what estimate --format json said")->required();
  app.add_option(
         "MEASURED", o->measured,
         "a trace of run or simulate, of the same model, plan, batch and framework, or a file of measured runs that import -o wrote")
      ->required();
  app.add_option("--top", o->top, "how many single instructions to list (default 10)");
  return [o](Terminal& terminal) { return compare(*o, terminal); };
}

}  // namespace rehearsal::cli
