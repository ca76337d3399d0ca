#pragma once
// Checkpoints written beside training: a step's end copies the state, a thread of every rank writes its part.

#include <memory>
#include <string>

#include "exec/checkpoint/checkpoint_part.hpp"
#include "exec/checkpoint/folder.hpp"
#include "exec/checkpoint/manifest.hpp"

namespace rehearsal::exec {

/// Of all ranks together; one checkpoint at a time. Parts are written at once, the manifest by rank 0 when all of them are there, then the
/// checkpoint gets its place by a rename: until then the one before stays.
class CheckpointWriter {
 public:
  struct Where {
    std::string folder;
    int keep = 1;              ///< so many of this training stay, at least 1
    std::string goes_on_with;  ///< as CheckpointFolder has it
  };
  /// Collective. Throws as CheckpointFolder does.
  CheckpointWriter(Where, Executor&, const Training&);
  /// Waits for this rank's thread; while an exception is under way it leaves it alone instead, for a rank that is about to end.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Collective: waits for the one before, copies the state, and begins to write. `best`: this one stays until a better one comes.
  void begin(const CheckpointHeader&, bool best);
  /// True when this rank has nothing left to write but, on rank 0, the manifest. Throws EnvironmentFailure when writing failed.
  [[nodiscard]] bool part_is_written();
  /// Collective, for when that holds on all ranks: rank 0's thread completes the checkpoint.
  void complete();
  /// Collective: the checkpoint that was begun is whole afterwards.
  void finish();

 private:
  class Task;
  struct WriteTask;

  std::filesystem::path folder_, home_;
  int keep_;
  Executor& executor_;
  Communicator& world_;
  std::shared_ptr<CheckpointFolder> own_;  ///< on rank 0
  PartPlan plan_;
  std::vector<std::string> plans_;  ///< on rank 0: of all ranks, as WriteTask has them
  std::shared_ptr<WriteTask> job_;  ///< under way
  std::unique_ptr<Task> part_, completion_;
  bool incomplete_ = false;  ///< complete() is due
};

}  // namespace rehearsal::exec
