#include "exec/kernels/reference/reference.hpp"

#include <stdexcept>

namespace rehearsal::exec::reference {

namespace {

class ReferenceBodyKernel final : public Kernel {
 public:
  ReferenceBodyKernel(const KernelRequest& request, KernelBody body) : problem_(request), body_(body) {}
  [[nodiscard]] bool is_shareable() const override { return true; }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    body_({problem_, inputs, outputs, context});
  }

 private:
  Problem problem_;
  KernelBody body_;
};

bool all_plain(std::span<const plan::Format> formats) {
  return std::all_of(formats.begin(), formats.end(), [](plan::Format f) { return f == plan::Format::Plain; });
}

}  // namespace

Problem::Problem(const KernelRequest& request)
    : schema(request.schema),
      attributes(request.attributes),
      inputs(request.inputs.begin(), request.inputs.end()),
      outputs(request.outputs.begin(), request.outputs.end()),
      threads(request.threads) {}

std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, KernelBody body, std::string& reason) {
  if (!all_plain(request.input_formats) || !all_plain(request.output_formats)) {
    reason = "reference kernels take plain tensors only";
    return nullptr;
  }
  return std::make_unique<ReferenceBodyKernel>(request, body);
}

void Call::require_width(const TensorView& tensor, std::size_t bytes) const {
  constexpr std::size_t kWidest = 8;  // kernels that only move elements take several of them at once
  if (tensor.type == nullptr || bytes > kWidest || size_of(tensor.type->dtype) == bytes) return;
  throw std::logic_error("the kernel of " + std::string(problem.schema.name) + " takes elements of " +
                         std::string(name(tensor.type->dtype)) + " for some of " + std::to_string(bytes) + " bytes");
}

std::unique_ptr<Kernel> refuse_type(const KernelRequest& request, DType type, std::string& reason) {
  reason = std::string(request.schema.name) + ": no reference kernel for elements of type " + std::string(name(type));
  return nullptr;
}

}  // namespace rehearsal::exec::reference
