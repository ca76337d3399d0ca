#include <cmath>
#include <map>
#include <regex>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "cli/command.hpp"
#include "cli/validation_json.hpp"
#include "validation/constants_fit.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace pub = validation;

struct FitOptions {
  std::string measured, start, output, residuals, date, commit;
  int steps = 6;
};

/// Errors of left-out sources, by what a quantity is grouped under.
struct Errors {
  std::vector<double> fitted, left_out;

  void add(const pub::FittedQuantity& q) {
    fitted.push_back(std::fabs(std::expm1(q.residual)));
    left_out.push_back(std::fabs(std::expm1(q.left_out)));
  }
  [[nodiscard]] Json json(const std::string& name) const {
    return {{"name", name},
            {"quantities", fitted.size()},
            {"mean_fitted", mean_of(fitted)},
            {"mean_left_out", mean_of(left_out)},
            {"median_left_out", median_of(left_out)}};
  }
};

Json table(const std::map<std::string, Errors>& rows) {
  auto json = Json::array();
  for (const auto& [name, errors] : rows) json.push_back(errors.json(name));
  return json;
}

Json left_out(const pub::IntervalCheck& intervals) {
  auto json = Json::array();
  for (const auto& family : intervals.families)
    json.push_back({{"by", family.by},
                    {"name", family.name},
                    {"quantities", family.quantities},
                    {"held_by_interval", family.held},
                    {"median_interval_ratio", family.median_ratio}});
  return json;
}

Json report(const pub::FitOutcome& outcome, const std::vector<pub::Record>& records) {
  std::map<std::string, Errors> families, sources, totals;
  for (const auto& q : outcome.quantities) {
    const auto& r = records[q.record];
    const bool side = q.group == "memory" || q.group == "energy";
    families[side ? q.group + " of " + r.family : r.family].add(q);
    sources[q.source + (side ? " (" + q.group + ")" : "")].add(q);
    totals[side ? q.group : r.core && r.complete ? "time, core and complete" : "time, others"].add(q);
    if (!side) totals["time, all"].add(q);
  }
  Json constants = Json::object();
  for (std::size_t c = 0; c < costmodel::kCoefficients; ++c)
    if (outcome.constants.facts[c].fitted)
      constants[std::string(costmodel::name(static_cast<costmodel::Coefficient>(c)))] =
          outcome.constants.values[static_cast<costmodel::Coefficient>(c)];
  return {{"schema", 1},
          {"fitted_constants", outcome.fitted_constants},
          {"quantities", outcome.quantities.size()},
          {"coverage_left_out", outcome.intervals.coverage},
          {"intervals", outcome.constants.evidence.log_factor},
          {"widening", outcome.constants.evidence.factors()},
          {"left_out_in_turn", left_out(outcome.intervals)},
          {"totals", table(totals)},
          {"families", table(families)},
          {"sources", table(sources)},
          {"constants", constants}};
}

/// One line per quantity: log errors under the fitted constants and under those fitted without its source.
std::string residual_lines(const pub::FitOutcome& outcome, const std::vector<pub::Record>& records) {
  std::string lines;
  for (const auto& q : outcome.quantities) {
    const Json row{{"id", records[q.record].id}, {"quantity", q.key},    {"group", q.group},      {"source", q.source},
                   {"weight", q.weight},         {"fitted", q.residual}, {"left_out", q.left_out}};
    lines += row.dump() + "\n";
  }
  return lines;
}

void require_date(const std::string& text) {
  static const std::regex kDay(R"(\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01]))");
  if (!text.empty() && !std::regex_match(text, kDay)) throw BadInput("--date " + text, "is no day; write it as 2026-11-30");
}

void warn_of_records(const pub::FitOutcome& outcome, std::size_t records, const Terminal& terminal) {
  warn_of_nothing(terminal, outcome.nothing, records);
  if (std::cmp_less(outcome.quantities.size(), outcome.fitted_constants))
    terminal.warn("there are " + std::to_string(outcome.quantities.size()) + " measured quantities for " +
                  std::to_string(outcome.fitted_constants) + " constants: most of these stay where they are");
}

int fit(const FitOptions& o, Terminal& terminal) {
  require_date(o.date);
  const auto file = pub::read_record_file(o.measured);
  pub::require_records(file, o.measured);
  warn_of(terminal, o.measured + ": unknown keys are ignored:", file.unknown_keys);
  warn_of(terminal, o.measured + ": several lines have one id, and each counts:", file.repeated_ids);
  const auto& start = costmodel::published_constants();
  const auto progress = terminal.progress("fit");
  auto outcome = pub::fit_constants(file.records, start, o.steps, *progress);
  warn_of_records(outcome, file.records.size(), terminal);
  outcome.constants.frozen_date = o.date;
  outcome.constants.frozen_commit = o.commit;
  if (!o.output.empty()) write_file_atomically(o.output, costmodel::to_json_text(outcome.constants));
  if (!o.residuals.empty()) write_file_atomically(o.residuals, residual_lines(outcome, file.records));
  terminal.print(report(outcome, file.records));
  return 0;
}

}  // namespace

Action add_fit(CLI::App& app) {
  auto o = std::make_shared<FitOptions>();
  app.add_option("--measured", o->measured, "records of published runs, one JSON object a line")->required();
  app.add_option("--steps", o->steps, "Gauss-Newton steps; 0 keeps the constants and reports them")->check(CLI::Range(0, 100));
  app.add_option("--date", o->date, "date that the constants are frozen under");
  app.add_option("--commit", o->commit, "commit that the constants are frozen under");
  app.add_option("-o,--output", o->output, "where the constants are written");
  app.add_option("--residuals", o->residuals, "where the log error of every measured quantity is written, one JSON object a line");
  return [o](Terminal& terminal) { return fit(*o, terminal); };
}

}  // namespace rehearsal::cli
