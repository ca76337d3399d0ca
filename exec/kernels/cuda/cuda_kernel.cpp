#include "exec/kernels/cuda/cuda_kernel.hpp"

namespace rehearsal::exec::cuda {
namespace {

class KernelBodyKernel final : public Kernel {
 public:
  KernelBodyKernel(const KernelRequest& request, reference::KernelBody body, std::int64_t bytes)
      : problem_(request), body_(body), bytes_(bytes) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override { return bytes_; }
  [[nodiscard]] bool is_shareable() const override { return true; }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    body_({problem_, inputs, outputs, context});
  }

 private:
  Problem problem_;
  reference::KernelBody body_;
  std::int64_t bytes_;
};

class JoinableKernel final : public Kernel {
 public:
  JoinableKernel(const KernelRequest& request, reference::KernelBody body, BodyOfSeveral of_several)
      : problem_(request), body_(body), of_several_(of_several) {}
  [[nodiscard]] bool is_shareable() const override { return true; }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    body_({problem_, inputs, outputs, context});
  }
  [[nodiscard]] bool joins(const Kernel& other) const override {
    const auto* same = dynamic_cast<const JoinableKernel*>(&other);
    return same != nullptr && same->of_several_ == of_several_;
  }
  void run_together(std::span<const KernelRun> runs, const RunContext& context) override {
    std::vector<Call> calls;
    for (const auto& run : runs)
      calls.push_back({static_cast<const JoinableKernel&>(run.kernel).problem_, run.inputs, run.outputs, context});
    of_several_(calls);
  }

 private:
  Problem problem_;
  reference::KernelBody body_;
  BodyOfSeveral of_several_;
};

}  // namespace

std::unique_ptr<Kernel> make_joinable(const KernelRequest& request, reference::KernelBody body, BodyOfSeveral of_several, std::string& reason) {
  if (!reference::make_kernel(request, body, reason)) return nullptr;  // operands or results that are not plain
  return std::make_unique<JoinableKernel>(request, body, of_several);
}

std::unique_ptr<Kernel> make_with_workspace(const KernelRequest& request, reference::KernelBody body, std::int64_t bytes) {
  return std::make_unique<KernelBodyKernel>(request, body, bytes);
}

}  // namespace rehearsal::exec::cuda
