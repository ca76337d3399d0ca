#include "cli/run_options.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/chosen_kernels.hpp"
#include "cli/counts.hpp"
#include "cli/goodput_options.hpp"
#include "cli/help/help_page.hpp"
#include "cli/plan_context.hpp"
#include "cli/run_values.hpp"
#include "cli/spelling.hpp"
#include "exec/backends.hpp"
#include "exec/checkpoint/checkpoint.hpp"
#include "exec/data/data.hpp"

namespace rehearsal::cli {
namespace {

void check_course(const RunOptions& o) {
  if (o.steps && o.epochs) throw BadInput("--steps and --epochs", "give one of them");
  if (o.epochs && !(*o.epochs > 0 && std::isfinite(*o.epochs))) throw BadInput("--epochs", "must be a finite number above 0");
  if (o.steps && *o.steps < 1) throw BadInput("--steps " + std::to_string(*o.steps), "must be at least 1");
}

void check_outputs(const RunOptions& o) {
  (void)saving_options(o);
  if (o.go_on && o.checkpoint.empty()) throw BadInput("--continue", "goes on with what --checkpoint DIR holds; give it");
  if (o.go_on && !o.resume.empty()) throw BadInput("--continue and --resume", "give one of them");
  for (const auto& [flag, value] : {std::pair{"--log-every", o.log_every}, {"--eval-every", o.eval_every}, {"--stop-after", o.stop_after}})
    if (value < 0) throw BadInput(flag + (" " + std::to_string(value)), "must be 0 or more");
  if (o.eval_every > 0 && o.eval.empty()) throw BadInput("--eval-every", "needs --eval DATA, what to evaluate on");
  if (std::ranges::find(o.eval, "synthetic") != o.eval.end())
    throw BadInput("--eval synthetic", "is random and has no end, so that neither loss nor accuracy means anything; name files");
  if (o.stop_after > 0 && o.eval_every == 0) throw BadInput("--stop-after", "counts evaluations; give --eval-every N");
}

void check_rate(const RunOptions& o) {
  const exec::LearningRate rate(o.schedule, o.warmup);
  const auto& optimizer = graph::optimizer_row(optimizer_of(o.model).name);
  if (!rate.constant() && !optimizer.follows_rate)
    throw Refusal("optimizer " + std::string(optimizer.name) + ": --lr is where its steps begin, and they follow no " +
                  (exec::LearningRate(o.schedule, 0).constant() ? "--warmup" : "--schedule") + "; leave it out, or take another optimizer");
}

void add_course_to(CLI::App& app, RunOptions& o) {
  const OptionGroup group(app, "How long it is trained");
  as_count(app.add_option("--steps", o.steps, "optimizer steps (default 10)"));
  app.add_option("--epochs", o.epochs, "passes over the data, instead of --steps");
  app.add_option("--schedule", o.schedule,
                 "of the learning rate: constant, step, cosine, polynomial or linear, with parameters as in step:every=30,factor=0.1");
  app.add_option("--warmup", o.warmup, "steps in which the learning rate rises to its value");
  as_name(
      app.add_option("--on-nan", o.on_nan, "what a loss that is not finite does: stop (default), skip (the step is left out) or go (on)"),
      {"stop", "skip", "go"});
}

void add_checkpoints_to(CLI::App& app, RunOptions& o) {
  const OptionGroup group(app, "Checkpoints");
  app.add_option("--checkpoint", o.checkpoint, "folder to save to");
  app.add_option("--checkpoint-every", o.checkpoint_every,
                 "between checkpoints: steps such as 500, or a time such as 10min; 0: only at the end (default)");
  app.add_option("--keep", o.keep, "so many checkpoints stay, the last ones (default 1)");
  app.add_flag("--keep-best", o.keep_best, "and the one with the lowest loss on --eval data");
  app.add_option("--resume", o.resume, "folder of a checkpoint to continue from, with --steps further steps");
  app.add_flag("--continue", o.go_on,
               "go on with what --checkpoint holds, where it holds something; --steps and --epochs are those of the whole training then");
}

void add_watching_to(CLI::App& app, RunOptions& o) {
  const OptionGroup group(app, "Watching it");
  app.add_option("--eval", o.eval, "data as for --data, on which the trained model is evaluated")->take_all()->allow_extra_args(false);
  app.add_option("--eval-every", o.eval_every, "and every so many steps of training");
  app.add_option("--stop-after", o.stop_after, "so many evaluations without a lower loss end the training");
  app.add_option("--metrics", o.metrics,
                 "JSON lines, one a step; a table where the name ends in .csv; TensorBoard's events where it has tfevents");
  app.add_flag("--noise-scale", o.model.noise_scale,
               "measure the gradient noise scale, and from it the critical batch: into --metrics and the result; where each part of the "
               "batch is one sample (micro_batch=1) also the norm of every sample's gradient (of --metrics: in JSON lines alone)");
  app.add_option("--log-every", o.log_every, "steps between lines of progress (default: a line a second at most)");
  app.add_option("--trace", o.trace, "where to write what was measured");
  app.add_option(
      "--machine", o.machine,
      "a calibration of this machine: kernels are chosen by it, and the step is predicted by it, which is kept beside it with what "
      "it took (rehearse history)");
}

}  // namespace

exec::OnNan on_nan_of(const std::string& text) {
  if (text == "stop") return exec::OnNan::Stop;
  if (text == "skip") return exec::OnNan::Skip;
  if (text == "go") return exec::OnNan::Go;
  throw BadInput("--on-nan " + text, "use stop, skip or go");
}

exec::SavingOptions saving_options(const RunOptions& o) {
  exec::SavingOptions options{o.checkpoint, 0, 0, o.keep, o.keep_best, exec::is_checkpoint_of(o.checkpoint, o.resume) ? o.resume : ""};
  if (!o.checkpoint_every.empty()) {
    const auto every = checkpoint_every(o.checkpoint_every);
    options.every = every.steps.value_or(0);
    options.every_seconds = every.time.value_or(Seconds(0)).value();
  }
  if (o.keep < 1) throw BadInput("--keep " + std::to_string(o.keep), "must be at least 1");
  if (o.checkpoint.empty() && (!o.checkpoint_every.empty() || o.keep != 1 || o.keep_best))
    throw BadInput(!o.checkpoint_every.empty() ? "--checkpoint-every" : o.keep_best ? "--keep-best" : "--keep", "needs --checkpoint DIR");
  if (o.keep_best && o.eval_every == 0)
    throw BadInput("--keep-best", "the best is the one with the lowest loss on --eval data; give --eval-every N");
  return options;
}

void RunOptions::add_to(CLI::App& app) {
  model.add_to(app);
  data.add_to(app);
  add_course_to(app, *this);
  add_checkpoints_to(app, *this);
  add_watching_to(app, *this);
  app.add_option(
      "--plan", plan,
      "compact text, a plan file, or auto: the quickest that is found for the ranks started on --machine; default: data parallel "
      "over them");
  app.add_option("--backend", backend, exec::backend_names());
  app.add_flag("--measure-kernels", measure_kernels,
               "before the first step, time the kernels of nodes that several can run, and take the quickest; --machine keeps them");
  app.add_option("--export", trained, "where to write the model with its trained weights");
}

void RunOptions::take_plan() {
  const auto& path = model.model;
  if (plan.empty() && path.ends_with(".json")) {
    const auto context = plan::read_plan_file(path).context;
    if (context.model.empty()) throw BadInput(path, "names no model; write rehearse run MODEL --plan " + path);
    plan = std::exchange(model.model, {});
    take_context(model, context);
  }
  if (element_type(model) == DType::F16 && model.loss_scale.empty()) model.loss_scale = "dynamic";
}

void RunOptions::check_values() const {
  if (model.loss == "none") refuse_forward_pass();  // without the model, which may lie where a job runs
  require_kernels_for(model.dtype);
  check_course(*this);
  check_outputs(*this);
  check_rate(*this);
  if (measure_kernels) require_several_kernels("--measure-kernels", kernels());
  (void)on_nan_of(on_nan);
  (void)data.options(model.seed, 1);
}

std::string RunOptions::kernels() const {
  const auto named = exec::known_backend(backend);
  return std::string(element_type(model) == DType::F64 && named == "auto" ? "reference" : named);
}

void require_run_values(const std::string& plan_file, const std::vector<std::string>& words) {
  RunOptions o;
  CLI::App app;
  o.add_to(app);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 takes them from the back
  reversed.push_back(plan_file);
  app.parse(reversed);
  o.take_plan();
  o.check_values();
  // GPUs are where the job runs; what the host's kernels cannot do is known here.
  if (o.kernels() != "cuda") (void)exec::make_backend({o.kernels(), 0, o.model.dtype == "tf32"});
}

}  // namespace rehearsal::cli
