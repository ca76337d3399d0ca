#pragma once
// Runs a graph node by node with the reference kernels on whole tensors, in this process: the meaning of a graph, without a plan.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/kernels/kernel.hpp"
#include "graph/graph.hpp"

namespace rehearsal::exec {

/// `graph` must outlive it. Stored tensors (parameters, constants, slots, states) start with their contents; inputs must be set.
class Interpreter {
 public:
  /// Throws Refusal naming the node for which there is no reference kernel.
  explicit Interpreter(const graph::Graph& graph, std::uint64_t seed = 0);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Elements in the tensor's type, row-major. Throws BadInput naming the tensor when the size differs.
  void set(graph::TensorId tensor, std::span<const std::byte> elements);
  /// The same from doubles, converted to the tensor's type.
  void set_reals(graph::TensorId tensor, std::span<const double> values);

  /// Integers keep all their digits.
  void set_value(graph::TensorId tensor, const graph::Value& value);

  /// Runs every node once. `step` reaches kernels that draw random numbers. Updated tensors are written over what they update.
  void run(std::int64_t step = 0);
  /// The same for the nodes of one phase.
  void run_phase(graph::Phase phase, std::int64_t step = 0);

  /// Called with every result as soon as it is made, and may change it: to see what rounding leads to.
  using Touch = std::function<void(graph::TensorId, std::span<std::byte>)>;
  void touch_results(Touch touch) { touch_ = std::move(touch); }

  [[nodiscard]] std::span<const std::byte> get(graph::TensorId tensor) const;
  [[nodiscard]] std::vector<double> get_reals(graph::TensorId tensor) const;
  [[nodiscard]] graph::Value get_value(graph::TensorId tensor) const;

 private:
  struct Task;
  template <class Belongs>
  void run_those(std::int64_t step, Belongs belongs);
  const graph::Graph& graph_;
  std::uint64_t seed_;
  Touch touch_;
  std::vector<std::vector<std::byte>> values_;  ///< by tensor
  std::vector<std::unique_ptr<Task>> tasks_;    ///< by node
};

/// The first reference kernel that accepts. Throws Refusal with every reason when none does.
[[nodiscard]] std::unique_ptr<Kernel> make_reference_kernel(const KernelRequest& request);

}  // namespace rehearsal::exec
