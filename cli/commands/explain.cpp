#include "predict/explain.hpp"

#include <algorithm>
#include <functional>
#include <iomanip>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/input_json.hpp"
#include "cli/pass_answers.hpp"
#include "cli/plan_context.hpp"
#include "cli/platform_options.hpp"
#include "plan/program/describe.hpp"
#include "plan/program/petri_net.hpp"
#include "plan/program/program_json.hpp"
#include "predict/changes.hpp"
#include "predict/frameworks/flow.hpp"
#include "predict/memory_risk.hpp"
#include "predict/plan_summary.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExplainOptions {
  std::string plan;
  ModelOptions model;
  PlatformOptions platform;
  bool program = false, layers = false, passes = false;
  std::string dot, pnml, json, after;
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

constexpr std::size_t kStagesOnAScreen = 8;

void print_stages(const std::vector<predict::StagePlan>& stages, bool layers, std::ostream& out) {
  for (const auto& stage : stages) {
    if (!layers && &stage - stages.data() >= static_cast<std::ptrdiff_t>(kStagesOnAScreen)) {
      out << "... " << stages.size() - kStagesOnAScreen << " more stages\n";
      return;
    }
    out << "stage " << stage.stage << ": " << stage.ranks << (stage.ranks == 1 ? " rank" : " ranks") << ", shown for rank "
        << stage.first_rank << "; ";
    if (stage.memory_bytes > 0)  // of an arena: what a framework needs is known of the rank with most alone
      out << bytes_text(stage.memory_bytes) << " of memory, "
          << (stage.host_memory_bytes > 0 ? bytes_text(stage.host_memory_bytes) + " of the host's, " : "") << stage.in_flight
          << (stage.in_flight == 1 ? " micro-batch" : " micro-batches") << " in flight; ";
    out << bytes_text(stage.message_bytes()) << " in messages a step, " << to_text(stage.communication()) << " one after the other\n";
    if (!layers) continue;
    for (const auto& layer : stage.layers) print_layer(layer, out);
  }
}

Json axes_json(const std::vector<predict::AxisRole>& roles) {
  Json axes = Json::array();
  for (const auto& role : roles)
    axes.push_back({{"axis", role.axis},
                    {"degree", role.degree},
                    {"does", role.does},
                    {"message_bytes", role.bytes},
                    {"communication_seconds", role.communication.value()}});
  return axes;
}

Json changes_json(const std::vector<predict::Change>& changes) {
  Json list = Json::array();
  for (const auto& c : changes) list.push_back({{"change", c.change}, {"step_share_saved", c.quicker}, {"memory_bytes", c.memory_bytes}});
  return list;
}

/// What fits on one screen.
struct OneScreen {
  predict::Assessment assessment;
  std::vector<predict::AxisRole> axes;
  std::vector<predict::Change> helpful;
  std::string schedules, remedy;
};

OneScreen summary_of(predict::Predictor& predictor, const plan::Plan& plan, const std::vector<predict::StagePlan>& stages) {
  const bool has_experts = predict::frameworks::router_of(predictor.graph()) != nullptr;
  OneScreen s{predictor.closed(plan), predict::axis_roles(plan, stages, has_experts), {}, {}, {}};
  s.helpful = predict::helpful_changes(predictor, s.assessment);
  s.schedules = predict::schedule_comparison(predictor, s.assessment);
  s.remedy = remedy_of(predictor, s.assessment);
  return s;
}

/// "compute 80 %, pipeline bubble 12 %": parts that are worth a word, the largest first.
std::string shares_text(std::vector<std::pair<std::string, double>> parts, double whole) {
  std::ranges::stable_sort(parts, std::greater(), &std::pair<std::string, double>::second);
  std::string text;
  for (const auto& [name, part] : parts) {
    if (part < predict::kWorthSaying * whole) continue;
    char share[32];
    std::snprintf(share, sizeof share, " %.*f %%", part < 0.1 * whole ? 1 : 0, 100 * part / whole);
    text += (text.empty() ? "" : ", ") + name + share;
  }
  return text;
}

void print_time(const predict::Assessment& a, std::ostream& out) {
  std::vector<std::pair<std::string, double>> parts;
  for (const auto& part : predict::kBreakdownParts) parts.emplace_back(part.name, (a.breakdown.*part.seconds).value());
  out << "time    " << to_text(a.step) << " a step: " << shares_text(parts, a.step.value()) << " (of rank " << a.limiting_rank
      << ", which the others wait for)\n";
  if (a.imbalance >= a.step * predict::kWorthSaying)
    out << "        rank " << a.limiting_rank << " has " << to_text(a.imbalance)
        << " more to do than the ranks have in the mean: imbalance of " << (a.plan.pp > 1 ? "stages\n" : "ranks\n");
}

