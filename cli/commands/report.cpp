#include <algorithm>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "traces/chrome.hpp"
#include "traces/html_page.hpp"
#include "traces/training_page.hpp"

namespace rehearsal::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> traces;
  std::string search, page, chrome, csv;
};

bool is_metrics(const std::string& path) { return path.ends_with(".jsonl") || path.ends_with(".csv"); }

/// Of `run --metrics`: loss, rate and memory as a page, beside the file where no place is given.
int report_metrics(const ReportOptions& o, Terminal& terminal) {
  if (!std::ranges::all_of(o.traces, is_metrics)) throw BadInput("report", "metrics (.jsonl, .csv) and traces are pages of their own");
  if (!o.search.empty() || !o.chrome.empty() || !o.csv.empty()) throw BadInput("report", "of metrics there is a page alone: -o page.html");
  std::vector<traces::MetricsFile> trainings;
  for (const auto& path : o.traces) trainings.push_back(traces::read_metrics(path));
  const auto page = o.page.empty() ? std::filesystem::path(o.traces.front()).replace_extension(".html").string() : o.page;
  write_file_atomically(page, traces::to_page(trainings));
  terminal.print({{"schema", 1}, {"page", page}});
  return 0;
}

int report(const ReportOptions& o, Terminal& terminal) {
  if (std::ranges::any_of(o.traces, is_metrics)) return report_metrics(o, terminal);
  if (o.page.empty() && o.chrome.empty() && o.csv.empty())
    throw WrongUsage("report", "nothing to write; use -o page.html, --chrome trace.json or --csv trace.csv");
  if (o.traces.empty() && (o.search.empty() || !o.chrome.empty() || !o.csv.empty()))
    throw WrongUsage("report", "needs a trace; a page alone can be made of --search FILE");
  const auto found = o.search.empty() ? std::nullopt : std::optional(traces::read_search(o.search));
  std::vector<traces::Trace> all;
  for (const auto& path : o.traces) all.push_back(traces::read_trace(path));
  nlohmann::ordered_json result{{"schema", 1}};
  const auto page = [&](std::span<const traces::Trace> traces) { return traces::to_page(found ? &*found : nullptr, traces); };
  const std::tuple<const char*, const std::string&, std::function<std::string(std::span<const traces::Trace>)>> outputs[] = {
      {"page", o.page, page}, {"chrome", o.chrome, traces::to_chrome_json}, {"csv", o.csv, traces::to_csv}};
  for (const auto& [name, path, write] : outputs) {
    if (path.empty()) continue;
    write_file_atomically(path, write(all));
    result[name] = path;
  }
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_report(CLI::App& app) {
  auto o = std::make_shared<ReportOptions>();
  app.add_option(
      "TRACE", o->traces,
      "traces of run or simulate, of which two of one program are compared; or metrics of run (.jsonl, .csv), which make a page alone");
  app.add_option("--search", o->search, "what search --format json printed, to be shown on the page");
  app.add_option("-o,--output", o->page,
                 "where to write one HTML page that needs nothing else; of metrics beside the first file, where it is left out");
  app.add_option("--chrome", o->chrome, "where to write the events for chrome://tracing and Perfetto");
  app.add_option("--csv", o->csv, "where to write the events as a table, a line each");
  return [o](Terminal& terminal) { return report(*o, terminal); };
}

}  // namespace rehearsal::cli
