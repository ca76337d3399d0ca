#include "validation/own_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text_lines.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/plan.hpp"
#include "platforms/catalog.hpp"
#include "validation/record_job.hpp"

namespace rehearsal::validation {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct MeasuredKey {
  const char* key;
  double StepSeconds::*seconds;
};
constexpr std::array<MeasuredKey, 7> kMeasured{{{"iteration_time_s", &StepSeconds::step},
                                                {"iteration_time_deviation_s", &StepSeconds::deviation},
                                                {"compute_time_s", &StepSeconds::compute},
                                                {"communication_time_s", &StepSeconds::communication},
                                                {"exposed_communication_time_s", &StepSeconds::exposed},
                                                {"copy_time_s", &StepSeconds::copies},
                                                {"idle_time_s", &StepSeconds::idle}}};

struct TextKey {
  const char *section, *key;
  Fields Record::*fields;
  std::string OwnRun::*text;
};
constexpr std::array<TextKey, 6> kTexts{{{"model", "zoo", &Record::model, &OwnRun::model},
                                         {"hardware", "platform", &Record::hardware, &OwnRun::platform},
                                         {"plan", "text", &Record::plan, &OwnRun::plan},
                                         {"plan", "framework", &Record::plan, &OwnRun::framework},
                                         {"plan", "precision", &Record::plan, &OwnRun::precision},
                                         {"plan", "optimizer", &Record::plan, &OwnRun::optimizer}}};

double required(const Record& r, const char* section, const char* key) {
  const auto& fields = std::string_view(section) == "measured" ? r.measured : std::string_view(section) == "plan" ? r.plan : r.hardware;
  if (const auto value = fields.number(key)) return *value;
  throw Refusal("record '" + r.id + "': " + section + "." + key + " is missing; `rehearse import TRACE -o FILE` writes it");
}

/// A member of an object, of the kind that `kind` names.
const OrderedJson& member(const OrderedJson& object, const char* key, const std::string& where, bool (OrderedJson::*is)() const noexcept) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !((*found).*is)())
    throw BadInput(where + ": " + key, "is missing; `rehearse estimate ... --format json` writes it");
  return *found;
}

OrderedJson read_result(const std::string& path) {
  auto in = open_text(path);
  auto result = OrderedJson::parse(in, nullptr, false);
  if (!result.is_object()) throw BadInput(path, "is no result of `rehearse estimate --format json`");
  return result;
}

/// A model with all its values, whether a preset or a row names it. Its own batch stands for nothing.
std::string whole_model(const std::string& model) {
  if (!model.starts_with("zoo:")) return model;
  auto choice = graph::zoo::parse(model);
  choice.values["batch"] = 1;
  return graph::zoo::to_text(choice);
}

}  // namespace

std::string record_line(const OwnRun& run) {
  OrderedJson line{{"id", run.id}, {"family", "own run"}, {"source", run.source}};
  line["model"] = OrderedJson::object();
  line["hardware"] = {{"platform", run.platform}, {"count", run.devices}};
  line["plan"] = {{"text", run.plan}, {"global_batch", run.batch}};
  for (const auto& row : kTexts) line[row.section][row.key] = run.*row.text;
  for (const auto& row : kMeasured) line["measured"][row.key] = run.measured.*row.seconds;
  line["complete"] = "full";
  const auto text = line.dump();
  std::istringstream in(text);
  const auto file = read_records(in, run.source);
  static_cast<void>(job_of(file.records.front()));
  return text;
}

OwnRun own_run(const Record& r) {
  OwnRun run;
  run.id = r.id;
  run.source = r.source;
  for (const auto& row : kTexts) {
    run.*row.text = (r.*row.fields).written(row.key);
    if ((run.*row.text).empty())
      throw Refusal("record '" + r.id + "': " + row.section + "." + row.key + " is missing; `rehearse import TRACE -o FILE` writes it");
  }
  run.devices = static_cast<int>(std::clamp(required(r, "hardware", "count"), 1.0, 1e7));
  run.batch = static_cast<std::int64_t>(std::clamp(required(r, "plan", "global_batch"), 1.0, 1e15));
  for (const auto& row : kMeasured) run.measured.*row.seconds = required(r, "measured", row.key);
  return run;
}

PredictedRun read_prediction(const std::string& path) {
  const auto result = read_result(path);
  const auto text = [&](const char* key) { return member(result, key, path, &OrderedJson::is_string).get<std::string>(); };
  PredictedRun p;
  p.asked.model = text("model");
  p.asked.platform = text("platform");
  p.asked.plan = text("plan");
  p.asked.framework = text("framework");
  p.asked.precision = text("dtype");
  p.asked.devices = member(result, "ranks", path, &OrderedJson::is_number_integer).get<int>();
  p.asked.batch = member(result, "batch", path, &OrderedJson::is_number_integer).get<std::int64_t>();
  p.predicted.step =
      member(member(result, "step_seconds", path, &OrderedJson::is_object), "value", path + ": step_seconds", &OrderedJson::is_number)
          .get<double>();
  const auto& parts = member(result, "breakdown", path, &OrderedJson::is_object);
  const auto part = [&](const char* key) { return member(parts, key, path + ": breakdown", &OrderedJson::is_number).get<double>(); };
  p.predicted.compute = part("compute") + part("recompute") + part("optimizer");
  p.predicted.exposed = part("exposed_communication");
  p.predicted.idle = part("bubble") + part("io");
  return p;
}

std::vector<std::string> differences(const PredictedRun& p, const OwnRun& run) {
  std::vector<std::string> found;
  const auto differ = [&](const std::string& key, const std::string& predicted, const std::string& measured) {
    if (predicted != measured) found.push_back(key + " is " + predicted + " of the prediction and " + measured + " of the run");
  };
  const auto& asked = p.asked;
  differ("model", whole_model(asked.model), whole_model(run.model));
  differ("platform", asked.platform, platforms::load(run.platform).name);
  differ("plan", plan::to_text(plan::parse_plan(asked.plan)), plan::to_text(plan::parse_plan(run.plan)));
  differ("framework", asked.framework, run.framework);
  differ("dtype", asked.precision, run.precision);
  differ("batch", std::to_string(asked.batch), std::to_string(run.batch));
  return found;
}

traces::Comparison comparison(const PredictedRun& p, const OwnRun& run) {
  traces::Comparison result;
  result.predicted_step = result.predicted_rows = p.predicted.step;
  result.measured_step = result.measured_rows = run.measured.step;
  const auto row = [&](const char* op, double StepSeconds::*seconds) {
    result.rows.push_back({"step", op, p.predicted.*seconds, run.measured.*seconds, 0});
  };
  row("compute", &StepSeconds::compute);
  row("exposed communication", &StepSeconds::exposed);
  row("copies", &StepSeconds::copies);
  row("idle", &StepSeconds::idle);
  std::ranges::stable_sort(result.rows, std::greater<>(), [](const traces::ComparedRow& r) { return std::abs(r.error()); });
  return result;
}

}  // namespace rehearsal::validation
