#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

class NativeKernel final : public Kernel {
 public:
  NativeKernel(const KernelRequest& request, KernelBody body, std::int64_t bytes) : problem_(request), body_(body), bytes_(bytes) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override { return bytes_; }
  [[nodiscard]] bool is_shareable() const override { return true; }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    body_({problem_, inputs, outputs, context});
  }

 private:
  reference::Problem problem_;
  KernelBody body_;
  std::int64_t bytes_;
};

constexpr std::int64_t kElementsOfPart = 1 << 16, kMostParts = 64;

}  // namespace

std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, KernelBody body, std::int64_t workspace_bytes) {
  return std::make_unique<NativeKernel>(request, body, workspace_bytes);
}

bool takes(const KernelRequest& request, std::string& reason) {
  const DType own = request.inputs[0] ? request.inputs[0]->dtype : DType::Count;
  if (own != DType::F32 && own != DType::BF16 && own != DType::F16) {
    reason = "only f32, bf16 and f16, not " + std::string(own == DType::Count ? "an absent operand" : name(own));
    return false;
  }
  for (const auto* types : {&request.inputs, &request.outputs})
    for (const auto& type : *types) {
      if (!type || !is_float(type->dtype) || type->dtype == own || type->dtype == DType::F64) continue;
      reason = "operands and results of one type, not " + std::string(name(own)) + " and " + std::string(name(type->dtype));
      return false;
    }
  const auto empty = [](const auto& type) { return type && graph::element_count(type->shape) == 0; };
  if (std::none_of(request.inputs.begin(), request.inputs.end(), empty)) return true;
  reason = "an empty tensor";
  return false;
}

bool takes_f32(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return false;
  if (request.inputs[0]->dtype == DType::F32) return true;
  reason = "only f32, not " + std::string(name(request.inputs[0]->dtype));
  return false;
}

Image::Image(const graph::Shape& shape) : batch(shape[0]), channels(shape[1]) {
  for (std::size_t d = 2; d < shape.size(); ++d) pixels *= shape[d];
}

std::int64_t rows_of_part(std::int64_t rows, std::int64_t columns) {
  const std::int64_t least = std::max<std::int64_t>(8, kElementsOfPart / std::max<std::int64_t>(1, columns));
  return std::max(least, (rows + kMostParts - 1) / kMostParts);
}

}  // namespace rehearsal::exec::native
