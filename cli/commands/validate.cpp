#include "validation/validate.hpp"

#include <filesystem>
#include <set>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/names.hpp"
#include "cli/command.hpp"
#include "cli/fidelity.hpp"
#include "cli/validation_json.hpp"
#include "predict/simulation.hpp"
#include "validation/accuracy_page.hpp"
#include "validation/answers.hpp"
#include "validation/embedded_records.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
using validation::RecordFile;
using validation::Verdict;

struct ValidateOptions {
  std::string measured, machine, family, html, answers, against, through = "closed";
};

void keep_family(std::vector<validation::Record>& records, const std::string& family) {
  std::set<std::string_view> families;
  for (const auto& r : records) families.insert(r.family);
  const std::string known(known_name("--family", family, Names(families.begin(), families.end())));
  std::erase_if(records, [&](const auto& r) { return r.family != known; });
}

/// The file that is named, or the product's own copy of some records.
RecordFile records_of(const ValidateOptions& o, Terminal& terminal) {
  std::istringstream own{std::string(validation::embedded_records())};
  auto file =
      o.measured.empty() ? validation::read_records(own, "validation/records/published.jsonl") : validation::read_record_file(o.measured);
  validation::require_records(file, o.measured);
  warn_of(terminal, "unknown keys are ignored:", file.unknown_keys);
  warn_of(terminal, o.measured + ": several lines have one id, and each counts:", file.repeated_ids);
  if (!o.family.empty()) keep_family(file.records, o.family);
  return file;
}

std::vector<Verdict> own_answers(const ValidateOptions& o, const RecordFile& file, Terminal& terminal) {
  const auto site = o.machine.empty() ? costmodel::Site{} : costmodel::read_site(o.machine);
  if (!o.machine.empty() && site.corrections.empty())
    throw BadInput("--machine " + o.machine,
                   "holds no runs that records are corrected by; `rehearse learn RECORDS --into " + o.machine + "` adds some");
  const auto progress = terminal.progress("validate");
  validation::PlayerOf player;
  const auto fidelity = fidelity_of(o.through, "--through");
  if (fidelity != Fidelity::Closed) player = [&] { return predict::open_simulator(name(fidelity)); };
  return validation::validate(file.records, costmodel::published_constants(), site, *progress, player);
}

std::vector<Verdict> answers_in(const std::string& path, const RecordFile& file, const ValidateOptions& o, Terminal& terminal) {
  auto answers = validation::read_answer_file(path, file.records);
  if (o.family.empty()) warn_of(terminal, path + ": answers records that are not there:", answers.unknown_ids);
  if (o.family.empty()) warn_of(terminal, path + ": predicts what no record measures:", answers.unknown_keys);
  return std::move(answers.verdicts);
}

/// Options that would change nothing.
void refuse_idle_options(const ValidateOptions& o) {
  if (!o.answers.empty() && !o.machine.empty())
    throw BadInput("--machine", "changes our own predictions; --answers takes them from a file");
  if (!o.answers.empty() && o.through != "closed")
    throw BadInput("--through", "changes our own predictions; --answers takes them from a file");
  if (!o.against.empty() && !o.html.empty()) throw BadInput("--html", "draws one set of answers; leave out --against");
}

int compare_answers(const ValidateOptions& o, const RecordFile& file, const std::vector<Verdict>& ours, Terminal& terminal) {
  Contestants who{o.answers.empty() ? "rehearse" : std::filesystem::path(o.answers).stem().string(),
                  std::filesystem::path(o.against).stem().string()};
  if (who.first == who.second) who = {o.answers.empty() ? "rehearse" : o.answers, o.against};
  const auto comparison = validation::compare(ours, answers_in(o.against, file, o, terminal), file.records);
  const auto summary = comparison_json(comparison, who);
  if (!terminal.json()) {
    terminal.print(summary);
    return 0;
  }
  for (const auto& duel : comparison.duels) terminal.out() << duel_json(duel, who).dump() << '\n';
  terminal.out() << Json{{"summary", summary}}.dump() << '\n';
  return 0;
}

/// Our own; another predictor may have none.
void require_answers(const validation::Summary& summary, std::size_t records) {
  if (summary.all.answered > 0) return;
  const auto often = std::ranges::max_element(summary.refusals, {}, [](const auto& refusal) { return refusal.second; });
  throw Refusal("none of the " + std::to_string(records) + " records is answered, so nothing is validated" +
                (often == summary.refusals.end() ? std::string() : "; " + std::to_string(often->second) + " times: " + often->first));
}

int validate(const ValidateOptions& o, Terminal& terminal) {
  refuse_idle_options(o);
  const auto file = records_of(o, terminal);
  const auto verdicts = o.answers.empty() ? own_answers(o, file, terminal) : answers_in(o.answers, file, o, terminal);
  if (!o.against.empty()) return compare_answers(o, file, verdicts, terminal);
  const auto summary = validation::summarise(verdicts, file.records);
  if (o.answers.empty()) require_answers(summary, verdicts.size());
  if (!o.html.empty()) write_file_atomically(o.html, validation::validation_page(verdicts, file.records));
  if (terminal.json()) {
    for (const auto& v : verdicts) terminal.out() << verdict_json(v).dump() << '\n';
    terminal.out() << Json{{"summary", summary_json(summary)}}.dump() << '\n';
  } else {
    terminal.print(summary_json(summary));
  }
  return 0;
}

}  // namespace

Action add_validate(CLI::App& app) {
  auto o = std::make_shared<ValidateOptions>();
  app.add_option("--measured", o->measured, "records of published runs, one JSON object a line; without it our own copy of some");
  app.add_option("--machine", o->machine, "a site that `rehearse learn RECORDS --into` wrote");
  app.add_option("--family", o->family, "only records of this family");
  app.add_option("--through", o->through, "closed (formulas), folded or full: records are answered by playing their steps");
  app.add_option("--answers", o->answers, "scores these instead of our own predictions: JSON lines as this command writes them");
  app.add_option("--against", o->against, "answers of another predictor in the same form, compared with the first ones record by record");
  app.add_option("--html", o->html, "a page with the picture");
  return [o](Terminal& terminal) { return validate(*o, terminal); };
}

}  // namespace rehearsal::cli
