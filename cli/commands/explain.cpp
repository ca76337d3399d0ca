#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/platform_options.hpp"
#include "plan/describe.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string plan;
  ModelOptions model;
  PlatformOptions platform;
  bool program = false;
};

/// Collectives and messages of one step of a role, with what the closed form says they take.
Json communication_json(const plan::Program& program, const plan::Role& role, const JobSetup& setup) {
  Json list = Json::array();
  const platforms::Fabric fabric(setup.platform());
  const auto rank =
      static_cast<int>(std::find_if(program.role_of.begin(), program.role_of.end(), [&](auto r) { return &program.roles[r] == &role; }) -
                       program.role_of.begin());
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions) {
      if (i.kind != plan::InstructionKind::Collective && i.kind != plan::InstructionKind::Send) continue;
      const auto bytes = plan::message_bytes(role, i, 0);
      const int times = plan::per_micro_batch(body.kind) && i.when == plan::When::Always ? program.micro_batches : 1;
      Json entry{{"tensor", setup.training().graph[i.tensor].name},
                 {"phase", std::string(plan::name(body.kind))},
                 {"bytes", bytes},
                 {"times", times}};
      double seconds = 0;
      if (i.kind == plan::InstructionKind::Collective) {
        const auto& c = role.collectives[static_cast<std::size_t>(i.collective)];
        const auto links = plan::collective_links(program, setup.platform(), fabric, setup.model(), {c.axis, rank});
        seconds =
            plan::collective(c.kind, c.algorithm).closed_form(program.axes[c.axis].size, Bytes(static_cast<double>(bytes)), links).value();
        entry["what"] = std::string(plan::name(c.kind)) + " (" + c.algorithm + ") over " + program.axes[c.axis].name;
      } else {
        const auto path = fabric.path(rank, plan::peer(program, rank, role.messages[static_cast<std::size_t>(i.message)]));
        seconds = (path.latency + Bytes(static_cast<double>(bytes)) / path.bandwidth).value();
        entry["what"] = "send to stage " + std::to_string(role.stage + role.messages[static_cast<std::size_t>(i.message)].stage_offset);
      }
      entry["seconds"] = seconds;
      list.push_back(std::move(entry));
    }
  return list;
}

int explain(const Options& o, Terminal& terminal) {
  auto model = o.model;
  const auto file = plan_argument(o.plan);
  if (model.model.empty()) model.model = file.context.model;
  if (model.model.empty()) throw BadInput("--model", "is needed: a plan in compact text does not name its model");
  if (!model.batch && file.context.batch > 0) model.batch = file.context.batch;
  auto platform = o.platform;
  platform.plan = o.plan;
  const JobSetup setup(model, platform);
  const auto program = plan::lower_for(setup.job(), file.plan);
  if (o.program) {
    for (const auto& role : program.roles) terminal.out() << plan::to_text(program, role, setup.training().graph);
    return 0;
  }
  Json result{{"schema", 1},
              {"model", model.model},
              {"plan", plan::to_text(file.plan)},
              {"ranks", program.ranks},
              {"micro_batches", program.micro_batches},
              {"warnings", program.warnings}};
  auto roles = Json::array();
  for (const auto& role : program.roles) {
    Json entry{{"stage", role.stage}, {"arena_bytes", role.memory.arena_bytes}, {"in_flight", role.memory.in_flight}};
    entry["communication"] = communication_json(program, role, setup);
    roles.push_back(std::move(entry));
  }
  result["roles"] = roles;
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_explain(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("PLAN", o->plan, "compact text or a plan file")->required();
  app.add_option("--model", o->model.model, "the model, when the plan does not name it");
  app.add_option("--batch", o->model.batch);
  o->model.add_training_to(app);
  app.add_option("--platform", o->platform.platform, "a platform file or name")->required();
  app.add_option("--nodes", o->platform.nodes);
  app.add_option("--machine", o->platform.machine);
  app.add_flag("--program", o->program, "every instruction of every role");
  return [o](Terminal& terminal) { return explain(*o, terminal); };
}

}  // namespace rehearsal::cli
