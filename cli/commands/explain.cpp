#include "predict/explain.hpp"

#include <iomanip>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/platform_options.hpp"
#include "plan/describe.hpp"
#include "plan/program_json.hpp"
#include "predict/violations.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string plan;
  ModelOptions model;
  PlatformOptions platform;
  bool program = false;
  std::string dot, json;
};

Json tensors_json(const std::vector<predict::TensorPlace>& tensors) {
  Json list = Json::array();
  for (const auto& t : tensors)
    list.push_back({{"name", t.name},
                    {"kind", t.stored ? "parameter" : "result"},
                    {"layout", t.layout},
                    {"shape", t.shape},
                    {"local_shape", t.local},
                    {"bytes", t.bytes}});
  return list;
}

Json messages_json(const std::vector<predict::MessageCost>& messages) {
  Json list = Json::array();
  for (const auto& m : messages)
    list.push_back({{"what", m.what},
                    {"tensor", m.tensor},
                    {"phase", std::string(plan::name(m.body))},
                    {"bytes", m.bytes},
                    {"times", m.times},
                    {"seconds", m.seconds.value()}});
  return list;
}

Json stage_json(const predict::StagePlan& stage) {
  Json layers = Json::array();
  for (const auto& l : stage.layers)
    layers.push_back({{"name", l.name},
                      {"last", l.last},
                      {"alike", l.alike},
                      {"compute_seconds", l.compute.value()},
                      {"recompute_seconds", l.recompute.value()},
                      {"communication_seconds", l.communication().value()},
                      {"tensors", tensors_json(l.tensors)},
                      {"communication", messages_json(l.messages)},
                      {"host_moves", messages_json(l.host_moves)}});
  return {{"stage", stage.stage},
          {"ranks", stage.ranks},
          {"first_rank", stage.first_rank},
          {"memory_bytes", stage.memory_bytes},
          {"host_memory_bytes", stage.host_memory_bytes},
          {"in_flight", stage.in_flight},
          {"message_bytes", stage.message_bytes()},
          {"communication_seconds", stage.communication().value()},
          {"layers", layers}};
}

std::string bytes_text(std::int64_t bytes) { return to_text(Bytes(static_cast<double>(bytes))); }

void print_layer(const predict::LayerPlan& l, std::ostream& out) {
  out << "  " << l.name;
  if (l.alike > 1) out << " ... " << l.last << " (" << l.alike << " alike)";
  out << ": computes " << to_text(l.compute);
  if (l.recompute.value() > 0) out << " (" << to_text(l.recompute) << " of it again)";
  out << ", communicates " << to_text(l.communication()) << (l.alike > 1 ? " each" : "") << "\n";
  std::size_t names = 0, layouts = 0;
  for (const auto& t : l.tensors) names = std::max(names, t.name.size()), layouts = std::max(layouts, t.layout.size());
  out << std::left;
  for (const auto& t : l.tensors)
    out << "    " << (t.stored ? "parameter " : "result    ") << std::setw(static_cast<int>(names)) << t.name << "  "
        << std::setw(static_cast<int>(layouts)) << t.layout << "  " << bytes_text(t.bytes) << "\n";
  for (const auto* list : {&l.messages, &l.host_moves})
    for (const auto& m : *list)
      out << "    " << std::setw(9) << plan::name(m.body) << " " << m.what << " of " << m.tensor << ": "
          << (m.times == 1 ? "" : std::to_string(m.times) + " times ") << bytes_text(m.bytes) << ", " << to_text(m.seconds)
          << (m.times == 1 ? "" : " each") << "\n";
}

void print_stages(const std::vector<predict::StagePlan>& stages, std::ostream& out) {
  for (const auto& stage : stages) {
    out << "stage " << stage.stage << ": " << stage.ranks << (stage.ranks == 1 ? " rank" : " ranks") << ", shown for rank "
        << stage.first_rank << "; " << bytes_text(stage.memory_bytes) << " of memory, "
        << (stage.host_memory_bytes > 0 ? bytes_text(stage.host_memory_bytes) + " of the host's, " : "") << stage.in_flight
        << (stage.in_flight == 1 ? " micro-batch" : " micro-batches") << " in flight; " << bytes_text(stage.message_bytes())
        << " in messages a step, " << to_text(stage.communication()) << " one after the other\n";
    for (const auto& layer : stage.layers) print_layer(layer, out);
  }
}

