#pragma once
// A folder with the checkpoints of a training: step-120, step-140, …, each whole, and `best`, a link to one of them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/checkpoint/manifest.hpp"

namespace rehearsal::exec {

/// The checkpoint that `folder` is, or the one in it that was written last. `flag`, such as "--resume", stands in messages.
/// Throws BadInput when there is none.
[[nodiscard]] std::filesystem::path newest_checkpoint(const std::string& folder, const std::string& flag);

/// Names of the checkpoints in it ("step-120"), sorted; none where there is no such folder.
[[nodiscard]] std::vector<std::string> checkpoints_in(const std::string& folder);

/// Is `place` the folder itself, as --resume takes it, or a checkpoint in it? Not where one of the two is empty.
[[nodiscard]] bool is_checkpoint_of(const std::string& folder, const std::string& place);

/// Where the parts of a checkpoint are written before it is whole. `home`: CheckpointFolder::home().
[[nodiscard]] std::filesystem::path unfinished_checkpoint(const std::filesystem::path& home, std::int64_t step);

/// The folder as the one process that writes to it has it: nobody else may meanwhile. A folder that is not there yet appears together with
/// its first checkpoint: until then all is in another one beside it.
class CheckpointFolder {
 public:
  /// Makes the folder, takes it, and removes what a crash left in it. `goes_on_with`: a checkpoint in it, or the folder for the newest one,
  /// whose training this is; empty: a training of its own begins, and what is there stays whatever is written. Throws BadInput when
  /// `folder` is a file or another process writes to it, EnvironmentFailure when it cannot be written to.
  CheckpointFolder(std::string folder, const std::string& goes_on_with);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  /// Where things are: the folder, once it is there.
  [[nodiscard]] const std::filesystem::path& home() const { return home_; }
  /// Of a checkpoint that is written to the folder now.
  [[nodiscard]] PlaceInFolder next_place() const;
  struct Finished {
    std::int64_t step = 0;
    bool best = false;
  };
  /// Gives the unfinished checkpoint of this step its place, then removes all of this training but the `keep` that were written last and
  /// the best one.
  void take(const Finished&, int keep);

 private:
  [[nodiscard]] std::filesystem::path free_place(std::int64_t step) const;
  void link_best(const std::filesystem::path& checkpoint);
  void remove_older(int keep);
  void make_home();
  void lock();
  /// False when another process has it, or it is another file by now.
  [[nodiscard]] bool took_lock();

  std::filesystem::path folder_, home_;
  std::string training_;
  int lock_ = -1;
};

}  // namespace rehearsal::exec