void print_memory(const predict::Assessment& a, std::ostream& out) {
  std::vector<std::pair<std::string, double>> parts;
  for (std::size_t c = 0; c < a.memory_by_category.size(); ++c)
    parts.emplace_back(plan::name(static_cast<plan::MemoryCategory>(c)), static_cast<double>(a.memory_by_category[c]));
  out << "memory  " << bytes_text(a.memory_bytes) << " of " << bytes_text(a.memory_capacity) << " on rank " << a.worst_rank << ": "
      << shares_text(parts, static_cast<double>(a.memory_bytes)) << "; runs out with a chance of "
      << predict::chance_text(predict::chance_of_running_out(a)) << "\n";
}

void print_summary(const OneScreen& s, std::ostream& out) {
  for (const auto& role : s.axes) {
    out << std::left << std::setw(8) << role.axis + "=" + std::to_string(role.degree) << role.does;
    if (role.bytes > 0) out << "; " << bytes_text(role.bytes) << " a step and rank, " << to_text(role.communication) << " by themselves";
    out << "\n";
  }
  print_time(s.assessment, out);
  if (s.assessment.input) out << "input   " << sentence_of_input(s.assessment) << "\n";
  print_memory(s.assessment, out);
  if (!s.schedules.empty()) out << "schedule  " << s.schedules << "\n";
  if (!s.remedy.empty() && s.assessment.fits()) out << "safer   " << s.remedy << "\n";
  if (!s.remedy.empty() && !s.assessment.fits()) out << "does not fit: it " << predict::shortage(s.assessment) << "; " << s.remedy << "\n";
  constexpr std::size_t kShown = 3;
  for (std::size_t n = 0; n < std::min(kShown, s.helpful.size()); ++n)
    out << (n == 0 ? "would help  " : "            ") << s.helpful[n].change << ": "
        << shares_text({{"a step takes", s.helpful[n].quicker}}, 1) << " less, " << bytes_text(s.helpful[n].memory_bytes) << " of memory\n";
  if (s.helpful.empty()) out << "would help  no single key of the plan: other values of one at a time save less than 0.1 %\n";
}

/// What `explain` answers about.
struct Explained {
  const AnsweredPlan& answered;
  const predict::PlayableStep& step;
};

void print_explanation(const ExplainOptions& o, const JobSetup& setup, const Explained& explained, Terminal& terminal) {
  const auto& step = explained.step;
  const auto stages = predict::explain(setup.predictor(), step);
  const auto& program = step.program;
  const auto summary = summary_of(setup.changing(program.plan), program.plan, stages);
  if (terminal.json()) {
    auto result = setup.heading(o.model, &summary.assessment);
    result["schema"] = 2;
    explained.answered.tell(result);
    result.update(to_json(summary.assessment, 1));
    result["micro_batches"] = program.micro_batches;
    result["warnings"] = program.warnings;
    result["axes"] = axes_json(summary.axes);
    result["would_help"] = changes_json(summary.helpful);
    if (!summary.schedules.empty()) result["schedule_comparison"] = summary.schedules;
    if (!summary.remedy.empty()) result["remedy"] = summary.remedy;
    auto list = Json::array();
    for (const auto& stage : stages) list.push_back(stage_json(stage));
    result["stages"] = list;
    return terminal.print(result);
  }
  for (const auto& w : program.warnings) terminal.warn(w);
  terminal.out() << plan::to_text(program.plan) << " on " << setup.platform().name << " as "
                 << setup.predictor().framework_for(program.plan).name << " runs it: " << program.ranks
                 << (program.ranks == 1 ? " rank, " : " ranks, ") << program.micro_batches
                 << (program.micro_batches == 1 ? " micro-batch" : " micro-batches") << " a step\n";
  print_summary(summary, terminal.out());
  print_stages(stages, o.layers, terminal.out());
  if (!o.layers) terminal.out() << "--layers shows every layer: how its tensors are split, and what is sent\n";
}

constexpr const char* kUsualPlatform = "dgx-a100";

/// Layouts and bytes need no machine, seconds do: of one that many know.
void take_usual_platform(PlatformOptions& platform, const plan::Plan& plan, Terminal& terminal) {
  if (!platform.nodes && !platform.devices) platform.devices = plan.ranks();
  platform.platform = kUsualPlatform;
  terminal.warn("no --platform: seconds, and what depends on them, are of " + platform.platform);
}

/// One answer is printed. Files of the Program may be written beside it, but not beside --after: they would be of another Program.
void refuse_second_answer(const ExplainOptions& o) {
  const std::pair<const char*, bool> answers[] = {
      {"--layers", o.layers}, {"--program", o.program}, {"--passes", o.passes}, {"--after", !o.after.empty()}};
  const char* first = nullptr;
  for (const auto& [option, asked] : answers) {
    if (!asked) continue;
    if (first != nullptr) throw WrongUsage(std::string(first) + " and " + option, "each is an answer of its own; ask for one at a time");
    first = option;
  }
  if (o.after.empty()) return;
  for (const auto& [option, file] : {std::pair{"--json", &o.json}, {"--dot", &o.dot}, {"--pnml", &o.pnml}})
    if (!file->empty())
      throw WrongUsage(option,
                       "writes the Program behind the last pass, --after shows one that is not yet complete; leave one of them out");
}

