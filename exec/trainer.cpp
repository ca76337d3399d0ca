#include "exec/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "exec/checkpoint/checkpoint.hpp"
#include "exec/finite_steps.hpp"
#include "exec/play/last_instructions.hpp"
#include "exec/recorder.hpp"
#include "exec/resident.hpp"
#include "exec/step_rows.hpp"
#include "plan/collectives/meetings.hpp"
#include "plan/compressors.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::exec {
namespace {

std::vector<ResidentMemory> gather_memory(Communicator& world, const plan::Program& program, const Executor& executor) {
  const auto& role = program.role(world.rank());
  const ResidentMemory own{role.memory.arena_bytes + role.memory.host_bytes + plan::center_bytes(program, role), executor.arena_bytes(),
                           resident_bytes()};
  std::vector<ResidentMemory> all;
  for (const auto& bytes : world.gather({reinterpret_cast<const char*>(&own), sizeof own})) {
    ResidentMemory m;
    std::memcpy(&m, bytes.data(), sizeof m);
    all.push_back(m);
  }
  return all;
}

/// CheckpointHeader::apart_after of a training that begins under this plan.
std::int64_t apart_after(const plan::Plan& plan) {
  const auto* row = plan::compressor(plan.compression.rule);
  const bool apart = plan.local_steps > 0 || (row != nullptr && row->remembers);
  return apart ? plan.exact_steps : CheckpointHeader::kNeverApart;
}

/// What the checkpoint that a run goes on with says, or how a run begins.
CheckpointHeader header_of(Executor& executor, const Training& training, const TrainerOptions& options) {
  const auto& program = training.program;
  CheckpointHeader header{program.model_hash,
                          0,
                          0,
                          options.seed,
                          program.batch,
                          std::string(name(program.dtype)),
                          {},
                          graph::average_share(training.graph.optimizer),
                          options.as,
                          apart_after(program.plan)};
  if (options.resume.empty()) return header;
  const auto stored = load_checkpoint(options.resume, executor, training, options.hash_as_then, options.as);
  if (stored.seed != options.seed)
    throw BadInput("--seed " + std::to_string(options.seed), "checkpoint " + options.resume + " was made with --seed " +
                                                                 std::to_string(stored.seed) + "; give the same to continue it");
  header.step = stored.step;
  header.samples = stored.samples;
  header.evaluated = stored.evaluated;
  if (stored.is_apart() && header.apart_after != CheckpointHeader::kNeverApart)
    header.apart_after = std::min(header.apart_after, stored.apart_after);
  return header;
}

/// Where the ranks of this node leave what they did last; empty when nobody is to know.
std::string record_of(const TrainerOptions& options, const Communicator& world) {
  if (options.last_instructions.empty() || world.size() == 1) return {};
  return options.last_instructions + (world.nodes() > 1 ? "-node-" + std::to_string(world.node_of(world.rank())) : "") + ".jsonl";
}

/// Steps until they are done, or one of the ranks is told to stop.
class Run {
 public:
  Run(Executor& executor, const Training& training, DataSource& data, const TrainerOptions& options)
      : executor_(executor),
        training_(training),
        world_(training.world),
        options_(options),
        saving_(options.saving, executor, training),
        held_out_(options.held_out, executor, training),
        data_(data),
        header_(header_of(executor, training, options)),
        finite_(executor, training, data, options.on_nan),
        row_options_{
            options.rate,         options.record,        {options.saving.every, options.held_out.every}, options.on_nan == OnNan::Stop,
            finite_.may_update(), options.stop_requested},
        rows_(executor, training, data, row_options_),
        stall_(options.predicted_step),
        energy_(options.energy_counters) {
    world_.adopt(stall_);
    outcome_.first_step = header_.step + 1;
    if (training.graph.noise.whole != graph::TensorId::None) noise_.emplace(parts_of(training.program));
    if (options.record) recorder_.emplace(training, options.threads, outcome_.first_step);
    give_back_idle_memory();
  }

  TrainingOutcome play() && {
    const auto end = header_.step + options_.steps;
    for (outcome_.interrupted = stop_wanted(); header_.step < end && !outcome_.interrupted && !outcome_.gains_no_more;) {
      step(end);
      if (rows_.between_rows()) keep(header_.step == end);
    }
    saving_.finish();
    finish();
    return std::move(outcome_);
  }

 private:
  void step(std::int64_t end) {
    const auto [result, rate] = rows_.next(header_.step, end);
    if (outcome_.losses.empty()) give_back_idle_memory();  // the first step compiles machine code
    ++header_.step;
    header_.samples += training_.program.batch;
    auto report = shared(result, rate, end);
    if (noise_ && result.updated) measure_noise(report);
    outcome_.losses.push_back(report.loss);
    outcome_.skipped += result.updated ? 0 : 1;
    seconds_.push_back(report.seconds);
    stall_.add(report.seconds);
    if (report.energy) outcome_.energy = outcome_.energy.value_or(Joules(0)) + *report.energy;
    world_.adopt(stall_);
    if (seconds_.size() > traces::kWarmUpSteps) waiting_.add(result);
    if (recorder_) recorder_->add(report, result, outcome_.losses.size() <= traces::kWarmUpSteps);
    if (world_.rank() == 0 && options_.on_step) options_.on_step(report);
    if (!std::isfinite(report.loss)) saving_.finish();  // what was saved before stays, whatever follows
    finite_.judge(report, result.updated);
  }

