#pragma once
// What a training gets done on a platform whose devices fail: when it is finished, how much of the time it trains, what it costs then.

#include <cstdint>
#include <optional>
#include <string>

#include "costmodel/money.hpp"
#include "predict/finish.hpp"

namespace rehearsal::predict {

struct Assessment;

/// What a checkpoint holds, each element once: parameters, running statistics and the optimizer's state.
struct CheckpointSize {
  Bytes all;
  Bytes of_rank, of_node;  ///< of the rank and the node that write most
};

struct Goodput {
  WholeRun run;
  Disturbances disturbances;
  Seconds finished;  ///< expected
  double failures = 0;
  int spares = 0;           ///< devices that wait for others to fail
  costmodel::JobCost cost;  ///< of the whole, spares included
  Bytes checkpoint;
  Seconds writing;       ///< a checkpoint, the training waits or not
  std::string rests_on;  ///< in sentences
  [[nodiscard]] double effective() const { return run.undisturbed() / finished; }
  /// Expected finish over the time without failures and checkpoints.
  [[nodiscard]] double stretch() const { return finished / run.undisturbed(); }
};

/// How often checkpoints are asked for.
struct CheckpointEvery {
  std::optional<std::int64_t> steps;
  std::optional<Seconds> time;
};

/// A training, and figures that stand over those of its platform.
struct GoodputQuestion {
  double steps = 1;
  std::optional<CheckpointEvery> every;  ///< nothing: as often as lets it end first
  std::optional<double> failures_per_device_day;
  std::optional<Seconds> wait;  ///< of training for one checkpoint; nothing: until its state is copied
  std::optional<Seconds> restart, replacement;
  std::optional<BytesPerSecond> storage;  ///< that a node writes
  std::int64_t spares = 0;                ///< devices of the platform that the plan leaves free
};

/// Nothing where the platform does not say how often its devices fail, or how quick storage is, and the question neither: then nobody
/// asked. Throws BadInput naming the option that is wrong or missing, Refusal when the training would not end within a hundred times its
/// length.
[[nodiscard]] std::optional<Goodput> goodput_of(const Assessment&, const platforms::Platform&, const GoodputQuestion&);
/// When it is finished: by chance, and because a step may take more or less than predicted.
[[nodiscard]] costmodel::Interval finished_seconds(const Assessment&, const Goodput&);

}  // namespace rehearsal::predict
