#include "exec/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/error.hpp"
#include "exec/checkpoint.hpp"
#include "exec/resident.hpp"
#include "traces/build.hpp"

namespace rehearsal::exec {
namespace {

static_assert(std::is_trivially_copyable_v<predict::TimedInstruction>);

std::string bytes_of(const std::vector<predict::TimedInstruction>& played) {
  return {reinterpret_cast<const char*>(played.data()), played.size() * sizeof(predict::TimedInstruction)};
}

std::vector<predict::TimedInstruction> played_of(const std::string& bytes) {
  std::vector<predict::TimedInstruction> played(bytes.size() / sizeof(predict::TimedInstruction));
  std::memcpy(played.data(), bytes.data(), bytes.size());
  return played;
}

/// The stage that owns the loss has it; everyone learns it.
double shared_loss(Communicator& world, double own) { return world.size() == 1 ? own : world.max(std::isnan(own) ? -HUGE_VAL : own); }

std::vector<RankMemory> gather_memory(Communicator& world, const plan::Program& program, const Executor& executor) {
  const auto& planned = program.role(world.rank()).memory;
  const RankMemory own{planned.arena_bytes + planned.host_bytes, executor.arena_bytes(), resident_bytes()};
  std::vector<RankMemory> all;
  for (const auto& bytes : world.gather({reinterpret_cast<const char*>(&own), sizeof own})) {
    RankMemory m;
    std::memcpy(&m, bytes.data(), sizeof m);
    all.push_back(m);
  }
  return all;
}

/// Collects every rank's instructions on rank 0, on rank 0's clock from the beginning of the first recorded step.
class Recorder {
 public:
  Recorder(const plan::Program& program, const graph::TrainingGraph& training, Communicator& world, int threads)
      : builder_(program, training.graph, "measured", threads), world_(world), shift_(world.clock_offset().offset_seconds) {}

  void add(std::int64_t step, const StepResult& result, const StepReport& report, bool warm_up) {
    if (step == first_) zero_ = world_.min(result.begin + shift_);
    const auto shift = shift_ - zero_;
    const double begin = world_.min(result.begin + shift), end = world_.max(result.end + shift);
    auto shifted = result.played;
    for (auto& p : shifted) p.begin += shift, p.end += shift;
    const auto all = world_.gather(bytes_of(shifted));
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      builder_.add(static_cast<int>(rank), static_cast<int>(step - first_), played_of(all[rank]), 0.0);
    builder_.add_step({static_cast<std::int32_t>(step - first_), begin, end, report.loss, warm_up});
  }
  void set_first(std::int64_t step) { first_ = step; }
  [[nodiscard]] traces::Trace finish() && { return std::move(builder_).finish(); }

 private:
  traces::TraceBuilder builder_;
  Communicator& world_;
  double shift_ = 0, zero_ = 0;
  std::int64_t first_ = 1;
};

/// Plays rows of steps, and hands them out one by one. A row is one step; more where steps follow each other without a flush: ranks meet
/// behind it alone, to share out losses and write checkpoints. What its last step leaves out, the next row begins with.
class Rows {
 public:
  struct Played {
    StepResult result;
    double rate = 1;
  };
  Rows(Executor& executor, const plan::Program& program, DataSource& data, const TrainerOptions& options)
      : executor_(executor), program_(program), data_(data), options_(options) {}

  /// `step`, counted from 0, of a run that ends before `end`.
  Played next(std::int64_t step, std::int64_t end) {
    if (played_.empty()) {
      const StepRow row{step, step + steps_in_row(step, end - step)};
      for (auto s = row.first; s < row.end; ++s) {
        const double rate = options_.rate.factor(s + 1, end);
        executor_.set_rate(rate);
        played_.push_back({executor_.step_in_row(row, s, data_, options_.record), rate});
        for (const auto& [began, message] : played_.back().result.late)
          played_[static_cast<std::size_t>(began - row.first)].result.played.push_back(message);
      }
    }
    auto first = std::move(played_.front());
    played_.pop_front();
    return first;
  }
  [[nodiscard]] bool between_rows() const { return played_.empty(); }

