#include "tests/exec/gpu/emulated_backend.hpp"

namespace rehearsal::exec {
namespace {

/// The device works while the kernel runs.
class OnDevice final : public Kernel {
 public:
  OnDevice(std::shared_ptr<Kernel> kernel, EmulatedGpu& gpu) : kernel_(std::move(kernel)), gpu_(gpu) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    const EmulatedGpu::Working working(gpu_);
    kernel_->run(inputs, outputs, context);
  }

 private:
  std::shared_ptr<Kernel> kernel_;
  EmulatedGpu& gpu_;
};

/// A kernel of the host, which passes for one of a library.
class StandIn final : public Kernel {
 public:
  explicit StandIn(std::shared_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    kernel_->run(inputs, outputs, context);
  }

 private:
  std::shared_ptr<Kernel> kernel_;
};

const CpuBackend& host() {
  static const CpuBackend kHost("auto");
  return kHost;
}

std::unique_ptr<Kernel> make_stand_in(const KernelRequest& r, std::string&) {
  const plan::LocalNode node{r.schema, r.attributes, r.inputs, r.outputs, r.input_formats, r.threads};
  return std::make_unique<StandIn>(host().make(host().offer(node).implementation, r));
}

/// Channels last where oneDNN wants it, as cuDNN may.
bool formats_of(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  const auto offer = host().offer(node);
  inputs = offer.input_formats;
  outputs = offer.output_formats;
  return true;
}

constexpr std::string_view kProduct = "stand-in:product", kConvolution = "stand-in:convolution";
constexpr KernelRow kStandIns[] = {
    {"MatMul", kProduct, make_stand_in, formats_of},
    {"Gemm", kProduct, make_stand_in, formats_of},
    {"Conv", kConvolution, make_stand_in, formats_of},
    {"ConvTranspose", kConvolution, make_stand_in, formats_of},
    {"ConvGradInput", kConvolution, make_stand_in, formats_of},
    {"ConvGradWeight", kConvolution, make_stand_in, formats_of},
};

}  // namespace

EmulatedBackend::EmulatedBackend() : DeviceBackend(std::make_unique<EmulatedGpu>(), {kStandIns}) {}

std::shared_ptr<Kernel> EmulatedBackend::make(const std::string& implementation, const KernelRequest& request) const {
  auto kernel = DeviceBackend::make(implementation, request);
  if (implementation.starts_with("host:")) return kernel;
  return std::make_shared<OnDevice>(std::move(kernel), static_cast<EmulatedGpu&>(device()));
}

}  // namespace rehearsal::exec