  /// Evaluates and saves what is due behind several steps in a row.
  void keep(bool last) {
    last = last || outcome_.interrupted;
    bool best = false;
    if (last || held_out_.due(header_.step) || saving_.due(header_.step, last, best)) meet();
    if (held_out_.due(header_.step)) {
      world_.note({.doing = Doing::Evaluating, .step = header_.step - 1, .since = now_seconds()});
      best = held_out_.evaluate(header_.step, header_.evaluated);
      outcome_.gains_no_more = !last && held_out_.gains_no_more(header_.evaluated);
      last = last || outcome_.gains_no_more;
    }
    const bool due = saving_.due(header_.step, last, best);
    if (last || due) finite_.require_finite_weights(header_.step);
    if (due) world_.note({.doing = Doing::Saving, .step = header_.step - 1, .since = now_seconds()});
    if (due) saving_.begin(header_, best);
  }

  /// What is evaluated, saved or handed on is what replicas have in common: those that train by themselves meet for it.
  void meet() {
    const auto& plan = training_.program.plan;
    const auto behind = plan::kind_of_step(plan, header_.step - 1);
    const bool has_met = behind.meets && !plan.meets_in_part();
    if (plan.local_steps == 0 || plan.dp == 1 || !behind.later || has_met || outcome_.losses.empty()) return;
    executor_.meet();
  }

  /// One rank of every node reads its counters.
  [[nodiscard]] bool measures_node() const { return world_.local_rank() == 0 && energy_.absence().empty(); }
  [[nodiscard]] bool stop_requested() const { return options_.stop_requested && options_.stop_requested(); }
  [[nodiscard]] bool stop_wanted() { return world_.max(stop_requested() ? 1 : 0) > 0; }

  /// What a rank tells the others of a step.
  enum Field : std::uint8_t {
    kOwnsLoss,
    kLoss,
    kSeconds,
    kStop,
    kWriting,
    kSaveNow,
    kDataBytes,
    kDataWaited,
    kJoules,
    kMeters,
    kStaleness,
    kFields
  };
  std::array<double, kFields> told(const StepResult& result) {
    const auto before = std::exchange(before_, data_.figures());
    return {result.owns_loss ? 1.0 : 0.0,
            result.loss,
            result.end - result.begin,
            stop_requested() ? 1.0 : 0.0,
            saving_.is_writing() ? 1.0 : 0.0,
            saving_.due_by_clock() ? 1.0 : 0.0,
            static_cast<double>(before_.bytes - before.bytes),
            before_.waited - before.waited,
            measures_node() ? energy_.since_last().value() : 0.0,
            measures_node() ? 1.0 : 0.0,
            static_cast<double>(result.staleness)};
  }

  /// What every rank knows of a step behind it. The stage that owns the loss tells it to the others.
  StepReport shared(const StepResult& result, double rate, std::int64_t end) {
    const auto all = world_.exchange(told(result), "the end of the step");
    StepReport report;
    report.step = header_.step, report.loss = result.loss, report.rate = rate;
    bool stop = false, writing = false, save_now = false;
    double joules = 0, meters = 0;
    std::map<int, double> losses;
    for (std::size_t at = all.size(); at >= kFields;) {
      at -= kFields;
      if (all[at + kOwnsLoss] > 0) losses[replica_of_loss(static_cast<int>(at / kFields))] = all[at + kLoss];
      if (training_.program.plan.meets_one_by_one())
        report.staleness = std::max(report.staleness.value_or(0), static_cast<std::int64_t>(all[at + kStaleness]));
      report.seconds = std::max(report.seconds, all[at + kSeconds]);
      report.data.bytes += static_cast<std::int64_t>(all[at + kDataBytes]);
      report.data.waited = std::max(report.data.waited, all[at + kDataWaited]);
      stop = stop || all[at + kStop] > 0;
      writing = writing || all[at + kWriting] > 0;
      save_now = save_now || all[at + kSaveNow] > 0;
      joules += all[at + kJoules];
      meters += all[at + kMeters];
    }
    if (!losses.empty()) report.loss = 0;
    for (const auto& [replica, loss] : losses) report.loss += loss / static_cast<double>(losses.size());
    if (meters == world_.nodes()) report.energy = Joules(joules);
    saving_.agree(writing, save_now);
    outcome_.interrupted = stop && rows_.between_rows() && header_.step < end;
    return report;
  }

  /// Ranks that own a loss own the same one, but where each replica knows its own alone.
  [[nodiscard]] int replica_of_loss(int rank) const {
    const auto& program = training_.program;
    const auto replicas = std::ranges::find(program.axes, "dp", &plan::MeshAxisInfo::name);
    if (!program.plan.meets_one_by_one() || replicas == program.axes.end()) return 0;
    return plan::coordinate(program, rank, static_cast<std::size_t>(replicas - program.axes.begin()));
  }

