#include "exec/kernels/cuda/cuda_kernel.hpp"

namespace rehearsal::exec::cuda {
namespace {

class KernelBodyKernel final : public Kernel {
 public:
  KernelBodyKernel(const KernelRequest& request, reference::Body body, std::int64_t bytes)
      : problem_(request), body_(body), bytes_(bytes) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override { return bytes_; }
  [[nodiscard]] bool is_shareable() const override { return true; }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    body_({problem_, inputs, outputs, context});
  }

 private:
  Problem problem_;
  reference::Body body_;
  std::int64_t bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_with_workspace(const KernelRequest& request, reference::Body body, std::int64_t bytes) {
  return std::make_unique<KernelBodyKernel>(request, body, bytes);
}

}  // namespace rehearsal::exec::cuda