 private:
  [[nodiscard]] std::int64_t steps_in_row(std::int64_t done, std::int64_t left) const {
    constexpr std::int64_t kLongestRow = 50;
    if (!plan::crosses_steps(program_)) return 1;
    const auto every = options_.checkpoint.empty() ? 0 : options_.checkpoint_every;
    const auto row = std::min(left, kLongestRow);
    return every > 0 ? std::min(row, every - done % every) : row;
  }

  Executor& executor_;
  const plan::Program& program_;
  DataSource& data_;
  const TrainerOptions& options_;
  std::deque<Played> played_;
};

/// What the checkpoint that a run goes on with says, or how a run begins.
CheckpointHeader header_of(Executor& executor, const Training& training, const TrainerOptions& options) {
  const auto& program = training.program;
  CheckpointHeader header{program.model_hash, 0, options.seed, program.batch, std::string(name(program.dtype))};
  if (options.resume.empty()) return header;
  const auto stored = load_checkpoint(options.resume, executor, training);
  if (stored.seed != options.seed)
    throw BadInput("--seed " + std::to_string(options.seed), "checkpoint " + options.resume + " was made with --seed " +
                                                                 std::to_string(stored.seed) + "; give the same to continue it");
  header.step = stored.step;
  return header;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

TrainingOutcome train(Executor& executor, const Training& training, DataSource& data, const TrainerOptions& options, Progress& progress) {
  const auto& program = training.program;
  auto& world = training.world;
  if (world.size() != program.ranks)
    throw BadInput("plan " + plan::to_text(program.plan), "is for " + std::to_string(program.ranks) + " ranks, but " +
                                                              std::to_string(world.size()) + " were started; use mpirun -n " +
                                                              std::to_string(program.ranks));
  constexpr std::int64_t kWarmUp = 2;
  TrainingOutcome outcome;
  auto header = header_of(executor, training, options);
  outcome.first_step = header.step + 1;
  std::optional<Recorder> recorder;
  if (options.record) recorder.emplace(program, training.graph, world, options.threads);
  if (recorder) recorder->set_first(outcome.first_step);
  std::vector<double> seconds;
  Rows rows(executor, program, data, options);
  give_back_idle_memory();
  for (std::int64_t n = 0; n < options.steps; ++n) {
    const auto step = header.step + 1;
    const auto [result, rate] = rows.next(step - 1, outcome.first_step - 1 + options.steps);
    if (n == 0) give_back_idle_memory();  // the first step compiles machine code
    StepReport report{step, shared_loss(world, result.loss),
                      world.size() == 1 ? result.end - result.begin : world.max(result.end - result.begin), rate};
    outcome.losses.push_back(report.loss);
    seconds.push_back(report.seconds);
    const bool warm_up = n < kWarmUp && options.steps > kWarmUp;
    if (recorder) recorder->add(step, result, report, warm_up);
    if (world.rank() == 0 && options.on_step) options.on_step(report);
    header.step = step;
    progress.advance("steps", static_cast<double>(n + 1), static_cast<double>(options.steps));
    const bool stop = rows.between_rows() && world.max(progress.stop_requested() ? 1 : 0) > 0;
    const bool last = stop || n + 1 == options.steps;
    const bool due = options.checkpoint_every > 0 && step % options.checkpoint_every == 0;
    if (!options.checkpoint.empty() && (last || due)) save_checkpoint(options.checkpoint, header, executor, training);
    if (last) break;
  }
  if (seconds.size() > static_cast<std::size_t>(kWarmUp)) seconds.erase(seconds.begin(), seconds.begin() + kWarmUp);
  outcome.samples_per_second = seconds.empty() ? 0 : static_cast<double>(program.batch) / median(seconds);
  outcome.memory = gather_memory(world, program, executor);
  if (recorder && world.rank() == 0) outcome.trace = std::move(*recorder).finish();
  return outcome;
}

}  // namespace rehearsal::exec
