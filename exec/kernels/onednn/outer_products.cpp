// Sums of outer products of features (graph/ops/outer_products.cpp) by oneDNN's product of f32 matrices.

#include "exec/kernels/onednn/families.hpp"
#include "exec/kernels/onednn/primitive.hpp"
#include "exec/kernels/onednn/sgemm.hpp"
#include "exec/kernels/reference/step_interval.hpp"
#include "exec/kernels/reference/under_windows.hpp"

namespace rehearsal::exec::onednn {
namespace {

class OuterProducts : public Kernel {
 public:
  explicit OuterProducts(const KernelRequest& r) : attributes_(r.attributes), x_(r.view().input(0).shape), threads_(r.threads) {}

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    const auto* x = inputs[0].as<const float>();
    auto* out = outputs[0].as<float>();
    if (!reference::computes_in(*inputs[1].as<const std::int64_t>(), attributes_)) {
      std::fill_n(out, graph::element_count(outputs[0].type->shape), 0.0F);
      return;
    }
    const ThreadScope threads(threads_);
    const auto scale = static_cast<float>(attributes_.number("scale", 1));
    if (!of_images()) {
      const auto features = x_.back();
      return multiply({x, features, true}, {x, features}, {out, features, features, graph::element_count(x_) / features, scale});
    }
    const reference::UnderWindows windows(x_, attributes_);
    auto* under = static_cast<float*>(context.workspace);
    const auto features = windows.features(), positions = windows.positions();
    for (std::int64_t n = 0; n < x_[0]; ++n) {
      windows.write(x + n * windows.image_elements(), under);
      multiply({under, positions}, {under, positions, true}, {out, features, features, positions, scale, n > 0});
    }
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    if (!of_images()) return 0;
    const reference::UnderWindows windows(x_, attributes_);
    return windows.features() * windows.positions() * static_cast<std::int64_t>(sizeof(float));
  }
  [[nodiscard]] std::string engine() const override { return "sgemm"; }
  [[nodiscard]] bool is_shareable() const override { return true; }

 private:
  [[nodiscard]] bool of_images() const { return attributes_.has("kernel_shape"); }

  graph::Attributes attributes_;
  graph::Shape x_;
  int threads_;
};

std::unique_ptr<Kernel> make_outer_products(const KernelRequest& request, std::string& reason) {
  const auto& x = request.view().input(0);
  if (x.dtype != DType::F32) return reason = "f32, not " + std::string(name(x.dtype)), nullptr;
  if (graph::element_count(x.shape) == 0) return reason = "an empty tensor", nullptr;
  if (request.input_formats[0] != plan::Format::Plain || request.output_formats[0] != plan::Format::Plain)
    return reason = "plain operands", nullptr;
  return std::make_unique<OuterProducts>(request);
}

constexpr KernelRow kOuterProductRows[] = {{"OuterProducts", "onednn:sgemm", make_outer_products}};

}  // namespace

std::span<const KernelRow> outer_product_kernels() { return kOuterProductRows; }

}  // namespace rehearsal::exec::onednn
