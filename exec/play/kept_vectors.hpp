#pragma once
// What a rank keeps from step to step beside the tensors of the model: what compressors of gradients have not sent yet
// (plan/compressors.hpp), and the momentum of replicas that meet (Plan::outer). It goes with a training from checkpoint to checkpoint.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "exec/play/local_memory.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

struct KeptVector {
  plan::BufferIndex buffer = plan::kNoBuffer;
  std::string name;     ///< in checkpoints: with the ranks of tp and cp that share it out, and with its replica unless all have the same
  bool written = true;  ///< by this rank; false: by another replica
};
inline constexpr const char *kReplica = "@", *kFirstReplica = "@0/";
/// "@1/4": of the second of four replicas.
[[nodiscard]] std::string of_replica(const plan::Program&, int rank);
[[nodiscard]] std::vector<KeptVector> kept_vectors(const plan::Program&, int rank);

/// All that it refers to must outlive it.
class KeptVectors {
 public:
  KeptVectors(const plan::Program& program, int rank, const LocalMemory& memory, ComputeDevice& device)
      : role_(program.role(rank)), memory_(memory), device_(device), all_(kept_vectors(program, rank)) {}
  [[nodiscard]] const std::vector<KeptVector>& all() const { return all_; }
  [[nodiscard]] const plan::Buffer& buffer(const KeptVector& v) const { return role_.buffers[v.buffer]; }
  void read(const KeptVector&, std::byte* to) const;
  void write(const KeptVector&, std::span<const std::byte>) const;

 private:
  const plan::Role& role_;
  const LocalMemory& memory_;
  ComputeDevice& device_;
  std::vector<KeptVector> all_;
};

}  // namespace rehearsal::exec
