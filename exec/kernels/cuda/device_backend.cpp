#include "exec/kernels/cuda/device_backend.hpp"


#include "exec/kernels/cuda/families.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// Before the name of the host's kernel that does the work.
constexpr std::string_view kHost = "host:";

/// Runs a kernel of the host on copies of a GPU's tensors.
class OnHost final : public Kernel {
 public:
  OnHost(std::shared_ptr<Kernel> kernel, ComputeDevice& device)
      : kernel_(std::move(kernel)), device_(device), workspace_(static_cast<std::size_t>(kernel_->workspace_bytes()) + kAlignment) {}

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    std::vector<std::vector<std::byte>> memory;
    memory.reserve(inputs.size() + outputs.size());
    const auto on_host = [&](const TensorView& view, bool fetch) {
      auto copy = view;
      if (view.data == nullptr) return copy;
      auto& bytes = memory.emplace_back(static_cast<std::size_t>(graph::size_of(*view.type).value()));
      if (fetch) device_.download(bytes.data(), view.data, bytes.size());
      copy.data = bytes.data();
      return copy;
    };
    std::vector<TensorView> in, out;
    for (const auto& view : inputs) in.push_back(on_host(view, true));
    for (const auto& view : outputs) out.push_back(on_host(view, false));
    auto* aligned =
        reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace_.data()) + kAlignment - 1) / kAlignment * kAlignment);
    kernel_->run(in, out, {context.seed, context.step, aligned});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (out[i].data != nullptr)
        device_.upload(outputs[i].data, out[i].data, static_cast<std::size_t>(graph::size_of(*outputs[i].type).value()));
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  std::shared_ptr<Kernel> kernel_;
  ComputeDevice& device_;
  std::vector<std::byte> workspace_;
};

}  // namespace

DeviceBackend::DeviceBackend(std::unique_ptr<ComputeDevice> device, const std::vector<std::span<const KernelRow>>& libraries)
    : device_(std::move(device)), tables_(device_.get()), host_("auto") {
  for (const auto& rows : libraries) tables_.add(rows);
  tables_.add(body_kernels());
}

plan::KernelOffer DeviceBackend::offer(const plan::LocalNode& node) const {
  const auto signature = signature_of(node);
  if (const auto known = known_.find(signature); known != known_.end()) return known->second;
  std::string reasons;
  auto offer = tables_.offer(node, reasons);
  if (!offer) {
    offer = host_.offer(node);
    offer->implementation = std::string(kHost) + offer->implementation;
    offer->workspace = Bytes(0);
    offer->why = reasons.empty() ? "no kernel for GPUs" : reasons;
  }
  return known_[signature] = *offer;
}

bool DeviceBackend::reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const {
  return host_.reorders(type, from, to);
}

std::shared_ptr<Kernel> DeviceBackend::make(const std::string& implementation, const KernelRequest& request) const {
  if (!implementation.starts_with(kHost)) return tables_.make(implementation, request);
  return std::make_shared<OnHost>(host_.make(implementation.substr(kHost.size()), request), *device_);
}

void DeviceBackend::forget() const {
  known_.clear();
  tables_.forget();
  host_.forget();
}

}  // namespace rehearsal::exec::cuda
