#include "tests/exec/gpu/double/watched_gpu.hpp"

#include "base/error.hpp"
#include "exec/kernels/cuda/libraries.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::exec::gpu_double {
namespace {

using Scope = Machine::Scope;

std::size_t bytes_of(const graph::TensorType& type) { return static_cast<std::size_t>(graph::size_of(type).value()); }

/// What a copy of a block reads and writes, run by run.
struct ElementBytes {
  std::int64_t read, written;
};
std::vector<Touch> touches_of(const plan::BlockCopy& block, ElementBytes bytes, const void* from, void* to) {
  std::vector<Touch> touches;
  block.for_each_run([&](std::int64_t at_from, std::int64_t at_to, std::int64_t count) {
    touches.push_back({static_cast<const std::byte*>(from) + at_from * bytes.read, static_cast<std::size_t>(count * bytes.read), false});
    touches.push_back({static_cast<std::byte*>(to) + at_to * bytes.written, static_cast<std::size_t>(count * bytes.written), true});
  });
  return touches;
}

class WatchedKernel final : public Kernel {
 public:
  WatchedKernel(std::shared_ptr<Kernel> kernel, std::string name) : kernel_(std::move(kernel)), name_(std::move(name)) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  [[nodiscard]] std::string engine() const override { return kernel_->engine(); }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    std::vector<Touch> touches;
    for (const auto& view : inputs)
      if (view.data != nullptr) touches.push_back({view.data, bytes_of(*view.type), false});
    for (const auto& view : outputs)
      if (view.data != nullptr) touches.push_back({view.data, bytes_of(*view.type), true});
    touches.push_back({context.workspace, static_cast<std::size_t>(kernel_->workspace_bytes()), true});
    const Scope scope(machine(), name_, std::move(touches));
    kernel_->run(inputs, outputs, context);
  }

 private:
  std::shared_ptr<Kernel> kernel_;
  std::string name_;
};

}  // namespace

void WatchedGpu::upload(void* to, const void* from, std::size_t bytes) {
  gpu_.upload(to, from, bytes);
  if (machine().is_pinned(from)) machine().host_touches({from, bytes, true}, "writes what it had uploaded");
}

void WatchedGpu::download(void* to, const void* from, std::size_t bytes) {
  gpu_.download(to, from, bytes);
  if (machine().is_pinned(to)) machine().host_touches({to, bytes, false}, "reads what it has downloaded");
}

void WatchedGpu::wait() {
  gpu_.wait();
  if (const auto& faults = machine().faults(); !faults.empty()) throw InternalError("on the double of a GPU: " + faults.front());
}

void WatchedGpu::reorder(const ReorderTask& task, const graph::TensorType& type) {
  const Scope scope(machine(), "reorder", {{task.from, bytes_of(type), false}, {task.to, bytes_of(type), true}});
  gpu_.reorder(task, type);
}

void WatchedGpu::copy_block(const plan::BlockCopy& block, std::size_t element_bytes, const void* from, void* to) {
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  const Scope scope(machine(), "copy_block", touches_of(block, {bytes, bytes}, from, to));
  gpu_.copy_block(block, element_bytes, from, to);
}

void WatchedGpu::add_block(const plan::BlockCopy& block, const Addition& addition, const void* from, void* to) {
  const ElementBytes bytes{static_cast<std::int64_t>(size_of(addition.dtype)),
                           static_cast<std::int64_t>(size_of(plan::sum_type(addition.dtype)))};
  const Scope scope(machine(), "add_block", touches_of(block, bytes, from, to));
  gpu_.add_block(block, addition, from, to);
}

bool WatchedGpu::has_non_finite(DType type, const void* data, std::int64_t elements) {
  const Scope scope(machine(), "has_non_finite", {{data, static_cast<std::size_t>(elements) * size_of(type), false}});
  return gpu_.has_non_finite(type, data, elements);
}

std::int64_t WatchedGpu::copy_stash(const StashTypes& types, const void* from, void* to) {
  const Scope scope(machine(), "copy_stash", {{from, bytes_of(types.from), false}, {to, bytes_of(types.to), true}});
  return gpu_.copy_stash(types, from, to);
}

WatchedBackend::WatchedBackend(int rank_on_machine, bool tf32)
    : DeviceBackend(std::make_unique<WatchedGpu>(rank_on_machine), {cuda::product_kernels(tf32), cuda::convolution_kernels(tf32)}) {}

std::shared_ptr<Kernel> WatchedBackend::make(const std::string& implementation, const KernelRequest& request) const {
  return std::make_shared<WatchedKernel>(DeviceBackend::make(implementation, request), implementation);
}

}  // namespace rehearsal::exec::gpu_double
