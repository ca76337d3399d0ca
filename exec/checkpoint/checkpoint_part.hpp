#pragma once
// What one rank puts into a checkpoint.

#include <string>

#include "exec/play/executor.hpp"

namespace rehearsal::exec {

/// Roles of tensors in a checkpoint.
inline constexpr const char *kSlot = "slot", *kOlder = "older", *kKept = "kept";

/// Weights as they were so many updates ago, which asynchronous schedules go on with: their name in a checkpoint.
[[nodiscard]] inline std::string aged(const std::string& tensor, int age) { return age == 0 ? tensor : tensor + "@" + std::to_string(age); }
/// Its name where replicas train by themselves: each has its own optimizer's state. Empty: it is common to all.
[[nodiscard]] std::string own_name(const plan::Program&, int rank, const graph::Tensor&);
/// Parameters, slots and states are saved, but for what is only measured.
[[nodiscard]] bool is_saved(const graph::Tensor&);

/// The tensors that this rank saves, and where in its part: the same in every step. Of the ranks that hold the same block the first one
/// saves it; what ranks keep beside tensors (exec/play/kept_vectors.hpp) is each one's own, and so is the optimizer's state of a replica
/// that trains by itself.
class PartPlan {
 public:
  PartPlan(Executor&, const Training&);
  /// A name for its file; of a rank that saves nothing, too.
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// "tensors" of the manifest's entry, as JSON.
  [[nodiscard]] const std::string& tensors() const { return tensors_; }
  /// What the tensors are now.
  [[nodiscard]] std::string copy(Executor&) const;

 private:
  struct Block {
    graph::TensorId tensor;
    int age = 0;
  };
  std::vector<Block> blocks_;
  std::string file_, tensors_;
  std::size_t bytes_ = 0;
};

}  // namespace rehearsal::exec
