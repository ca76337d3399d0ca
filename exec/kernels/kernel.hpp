#pragma once
// What the executor runs: kernels made once from local types, run many times.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_schema.hpp"
#include "plan/backend.hpp"

namespace rehearsal::exec {

/// One operand or result of a kernel at run time. `data` is nullptr for an absent optional one.
struct TensorView {
  void* data = nullptr;
  const graph::TensorType* type = nullptr;  ///< local type
  plan::Format format = plan::Format::Plain;
  const graph::Shape* origin = nullptr;        ///< first index of this block in the unsplit tensor; nullptr: the tensor is whole
  const graph::Shape* global_shape = nullptr;  ///< of the unsplit tensor; nullptr: as `type`

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
};

class ComputeDevice;

/// The order in which a device does what it is asked for; what is asked returns before it is done. Empty on the host, where it is done.
struct DeviceStream {
  void* handle = nullptr;
};

/// What a kernel on a device cannot throw: an index outside its dimension. In memory that the host sees.
struct Fault {
  std::int64_t index = 0, size = 0;
  std::int32_t raised = 0;
};
/// Throws BadInput naming the index when there is one.
void check_fault(const Fault&);

/// What changes from run to run.
struct RunContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< 0-based
  void* workspace = nullptr;
  DeviceStream stream = {};
  Fault* fault = nullptr;
  std::int64_t first_sample = 0;  ///< of the batch: where those of this rank and micro-batch begin
};

/// What a kernel is made for.
struct KernelRequest {
  const graph::OpSchema& schema;
  const graph::Attributes& attributes;
  std::span<const std::optional<graph::TensorType>> inputs, outputs;  ///< local types
  std::span<const plan::Format> input_formats, output_formats;        ///< one per operand / result
  int threads = 1;
  ComputeDevice* device = nullptr;  ///< that will run it; nullptr: the host

  [[nodiscard]] graph::NodeView view() const { return {inputs, outputs, attributes}; }
};

class Kernel;

/// One run of several that are asked for at once.
struct KernelRun {
  Kernel& kernel;
  std::span<const TensorView> inputs, outputs;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) = 0;
  /// Scratch memory that RunContext::workspace must point to, 64-byte aligned.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const { return 0; }
  /// Which of a library's kernels it is, in the library's own words; empty where it says nothing.
  [[nodiscard]] virtual std::string engine() const { return {}; }
  /// True where run_together() of this kernel takes runs of `other`, and one launch does them all.
  [[nodiscard]] virtual bool joins(const Kernel& other) const {
    static_cast<void>(other);
    return false;
  }
  /// Does what all of them do, in any order, of kernels that this one joins: none touches what another writes, and none has a workspace.
  virtual void run_together(std::span<const KernelRun> runs, const RunContext& context) {
    for (const auto& run : runs) run.kernel.run(run.inputs, run.outputs, context);
  }
  /// True: nothing of a run stays, and nothing but the request made it. One then serves all nodes that ask for the same.
  [[nodiscard]] virtual bool is_shareable() const { return false; }
};

/// One implementation of one operator. Tables are ordered lists of rows; the first that accepts and is preferred wins (kernel_tables.hpp),
/// where no times of the node are known (ComputeBackend::choose()).
struct KernelRow {
  std::string_view op;              ///< name of the operator row
  std::string_view implementation;  ///< printable: "reference:any", "onednn:conv"
  /// Makes the kernel, or returns nullptr and says in `reason` why it refuses; nothing where nobody would have expected it.
  std::unique_ptr<Kernel> (*make)(const KernelRequest& request, std::string& reason);
  /// Formats that this implementation wants and produces, given those in which its operands are now; false: it does not suit this node.
  /// nullptr: everything plain.
  bool (*formats)(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) = nullptr;
  /// Whether it is expected to be quicker than the rows behind it, by a rule; else says in `reason` why not. nullptr: always.
  bool (*preferred)(const plan::LocalNode& node, std::string& reason) = nullptr;
};

/// The portable kernels in f32 and f64 that define the meaning of every operator: the oracle of all others.
[[nodiscard]] std::span<const KernelRow> reference_kernels();

}  // namespace rehearsal::exec
