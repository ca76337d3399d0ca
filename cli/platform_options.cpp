#include "cli/platform_options.hpp"

#include <filesystem>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/kernels/cpu_backend.hpp"
#include "platforms/catalog.hpp"
#include "search/search.hpp"

namespace rehearsal::cli {
namespace {

std::unique_ptr<plan::Backend> backend_for(const platforms::Device& device) {
  if (device.kind == platforms::DeviceKind::Cpu) return std::make_unique<exec::CpuBackend>("auto");
  return std::make_unique<plan::TableBackend>();
}

}  // namespace

platforms::Platform load_platform(const PlatformOptions& o) {
  auto platform = platforms::load(o.platform);
  if (o.nodes) platform = platforms::with_nodes(platform, *o.nodes);
  if (o.devices) platform = platforms::with_devices(platform, *o.devices);
  return platform;
}

void PlatformOptions::add_to(CLI::App& app) {
  app.add_option("--platform", platform, kPlatformHelp)->required();
  add_without_platform_to(app);
}

void PlatformOptions::add_without_platform_to(CLI::App& app) {
  app.add_option("--nodes", nodes, "how many nodes of it");
  app.add_option("--devices", devices, "how many devices of it");
  app.add_option("--machine", machine, "measurements: machine.json as calibrate and learn write it");
  app.add_option("--framework", framework,
                 "how the job is run: rehearse (our own execution) or a framework such as megatron, pytorch, mlperf");
  app.add_option("--plan", plan, "compact text such as dp=8,pp=2, or a plan file");
}

JobSetup::JobSetup(const ModelOptions& model, const PlatformOptions& o)
    : training_(load_training(model, warnings_, o.framework == "rehearse" ? Purpose::Predict : Purpose::PredictOthers)),
      platform_(load_platform(o)) {
  dims_ = std::make_shared<const graph::LogicalDims>(training_.graph);
  const auto& device = platforms::device_of(platform_, 0);
  backend_ = backend_for(device);
  peak_key_ = peak_key(model);
  if (!device.peak(peak_key_))
    throw BadInput("--dtype " + model.dtype, "device " + device.name + " has no peak for " + peak_key_ + " in platform " + platform_.name);
  auto calibration = o.machine.empty() ? costmodel::Calibration{} : costmodel::read_calibration(o.machine);
  model_ = std::make_unique<costmodel::CostModel>(device, std::move(calibration), costmodel::profile(o.framework), peak_key_);
}

predict::Job JobSetup::job() const { return {training_, dims_, platform_, *backend_, *model_, peak_key_}; }

plan::Plan JobSetup::plan(const PlatformOptions& o, predict::StepEvaluator& evaluator, std::string& sentence) const {
  if (o.plan.empty()) {
    sentence = "no --plan: data parallel over all devices with the largest micro-batch that fits";
    return predict::default_plan(job(), evaluator);
  }
  auto given = plan_for(o.plan, training_);
  if (given.searched.empty()) return given;
  auto best = search::with_best_values(job(), given);
  sentence = "auto: " + plan::to_text(best) + " is the quickest";
  return best;
}

nlohmann::ordered_json JobSetup::heading(const ModelOptions& model) const {
  return {{"schema", 1}, {"model", model.model}, {"platform", platform_.name}, {"batch", training_.batch}};
}

plan::PlanContext JobSetup::context(const ModelOptions& model) const {
  return {model.model, training_.graph.hash(), training_.batch, model.loss.empty() ? "auto" : model.loss, element_type(model)};
}

plan::PlanFile plan_argument(const std::string& text) {
  const bool is_file = text.size() > 5 && text.ends_with(".json");
  if (is_file || (text.find('=') == std::string::npos && std::filesystem::exists(text))) return plan::read_plan_file(text);
  return {plan::parse_plan(text), {}};
}

plan::Plan plan_for(const std::string& text, const graph::TrainingGraph& training) {
  const auto file = plan_argument(text);
  const auto& made_for = file.context;
  if (!made_for.model_hash.empty() && made_for.model_hash != training.graph.hash())
    throw BadInput(text, "was made for another training, of model " + made_for.model + " with batch " + std::to_string(made_for.batch) +
                             ": give the flags of model, loss and optimizer with which it was searched, or search again");
  return file.plan;
}

void take_context(ModelOptions& o, const plan::PlanContext& context) {
  if (o.model.empty()) o.model = context.model;
  if (!o.batch && context.batch > 0) o.batch = context.batch;
  if (o.loss.empty() && context.loss != "auto") o.loss = context.loss;
  if (o.dtype == ModelOptions{}.dtype) o.dtype = std::string(name(context.dtype));
}

}  // namespace rehearsal::cli
