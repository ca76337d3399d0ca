#pragma once
// Kernels that a device runs by one launch: the updates of an optimizer, which are many, small, and know nothing of each other.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/kernels/kernel.hpp"
#include "exec/play/operand_views.hpp"

namespace rehearsal::exec {

/// For every instruction of a body the first one behind those that are run together with it and follow it; the next one where none are.
/// `kernel_of` an instruction; nullptr of what is no kernel. Joined are neighbours whose kernels join (Kernel::joins), that always run, of
/// which none but the first waits for another stream, and none touches memory that another writes.
[[nodiscard]] std::vector<std::uint32_t> joined_until(const plan::Role&, const plan::Body&,
                                                      const std::function<const Kernel*(std::uint32_t)>& kernel_of);

/// Operands and results of several instructions at a time.
class JoinedOperands {
 public:
  void clear() { held_.clear(), runs_.clear(); }
  /// What `views` are set to.
  void add(Kernel&, const OperandViews& views);
  /// Until the next call of clear().
  [[nodiscard]] std::span<const KernelRun> runs();

 private:
  struct Held {
    Kernel* kernel;
    std::vector<TensorView> inputs, outputs;
  };
  std::vector<Held> held_;
  std::vector<KernelRun> runs_;
};

}  // namespace rehearsal::exec