void print_explanation(const Options& o, const JobSetup& setup, const predict::PlayableStep& step, Terminal& terminal) {
  const auto stages = predict::explain(setup.predictor(), step);
  const auto& program = step.program;
  Json result{{"schema", 2},
              {"model", o.model.model},
              {"plan", plan::to_text(program.plan)},
              {"platform", setup.platform().name},
              {"framework", setup.predictor().framework().name},
              {"ranks", program.ranks},
              {"micro_batches", program.micro_batches},
              {"warnings", program.warnings}};
  if (terminal.json()) {
    auto list = Json::array();
    for (const auto& stage : stages) list.push_back(stage_json(stage));
    result["stages"] = list;
    return terminal.print(result);
  }
  for (const auto& w : program.warnings) terminal.warn(w);
  terminal.out() << plan::to_text(program.plan) << " on " << setup.platform().name << ": " << program.ranks << " ranks, "
                 << program.micro_batches << " micro-batches a step\n";
  print_stages(stages, terminal.out());
}

constexpr const char* kUsualPlatform = "dgx-a100";

/// Layouts and bytes need no machine, seconds do: of one that many know.
void take_usual_platform(PlatformOptions& platform, const plan::Plan& plan, Terminal& terminal) {
  if (!platform.nodes && !platform.devices) platform.devices = plan.ranks();
  platform.platform = kUsualPlatform;
  terminal.warn("no --platform: seconds, and what depends on them, are of " + platform.platform);
}

int explain(const Options& given, Terminal& terminal) {
  auto o = given;
  const auto file = plan_argument(o.plan);
  if (const auto& context = file.context; !context.model.empty()) take_context(o.model, context);
  if (o.model.model.empty()) throw BadInput("--model", "is needed: a plan in compact text does not name its model");
  o.platform.plan = o.plan;
  if (o.platform.platform.empty()) take_usual_platform(o.platform, file.plan, terminal);
  const JobSetup setup(o.model, o.platform);
  std::string sentence;
  const auto plan = setup.plan(o.platform, sentence);
  if (!sentence.empty() && !terminal.json()) terminal.warn(sentence);
  const auto step = setup.predictor().playable(plan);
  const auto& program = step.program;
  if (!o.json.empty() && setup.own_job() == nullptr)
    throw Refusal("--json: a stored Program is our own execution, not one of " + setup.predictor().framework().name +
                  "; use --framework rehearse");
  if (!o.json.empty()) plan::write_program_file(o.json, program, setup.predictor().graph(), setup.context(o.model));
  if (!o.dot.empty()) write_file_atomically(o.dot, plan::to_dot(program, setup.predictor().graph()));
  if (!o.program) {
    print_explanation(o, setup, step, terminal);
    return 0;
  }
  for (const auto& role : program.roles) terminal.out() << plan::to_text(program, role, setup.predictor().graph());
  return 0;
}

}  // namespace

Action add_explain(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("PLAN", o->plan, "compact text or a plan file")->required();
  app.add_option("--model", o->model.model, "the model, when the plan does not name it");
  o->model.add_sizes_to(app);
  o->model.add_training_to(app);
  app.add_option("--platform", o->platform.platform, "a platform file or name; without it seconds are of a dgx-a100");
  app.add_option("--nodes", o->platform.nodes);
  app.add_option("--devices", o->platform.devices);
  app.add_option("--machine", o->platform.machine);
  app.add_option("--framework", o->platform.framework, "as in estimate");
  app.add_flag("--program", o->program, "every instruction of every role");
  app.add_option("--json", o->json, "where to write the Program, for `rehearse simulate` or other tools");
  app.add_option("--dot", o->dot, "where to write the Program as a graph for Graphviz");
  return [o](Terminal& terminal) { return explain(*o, terminal); };
}

}  // namespace rehearsal::cli