/// Programs of other frameworks are not stored, and not made by our passes.
void require_own_execution(const ExplainOptions& o, const JobSetup& setup) {
  if (setup.is_own()) return;
  const auto& framework = setup.predictor().framework().name;
  if (!o.json.empty())
    throw Refusal("--json: a stored Program is our own execution, not one of " + framework + "; use --framework rehearse");
  if (o.passes || !o.after.empty())
    throw Refusal("--passes, --after: they are of our own lowering, and " + framework +
                  "'s Programs are not made by it; use --framework rehearse");
}

void write_files(const ExplainOptions& o, const JobSetup& setup, const plan::Program& program) {
  const auto& graph = setup.predictor().graph();
  if (!o.json.empty()) plan::write_program_file(o.json, program, graph, setup.context(o.model, program.plan));
  if (!o.pnml.empty()) write_file_atomically(o.pnml, plan::to_pnml(plan::petri_net_of(program, graph), plan::to_text(program.plan)));
  if (!o.dot.empty()) write_file_atomically(o.dot, plan::to_dot(program, graph));
}

void print_asked(const ExplainOptions& o, const JobSetup& setup, const Explained& explained, Terminal& terminal) {
  const auto& program = explained.step.program;
  // Passes are of the plan as it was lowered: shares by speed are numbers there.
  if (o.passes) return print_passes(*setup.predictor().workload_for(program.plan), program.plan, terminal);
  if (!o.after.empty()) return print_after(*setup.predictor().workload_for(program.plan), program.plan, o.after, terminal);
  if (!o.program) return print_explanation(o, setup, explained, terminal);
  for (const auto& role : program.roles) terminal.out() << plan::to_text(program, role, setup.predictor().graph());
}

int explain(const ExplainOptions& given, Terminal& terminal) {
  refuse_second_answer(given);
  auto o = given;
  const auto file = plan_argument(o.plan);
  if (const auto& context = file.context; !context.model.empty()) take_context(o.model, context), take_place(o.platform, context);
  if (o.model.model.empty()) throw WrongUsage("--model", "is needed: a plan in compact text does not name its model");
  o.platform.plan = o.plan;
  // Only our own Programs can be stored, and only those are lowered from a graph.
  if ((!o.json.empty() || o.passes || !o.after.empty()) && o.platform.framework.empty()) o.platform.framework = "rehearse";
  if (o.platform.platform.empty()) take_usual_platform(o.platform, file.plan, terminal);
  JobSetup setup(o.model, o.platform);
  for (const auto& w : setup.warnings()) terminal.warn(w);
  const auto answered = setup.plan(o.model, o.platform);
  answered.tell(terminal);
  require_own_execution(o, setup);
  const auto step = setup.predictor().playable(answered.plan);
  write_files(o, setup, step.program);
  print_asked(o, setup, {answered, step}, terminal);
  return 0;
}

}  // namespace

Action add_explain(CLI::App& app) {
  auto o = std::make_shared<ExplainOptions>();
  app.add_option("PLAN", o->plan, "compact text such as dp=8,tp=2, or a plan file")->required();
  app.add_option("--model", o->model.model, "the model, when the plan does not name it");
  o->model.add_sizes_to(app);
  o->model.add_training_to(app);
  app.add_option("--platform", o->platform.platform,
                 "a platform file or name; without it the one of the plan file, else seconds are of a dgx-a100");
  app.add_option("--nodes", o->platform.nodes, "how many nodes of it");
  app.add_option("--devices", o->platform.devices, "how many devices of it");
  app.add_option("--machine", o->platform.machine, "measurements: machine.json as calibrate and learn write it");
  app.add_option("--framework", o->platform.framework,
                 "how the job is run: rehearse (our own execution) or a framework such as megatron-core; left out: as in estimate");
  app.add_option("--recipe", o->platform.recipe,
                 "KEY=VALUE,...: what recipes of a --framework choose besides the plan; keys are listed below");
  app.add_option("--imbalance", o->platform.imbalance,
                 "tokens among experts: balanced (default), zipf:S, or a file with a JSON list of a number for each");
  o->platform.add_costs_to(app);
  o->platform.input.add_to(app);
  app.add_flag("--layers", o->layers, "every layer: how its tensors are split, what is sent, and how long that takes");
  app.add_flag("--program", o->program, "every instruction of every role (ranks that do the same), in place of the screen");
  app.add_flag("--passes", o->passes,
               "the passes that make instructions of the plan, and what each leaves, in place of the screen; of our own execution alone");
  app.add_option("--after", o->after, "PASS, one of --passes: every instruction of every role as this pass leaves them");
  app.add_option("--json", o->json, "where to write the Program, for `rehearse simulate` or other tools; of our own execution alone");
  app.add_option("--pnml", o->pnml, "where to write one replica's step as a Petri net, in the Petri Net Markup Language");
  app.add_option("--dot", o->dot, "where to write the Program as a graph for Graphviz");
  return [o](Terminal& terminal) { return explain(*o, terminal); };
}

}  // namespace rehearsal::cli
