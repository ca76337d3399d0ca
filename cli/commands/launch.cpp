#include <filesystem>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/best_plan.hpp"
#include "cli/command_rows.hpp"
#include "cli/counts.hpp"
#include "cli/help/wrong_words.hpp"
#include "cli/launch/placement.hpp"
#include "cli/launch/supervise.hpp"
#include "cli/launch/volume.hpp"
#include "cli/plan_context.hpp"
#include "cli/run_values.hpp"

namespace rehearsal::cli {
namespace {

constexpr auto* kUsualImage = "rehearsal:" REHEARSAL_VERSION;
constexpr auto* kUsualVolume = "training";

struct LaunchOptions {
  std::string kind, plan, hosts;
  std::optional<std::string> image, volume;
  PlatformOptions platform;
  int restarts = 0;
  std::vector<std::string> rest;
};

/// The options of `run` among the words. Throws BadInput for what run does not know.
RunWords run_words(const std::vector<std::string>& words) {
  RunWords found;
  CLI::App known("", "rehearse run"), wanted;
  const Action owner = add_run(known);  // of what the words are written to
  found.model.add_training_to(wanted);
  found.model.add_sizes_to(wanted);
  wanted.allow_extras();
  as_count(wanted.add_option("--steps", found.steps));
  wanted.add_option("--epochs", found.epochs);
  wanted.add_option("--checkpoint", found.checkpoint);
  wanted.add_option("--resume", found.resume);
  wanted.add_option("--plan", found.plan);
  wanted.add_option("--backend", found.backend);
  wanted.add_flag("--continue", found.goes_on);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  auto with_model = reversed;
  with_model.emplace_back("plan.json");
  try {
    known.parse(with_model);
    wanted.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw Error(ExitStatus::Usage, about_wrong_words(known, error));
  }
  return found;
}

LaunchJob job_of(const LaunchOptions& o) {
  LaunchJob job;
  job.plan_file = o.plan;
  if (!o.plan.ends_with(".json")) throw BadInput(o.plan, "the name of a plan file must end in .json: run takes another one for a model");
  job.plan = plan::read_plan_file(o.plan);
  if (job.plan.context.model.empty()) throw BadInput(o.plan, "names no model; write it with search -o");
  job.options = o.rest;
  job.words = run_words(o.rest);
  take_context(job.words.model, job.plan.context);
  if (!job.words.resume.empty())
    throw BadInput("--resume", "is for launch to say: a job goes on with what --checkpoint DIR holds, however often it is started");
  if (!job.words.plan.empty()) throw BadInput("--plan", "stands in " + o.plan + ", by which the job trains; leave it out");
  if (job.words.goes_on && job.words.checkpoint.empty()) throw BadInput("--continue", "goes on with what --checkpoint DIR holds; give it");
  job.image = o.image.value_or(kUsualImage);
  job.volume = o.volume.value_or(kUsualVolume);
  require_claim_name(job.volume);
  return job;
}

/// That the job will not refuse its options when it starts, hours later.
void require_startable(const LaunchJob& job, const Terminal& terminal) {
  const auto& model = job.words.model;
  if (!is_built(model.model) && !std::filesystem::exists(model.model)) return;  // it lies where the job runs
  std::vector<std::string> of_model, of_plan;
  const auto training = load_training(model, of_model, ModelUse::Train);
  (void)plan_to_train(model, job.plan_file, training, of_plan);
  for (const auto& w : of_plan) terminal.warn(w);
}

/// Where it is started; nothing is known of it without a platform, which only mpirun can do without.
std::optional<PlatformOptions> place_of(const LaunchOptions& o, const LaunchJob& job) {
  auto place = o.platform;
  const bool sized = place.nodes || place.devices;
  if (place.platform.empty() && o.kind != "mpirun")
    throw BadInput("launch " + o.kind,
                   "needs --platform (and --nodes): how many ranks a node has, and how long the job takes, follow from it");
  if (place.platform.empty() && sized)
    throw BadInput(place.nodes ? "--nodes" : "--devices", "needs --platform: it says how many there are of it");
  if (place.platform.empty()) return std::nullopt;
  if (o.restarts > 0 && !sized) place.devices = job.plan.plan.ranks();  // --hosts say where they are
  place.framework = "rehearse";                                         // whatever the plan was searched as: run is what is started
  return place;
}

/// That more was named than the plan takes.
void warn_of_spare_nodes(const LaunchJob& job, const PlatformOptions& o, const Terminal& terminal) {
  const auto nodes = static_cast<std::int64_t>(job.nodes.size());
  const int ranks = job.plan.plan.ranks();
  const auto taken = ": the plan has " + std::to_string(ranks) + " ranks on " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes") +
                     ", and no more are asked for";
  if (o.nodes && *o.nodes > nodes) terminal.warn("--nodes " + std::to_string(*o.nodes) + taken);
  if (o.devices && *o.devices > ranks) terminal.warn("--devices " + std::to_string(*o.devices) + taken);
}

/// The hosts of a job that is started here and now; empty: this machine.
std::vector<Host> hosts_to_start_on(const LaunchOptions& o, const LaunchJob& job) {
  if (o.restarts > 0 && job.words.checkpoint.empty())
    throw BadInput("--restarts", "needs --checkpoint DIR among the options of run: that is what a restart goes on with");
  if (o.hosts.empty()) return {};
  if (o.platform.platform.empty())
    throw BadInput("--hosts", "needs --platform: when one of them is lost, a plan for the others is searched on it");
  auto hosts = hosts_of(o.hosts);
  if (const int slots = slots_of(hosts), ranks = job.plan.plan.ranks(); slots < ranks)
    throw BadInput("--hosts " + o.hosts, "have " + std::to_string(slots) + " of the " + std::to_string(ranks) +
                                             " slots that the plan wants; write how many each has, such as node1:8,node2:8");
  return hosts;
}

/// Everything about it that can be found out before it starts.
LaunchJob checked_job(const LaunchOptions& o, const Terminal& terminal) {
  auto job = job_of(o);
  require_no_order_of_nodes(job.plan.plan);
  job.hosts = hosts_to_start_on(o, job);
  const auto platform = place_of(o, job);
  if (platform) place(job, load_platform(*platform));
  if (platform) warn_of_spare_nodes(job, o.platform, terminal);
  if (o.kind != "mpirun") require_equal_nodes(job, o.kind);
  if (o.kind != "mpirun" && job.words.epochs)
    throw BadInput("--epochs", "the number of steps is not known before the job starts; give --steps, from which the time limit follows");
  require_run_values(job.plan_file, job.options);
  require_startable(job, terminal);
  if (platform) take_times(job, JobSetup(job.words.model, *platform), terminal);
  return job;
}

/// For fewer ranks than the plan wants: searched again, and written beside the checkpoints.
std::string plan_for_fewer(const LaunchJob& job, const LaunchOptions& o, int ranks) {
  constexpr double kBudget = 20;  // seconds
  auto platform = o.platform;
  platform.framework = "rehearse";  // as in place_of()
  platform.nodes.reset();
  platform.devices = ranks;
  const JobSetup setup(job.words.model, platform);
  const auto file = job.words.checkpoint + ".plan-" + std::to_string(ranks) + "-ranks.json";
  Progress silent;
  const auto plan = best_plan(setup, kBudget, {}, silent);
  plan::write_plan_file(file, {plan, setup.context(job.words.model, plan)});
  return file;
}

int restart_when_lost(LaunchJob job, const LaunchOptions& o, const std::string& program, Terminal& terminal) {
  if (terminal.json()) job.options.insert(job.options.end(), {"--format", "json"});  // what is printed is the answer of run
  SupervisionOptions options{o.restarts, [&](int ranks) { return plan_for_fewer(job, o, ranks); }};
  install_termination_handler();
  return supervise(job, program, options, terminal);
}

int launch(const LaunchOptions& o, Terminal& terminal) {
  if (o.restarts < 0) throw BadInput("--restarts " + std::to_string(o.restarts), "must be 0 or more");
  if (o.kind != "mpirun" && (o.restarts > 0 || !o.hosts.empty()))
    throw BadInput(o.restarts > 0 ? "--restarts" : "--hosts", "is for launch mpirun; " + o.kind + " starts jobs again itself");
  for (const auto& [option, value] : {std::pair{"--image", o.image}, {"--volume", o.volume}})
    if (o.kind != "kubernetes" && value) throw BadInput(option, "is for launch kubernetes; leave it out");
  if (o.restarts == 0 && !o.hosts.empty()) throw BadInput("--hosts", "is for --restarts; the script takes mpirun's --hostfile");
  auto job = checked_job(o, terminal);
  if (o.kind == "kubernetes") name_in_volume(job, terminal);
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  if (o.kind == "mpirun" && o.restarts > 0) return restart_when_lost(job, o, program, terminal);
  const auto script = o.kind == "slurm"        ? slurm_script(job, program)
                      : o.kind == "kubernetes" ? kubernetes_manifest(job)
                                               : mpirun_script(job, program);
  if (terminal.json())
    terminal.print({{"schema", 1}, {"kind", o.kind}, {"script", script}});
  else
    terminal.out() << script << std::flush;
  return 0;
}

}  // namespace

Action add_launch(CLI::App& app) {
  auto o = std::make_shared<LaunchOptions>();
  app.add_option("KIND", o->kind, "slurm, mpirun or kubernetes")->required()->check(one_of({"slurm", "mpirun", "kubernetes"}));
  app.add_option("PLAN", o->plan, "a plan file, as search -o writes it; options of run stand behind it")->required();
  app.add_option("--platform", o->platform.platform, std::string(kPlatformHelp) + "; the time limit and ranks per node follow from it");
  app.add_option("--nodes", o->platform.nodes, "how many nodes of it");
  app.add_option("--devices", o->platform.devices, "how many devices of it");
  app.add_option("--restarts", o->restarts,
                 "mpirun: start the job now, and so many times again when a rank is lost, from the last checkpoint");
  app.add_option("--hosts", o->hosts,
                 "mpirun --restarts: names with their slots, as node1:8,node2:8; those that no longer answer are left out");
  app.add_option("--image", o->image, std::string("kubernetes: the container's image (default ") + kUsualImage + ")");
  app.add_option("--volume", o->volume,
                 std::string("kubernetes: the claim of the volume with plan, data and checkpoints, mounted at /training (default ") +
                     kUsualVolume + ")");
  app.allow_extras();
  return [o, &app](Terminal& terminal) {
    o->rest = app.remaining();
    return launch(*o, terminal);
  };
}

}  // namespace rehearsal::cli
