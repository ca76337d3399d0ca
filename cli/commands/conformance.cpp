#include "exec/conformance.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "formats/onnx/backend_case.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
using formats::BackendCase;

struct ConformanceOptions {
  std::vector<std::string> folders;
  bool gradients = false;
};

/// `skipped`: there is nothing to check. Of the counts that are printed, skipped are all that were not checked, refused cases among them.
enum class Outcome : std::uint8_t { Pass, Fail, Refused, Skipped };
struct CaseVerdict {
  Outcome outcome = Outcome::Pass;
  std::string reason;
};

std::vector<exec::Fed> fed(const std::vector<formats::NamedValue>& values) {
  std::vector<exec::Fed> result;
  for (const auto& [tensor, value] : values) result.push_back({tensor, value});
  return result;
}

CaseVerdict gradient_verdict(const exec::GradientCheck& check) {
  switch (check.verdict) {
    case exec::GradientVerdict::Agrees:
      return {};
    case exec::GradientVerdict::Differs:
      return {Outcome::Fail, check.reason};
    case exec::GradientVerdict::NoGradient:
      return {Outcome::Refused, check.reason};
    case exec::GradientVerdict::NotDifferentiable:
      break;
  }
  return {Outcome::Skipped, "not differentiable: " + check.reason};
}

CaseVerdict verdict_on(const BackendCase& one, std::size_t data_set, bool gradients) {
  const auto data = formats::read_data_set(one, data_set);
  const auto imported = formats::import_case(one, data);
  const auto inputs = fed(imported.inputs);
  if (const auto wrong = exec::forward_difference(imported.graph, inputs, fed(imported.expected), {one.relative, one.absolute}))
    return {Outcome::Fail, *wrong};
  return gradients ? gradient_verdict(exec::check_gradient(imported.graph, inputs)) : CaseVerdict{};
}

CaseVerdict verdict_on(const BackendCase& one, bool gradients) {
  if (!one.unusable.empty()) return {Outcome::Refused, one.unusable};
  if (!one.faulty.empty()) return {Outcome::Skipped, one.faulty};
  CaseVerdict verdict;
  try {
    for (std::size_t i = 0; i < formats::data_sets_of(one) && verdict.outcome == Outcome::Pass; ++i)
      verdict = verdict_on(one, i, gradients);
  } catch (const Error& error) {
    if (error.status() == ExitStatus::Internal) return {Outcome::Fail, error.what()};
    return {Outcome::Refused, error.what()};
  }
  return verdict;
}

std::string word_of(const CaseVerdict& verdict) {
  constexpr const char* kWords[] = {"pass", "fail", "refused", "skipped"};
  return kWords[static_cast<std::size_t>(verdict.outcome)];
}

/// Empty where the model cannot be read.
std::string subject_if_read(const BackendCase& one) {
  try {
    return formats::subject_of(one);
  } catch (const BadInput&) {
    return {};
  }
}

int conformance(const ConformanceOptions& o, Terminal& terminal) {
  std::vector<BackendCase> cases;
  for (const std::string& folder : o.folders) {
    const auto found = formats::find_backend_cases(folder);
    cases.insert(cases.end(), found.begin(), found.end());
  }
  std::int64_t counts[4] = {};
  Json list = Json::array();
  for (const BackendCase& one : cases) {
    const CaseVerdict verdict = verdict_on(one, o.gradients);
    ++counts[static_cast<std::size_t>(verdict.outcome)];
    if (!terminal.json())
      terminal.out() << one.name << ": " << word_of(verdict) << (verdict.reason.empty() ? "" : ": ") << verdict.reason << "\n"
                     << std::flush;
    list.push_back({{"case", one.name}, {"operator", subject_if_read(one)}, {"result", word_of(verdict)}, {"reason", verdict.reason}});
  }
  const std::int64_t skipped = counts[2] + counts[3];
  if (terminal.json()) {
    terminal.print(
        {{"schema", 1}, {"cases", list}, {"passed", counts[0]}, {"failed", counts[1]}, {"skipped", skipped}, {"refused", counts[2]}});
  } else {
    terminal.out() << counts[0] << " passed, " << counts[1] << " failed, " << skipped << " skipped\n";
  }
  return static_cast<int>(counts[1] == 0 ? ExitStatus::Done : ExitStatus::Internal);
}

}  // namespace

Action add_conformance(CLI::App& app) {
  auto o = std::make_shared<ConformanceOptions>();
  app.add_option("DIR", o->folders, "a case of ONNX's backend tests, or a folder of cases")->required();
  app.add_flag("--gradients", o->gradients, "check gradients against finite differences in f64 too");
  return [o](Terminal& terminal) { return conformance(*o, terminal); };
}

}  // namespace rehearsal::cli
