#include "traces/compare.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/comparison_json.hpp"

namespace rehearsal::cli {
namespace {

struct CompareOptions {
  std::string predicted, measured;
  std::size_t top = 10;
};

int compare(const CompareOptions& o, Terminal& terminal) {
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
  result.update(to_json(comparison, o.top));
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_compare(CLI::App& app) {
  auto o = std::make_shared<CompareOptions>();
  app.add_option("PREDICTED", o->predicted, "a trace of simulate or run")->required();
  app.add_option("MEASURED", o->measured, "a trace of run or simulate, of the same model, plan and batch")->required();
  app.add_option("--top", o->top, "how many single instructions to list (default 10)");
  return [o](Terminal& terminal) { return compare(*o, terminal); };
}

}  // namespace rehearsal::cli
