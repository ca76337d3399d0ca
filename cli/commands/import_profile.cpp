#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/statistics.hpp"
#include "cli/importing.hpp"
#include "exchange/frameworks/zoo_reference.hpp"
#include "validation/own_run.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

double seconds(std::int64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

/// The collectives of a trace, or in their place why they are left out, unless they were asked for.
void add_collectives(const exchange::GpuProfile& trace, bool wanted, Json& result) {
  try {
    Json list = Json::array();
    for (const auto& sum : exchange::collectives(trace))
      list.push_back({{"name", sum.name},
                      {"ranks", sum.group},
                      {"message_bytes", sum.bytes},
                      {"count", sum.count},
                      {"seconds", seconds(sum.microseconds)}});
    result["collectives"] = std::move(list);
  } catch (const Refusal& refusal) {
    if (wanted) throw;
    result["collectives_are"] = std::string("left out: ") + refusal.what();
  }
}

Json json_of(const exchange::TimeBreakdown& times) {
  return {{"total_seconds", seconds(times.total())},
          {"idle_seconds", seconds(times.idle)},
          {"compute_seconds", seconds(times.compute)},
          {"non_compute_seconds", seconds(times.non_compute)},
          {"communication_seconds", seconds(times.communication)},
          {"overlap_seconds", seconds(times.overlap)}};
}

/// How time divides, or where that is not known the sums of what there is.
void add_breakdown(const exchange::GpuProfile& trace, Json& result) {
  if (trace.has_begins) {
    result["breakdown"] = json_of(exchange::breakdown(trace));
    return;
  }
  const auto sums = exchange::work_sums(trace);
  result["sums"] = {{"compute_seconds", seconds(sums.compute)},
                    {"communication_seconds", seconds(sums.communication)},
                    {"copies_seconds", seconds(sums.memory)}};
  result["breakdown_is"] = "left out: nodes say how long they took (duration_micros) and not when they began (start_time_micros)";
}

Json json_of_steps(const std::vector<double>& steps) {
  const auto [least, most] = std::ranges::minmax(steps);
  const auto count = static_cast<double>(steps.size());
  const double mean = mean_of(steps);
  double squares = 0;
  for (const double step : steps) squares += (step - mean) * (step - mean);
  return {{"count", steps.size()},
          {"mean_seconds", mean},
          {"deviation_seconds", std::sqrt(squares / count)},
          {"least_seconds", least},
          {"most_seconds", most}};
}

validation::StepSeconds step_of(const exchange::GpuProfile& trace, const Json& steps) {
  const auto times = exchange::breakdown(trace);
  const auto of_step = [&](std::int64_t microseconds) { return seconds(microseconds) / static_cast<double>(trace.step_seconds.size()); };
  validation::StepSeconds step;
  step.step = steps.at("mean_seconds");
  step.deviation = steps.at("deviation_seconds");
  step.compute = of_step(times.compute);
  step.communication = of_step(times.communication);
  step.exposed = of_step(times.communication - times.overlap);
  step.copies = of_step(times.non_compute) - step.exposed;
  step.idle = step.step - step.compute - step.exposed - step.copies;
  return step;
}

/// What a record needs beside the trace; every option that is missing is named.
void require_training(const ImportCommand& o, const ProfileKind& kind, const exchange::GpuProfile& trace) {
  std::vector<std::string> missing;
  if (o.model.model.empty()) missing.emplace_back("--model");
  if (!o.model.batch) missing.emplace_back("--batch");
  if (o.platform.plan.empty()) missing.emplace_back("--plan");
  if (o.platform.platform.empty()) missing.emplace_back("--platform");
  if (!missing.empty())
    throw BadInput("-o " + o.output, "a measured run is of a training that the trace does not name: give " + joined(missing));
  if (trace.step_seconds.empty()) throw BadInput(o.file, kind.without_steps);
}

/// Of the zoo: a record names its model by it.
std::string model_reference(const std::string& model) {
  if (model.starts_with("zoo:")) return model;
  if (const auto choice = exchange::zoo_choice(model)) return graph::zoo::to_text(*choice);
  throw BadInput("--model " + model, "records name models that Rehearsal builds; write zoo:NAME?key=value&... or hf:FOLDER/config.json");
}

validation::OwnRun run_of(const ImportCommand& o, const exchange::GpuProfile& trace, Terminal& terminal) {
  JobSetup setup(o.model, o.platform);
  for (const auto& warning : setup.warnings()) terminal.warn(warning);
  if (setup.is_own())
    throw Refusal("--framework rehearse: PyTorch did not run by it, and runs of ours are learned from their own traces (run --trace)");
  const auto answered = setup.plan(o.model, o.platform);
  answered.tell(terminal);
  static_cast<void>(setup.predictor().closed(answered.plan));  // refuses what the framework cannot run
  const int ranks = answered.plan.ranks();
  if (trace.ranks.value_or(ranks) != ranks)
    throw BadInput(o.file + ": distributedInfo: world_size",
                   "is " + std::to_string(*trace.ranks) + ", and the plan has " + std::to_string(ranks) + " ranks");
  validation::OwnRun run;
  run.plan = plan::to_text(answered.plan);
  run.model = model_reference(o.model.model);
  run.platform = o.platform.platform;
  run.framework = setup.predictor().framework_for(answered.plan).name;
  run.precision = o.model.dtype;
  run.optimizer = o.model.optimizer;
  run.devices = ranks;
  run.batch = *o.model.batch;
  run.source = "profile " + o.file;
  run.id = run.model + " by " + run.plan + ", batch " + std::to_string(run.batch) + ", " + o.file;
  return run;
}

/// A line more in a file of records; one of the same run is replaced.
void append_record(const std::string& path, const std::string& id, const std::string& line) {
  std::ifstream in(path);
  std::string text, known;
  while (std::getline(in, known))
    if (!known.empty() && Json::parse(known, nullptr, false).value("id", "") != id) text += known + "\n";
  write_file_atomically(path, text + line + "\n");
}

void add_record(const ImportCommand& o, const exchange::GpuProfile& trace, Terminal& terminal, Json& result) {
  auto run = run_of(o, trace, terminal);
  run.measured = step_of(trace, result.at("steps"));
  if (std::ifstream(o.output)) static_cast<void>(validation::read_record_file(o.output));  // refuses what is no file of records
  append_record(o.output, run.id, validation::record_line(run));
  result["record"] = run.id;
  result["output"] = o.output;
}

}  // namespace

int import_profile(const ImportCommand& o, const ProfileKind& kind, Terminal& terminal) {
  std::ifstream in(o.file, std::ios::binary);
  const auto trace = kind.read(in, o.file);
  Json result{{"schema", 1}, {"file", o.file}, {"is", kind.name}};
  if (trace.rank) result["rank"] = *trace.rank;
  if (trace.ranks) result["ranks"] = *trace.ranks;
  result["gpu_events"] = trace.events.size();
  if (!trace.step_seconds.empty()) result["steps"] = json_of_steps(trace.step_seconds);
  add_breakdown(trace, result);
  add_collectives(trace, o.collectives, result);
  if (!o.output.empty()) {
    require_training(o, kind, trace);
    add_record(o, trace, terminal, result);
  }
  terminal.print(result);
  return 0;
}

}  // namespace rehearsal::cli
