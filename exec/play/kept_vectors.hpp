#pragma once
// What compressors of gradients have not sent yet (plan/compressors.hpp), of one rank: it goes with a training from checkpoint to
// checkpoint.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "exec/play/local_memory.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

/// One vector that a rank keeps.
struct UnsentVector {
  plan::BufferIndex buffer = plan::kNoBuffer;
  std::string name;  ///< of a gradient, a replica and how many there are: other plans of as many replicas have the same
};
/// "@1/4": of the second of four replicas.
[[nodiscard]] std::string of_replica(const plan::Program&, int rank);
[[nodiscard]] std::vector<UnsentVector> unsent_vectors(const plan::Program&, int rank);

/// All that it refers to must outlive it.
class UnsentGradients {
 public:
  UnsentGradients(const plan::Program& program, int rank, const LocalMemory& memory, Device& device)
      : role_(program.role(rank)), memory_(memory), device_(device), all_(unsent_vectors(program, rank)) {}
  [[nodiscard]] const std::vector<UnsentVector>& all() const { return all_; }
  [[nodiscard]] const plan::Buffer& buffer(const UnsentVector& v) const { return role_.buffers[v.buffer]; }
  void read(const UnsentVector&, std::byte* to) const;
  void write(const UnsentVector&, std::span<const std::byte>) const;

 private:
  const plan::Role& role_;
  const LocalMemory& memory_;
  Device& device_;
  std::vector<UnsentVector> all_;
};

}  // namespace rehearsal::exec
