#pragma once
// When a training is saved.

#include <cstdint>
#include <optional>
#include <string>

#include "exec/checkpoint/writer.hpp"

namespace rehearsal::exec {

struct SavingOptions {
  std::string folder;        ///< of checkpoints; empty: nothing is saved
  std::int64_t every = 0;    ///< steps
  double every_seconds = 0;  ///< by the clock of rank 0; both 0: at the end only
  int keep = 1;              ///< so many checkpoints of this training stay: the last ones
  bool keep_best = false;    ///< and the one with the lowest loss on held-out data
  std::string goes_on_with;  ///< a checkpoint of `folder`, or the folder; empty: what is there is another training's, and stays
};

/// Of all ranks together; does nothing without a folder.
class Saving {
 public:
  /// Collective. Takes the folder; throws as CheckpointWriter does.
  Saving(const SavingOptions&, Executor&, const Training&);

  /// What a rank tells the others at the end of a step: that it still writes; that the time has come. Throws when writing failed.
  [[nodiscard]] bool is_writing();
  [[nodiscard]] bool due_by_clock() const;
  /// What any of them said.
  void agree(bool writing, bool due);

  /// Alike on all ranks. `best`: no loss on held-out data was lower.
  [[nodiscard]] bool due(std::int64_t step, bool last, bool best) const;
  /// Collective: copies what is to be saved; the rest happens beside the steps that follow.
  void begin(const CheckpointHeader&, bool best);
  /// Collective: everything is on disk.
  void finish();

 private:
  SavingOptions options_;
  std::optional<CheckpointWriter> writer_;
  bool due_ = false;
  double since_;  ///< the last one began, by now_seconds()
};

}  // namespace rehearsal::exec
