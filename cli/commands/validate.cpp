#include "validation/validate.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/fidelity.hpp"
#include "predict/simulation.hpp"
#include "validation/embedded.hpp"
#include "validation/page.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
using validation::ErrorRow;
using validation::Summary;
using validation::Verdict;

struct ValidateOptions {
  std::string measured, machine, family, html, through = "closed";
};

Json evidence_json(const Verdict& v) {
  const auto& s = v.step;
  return {{"device", v.device},
          {"arithmetic", v.arithmetic},
          {"framework", v.framework},
          {"assumed", v.assumed},
          {"played", v.played},
          {"breakdown",
           {{"forward", s.forward},
            {"backward", s.backward},
            {"recompute", s.recompute},
            {"bubble", s.bubble},
            {"tensor", s.exchanges},
            {"exposed_communication", s.exposed},
            {"optimizer", s.optimizer},
            {"coordination", s.coordination},
            {"matrix_share", s.matrix_share},
            {"memory_share", s.memory_share}}}};
}

Json json_of(const Verdict& v) {
  Json line{{"id", v.id}};
  if (!v.refused.empty()) {
    line["refused"] = v.refused;
    return line;
  }
  for (const auto& [key, interval] : v.predicted) line["predicted"][key] = to_json(interval);
  for (const auto& [key, error] : v.errors) line["error"][key] = error;
  line["evidence"] = evidence_json(v);
  return line;
}

Json json_of(const ErrorRow& row) {
  return {{"family", row.family},
          {"answered", row.answered},
          {"refused", row.refused},
          {"mean_error", row.mean},
          {"median_error", row.median},
          {"held_by_interval", row.answered > 0 ? static_cast<double>(row.held) / row.answered : 0.0},
          {"median_interval_factor", row.median_width}};
}

Json json_of(const Summary& s) {
  Json json{{"schema", 1}, {"all", json_of(s.all)}, {"families", Json::array()}, {"refusals", s.refusals}};
  json["played"] = s.played;
  json["regret"] = {{"mean", s.choice.mean_regret}, {"worst", s.choice.worst_regret}, {"sets", s.choice.sets}};
  json["rank_correlation"] = {{"mean", s.choice.rank_correlation}, {"sets", s.choice.sets}};
  json["coverage"] = {{"share", s.all.answered > 0 ? static_cast<double>(s.all.held) / s.all.answered : 0.0},
                      {"held", s.all.held},
                      {"answered", s.all.answered}};
  for (const auto& row : s.families) json["families"].push_back(json_of(row));
  return json;
}

std::string warning_of(const std::set<std::string>& keys) {
  std::string text = "unknown keys are ignored:";
  for (const auto& key : keys) text += " " + key;
  return text;
}

/// The file that is named, or the product's own copy of some records.
validation::RecordFile records_of(const ValidateOptions& o) {
  if (!o.measured.empty()) return validation::read_record_file(o.measured);
  std::istringstream own{std::string(validation::embedded_records())};
  return validation::read_records(own, "validation/records/published.jsonl");
}

int validate(const ValidateOptions& o, Terminal& terminal) {
  namespace pub = validation;
  auto file = records_of(o);
  if (!file.unknown_keys.empty()) terminal.warn(warning_of(file.unknown_keys));
  if (!o.family.empty()) std::erase_if(file.records, [&](const auto& r) { return r.family != o.family; });
  const auto site = o.machine.empty() ? costmodel::Site{} : costmodel::read_site(o.machine);
  const auto progress = terminal.progress("validate");
  pub::PlayerOf player;
  const auto fidelity = fidelity_of(o.through, "--through");
  if (fidelity != Fidelity::Closed) player = [&] { return predict::open_simulator(name(fidelity)); };
  const auto verdicts = pub::validate(file.records, costmodel::published_constants(), site, *progress, player);
  const auto summary = pub::summarise(verdicts, file.records);
  if (!o.html.empty()) write_file_atomically(o.html, pub::validation_page(verdicts, file.records));
  if (terminal.json())
    for (const auto& v : verdicts) terminal.out() << json_of(v).dump() << '\n';
  if (terminal.json())
    terminal.out() << Json{{"summary", json_of(summary)}}.dump() << '\n';
  else
    terminal.print(json_of(summary));
  return 0;
}

}  // namespace

Action add_validate(CLI::App& app) {
  auto o = std::make_shared<ValidateOptions>();
  app.add_option("--measured", o->measured, "records of published runs, one JSON object a line; without it our own copy of some");
  app.add_option("--machine", o->machine, "a site that `rehearse learn RECORDS --into` wrote");
  app.add_option("--family", o->family, "only records of this family");
  app.add_option("--through", o->through, "closed (formulas), folded or full: records are answered by playing their steps");
  app.add_option("--html", o->html, "a page with the picture");
  return [o](Terminal& terminal) { return validate(*o, terminal); };
}

}  // namespace rehearsal::cli