  /// Of all ranks: stored by those of one stage or of all, alike, and 0 on others.
  std::vector<double> measured(graph::TensorId t) {
    std::vector<double> own(static_cast<std::size_t>(graph::element_count(training_.graph.graph[t].type.shape)));
    if (executor_.stored_bytes(t) > 0) std::memcpy(own.data(), executor_.stored(t).data(), own.size() * sizeof(double));
    const auto all = world_.exchange(own, "what was measured of gradients");
    for (std::size_t i = 0; i < all.size(); ++i) own[i % own.size()] = std::max(own[i % own.size()], all[i]);
    return own;
  }

  void measure_noise(StepReport& report) {
    const auto parts = measured(training_.graph.noise.parts), whole = measured(training_.graph.noise.whole);
    report.noise = noise_->add({std::accumulate(parts.begin(), parts.end(), 0.0), whole[0]});
    if (!noise_->sees_samples()) return;
    const auto first = header_.samples - training_.program.batch;
    for (std::size_t s = 0; s < parts.size(); ++s)  // of the mean loss a sample has its share
      report.sample_norms.push_back(
          {static_cast<double>(parts.size()) * std::sqrt(parts[s]), data_.origin_of(first + static_cast<std::int64_t>(s))});
    noise_->add_norms(report.step, report.sample_norms);
  }

  void finish() {
    if (noise_) outcome_.noise = noise_->result();
    if (seconds_.size() > traces::kWarmUpSteps) seconds_.erase(seconds_.begin(), seconds_.begin() + traces::kWarmUpSteps);
    // Replicas that run ahead of each other take turns in being slow: the mean of steps is their pace, the median is not.
    const double step = training_.program.plan.meets_one_by_one() ? mean_of(seconds_) : median_of(seconds_);
    outcome_.samples_per_second = seconds_.empty() ? 0 : static_cast<double>(training_.program.batch) / step;
    outcome_.evaluated = header_.evaluated;
    outcome_.device = executor_.device();
    outcome_.collectives = executor_.collectives();
    outcome_.stragglers = stragglers(training_.program, waiting_.gather(training_));
    if (!outcome_.energy)
      outcome_.energy_absence = energy_.absence().empty() ? "some of the nodes show no counter of energy" : energy_.absence();
    outcome_.memory = gather_memory(world_, training_.program, executor_);
    if (!recorder_ || world_.rank() != 0) return;
    outcome_.trace = std::move(*recorder_).finish();
    // What is said of the run is what its trace shows: a step ends with its last rank. Ranks that run on have no such end in common.
    if (!seconds_.empty() && !runs_on(training_.program))
      outcome_.samples_per_second = static_cast<double>(training_.program.batch) / traces::median_step_seconds(*outcome_.trace);
    if (!outcome_.device.empty()) outcome_.trace->context.emplace_back(costmodel::kGpuItem, outcome_.device);
  }

  Executor& executor_;
  const Training& training_;
  Communicator& world_;
  const TrainerOptions& options_;
  Saving saving_;
  HeldOut held_out_;
  DataSource& data_;
  DataFigures before_;  ///< up to the last step
  CheckpointHeader header_;
  FiniteSteps finite_;
  RowOptions row_options_;
  StepRows rows_;
  TrainingOutcome outcome_;
  std::vector<double> seconds_;
  StallTime stall_;
  Waiting waiting_;
  EnergyMeter energy_;
  std::optional<Recorder> recorder_;
  std::optional<NoiseScale> noise_;
};

}  // namespace

std::string ranks_that_started(int wanted, int started) {
  return "is for " + std::to_string(wanted) + (wanted == 1 ? " rank, but " : " ranks, but ") + std::to_string(started) +
         (started == 1 ? " was started" : " were started");
}

TrainingOutcome train(Executor& executor, const Training& training, DataSource& data, const TrainerOptions& options) {
  const auto& program = training.program;
  if (training.world.size() != program.ranks)
    throw BadInput("plan " + plan::to_text(program.plan),
                   ranks_that_started(program.ranks, training.world.size()) + "; use mpirun -n " + std::to_string(program.ranks));
  if (options.on_nan == OnNan::Skip && program.plan.meets_one_by_one())
    throw Refusal("--on-nan skip: under plan " + plan::to_text(program.plan) +
                  " no replica knows the others' losses when it updates; use --on-nan stop or go, or staleness=none");
  if (options.on_nan == OnNan::Skip && plan::crosses_steps(program))
    throw Refusal("--on-nan skip: under schedule=" + program.plan.schedule +
                  " a step has begun before the loss of the one before is known, and cannot be left out; use a schedule with a flush");
  training.world.describe_notes_by([&training](int rank, const BoardNote& note) { return described(training, rank, note); });
  try {
    return Run(executor, training, data, options).play();
  } catch (const EnvironmentFailure& failure) {
    const auto record = record_of(options, training.world);
    if (record.empty() || !training.world.first_to_fail() || !write_last_instructions(record, training)) throw;
    throw EnvironmentFailure(std::string(failure.what()) + ". What every rank did last stands in " + record);
  }
}

}  // namespace rehearsal::exec
