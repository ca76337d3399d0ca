// Convolutions on images in channels-last order. Weights are plain in the arena: the primitive's own layout of them is made in the
// workspace.

#include <algorithm>

#include "exec/kernels/image_order.hpp"
#include "exec/kernels/onednn/families.hpp"
#include "exec/kernels/onednn/onednn_versions.hpp"
#include "exec/kernels/onednn/primitive.hpp"
#include "graph/ops/window.hpp"

namespace rehearsal::exec::onednn {
namespace {

using dnnl::memory;

/// The three tensors of a convolution, whichever of them is the result.
struct Tensors {
  const graph::Shape &image, &weights, &windows;
  DType type;  ///< of all three
};

/// [group * o, i, kernel...] as [group, o, i, kernel...].
memory::desc plain_weights(const Tensors& t) {
  graph::Shape shape = t.weights;
  const std::int64_t group = t.image[1] / t.weights[1];
  if (group > 1) {
    shape[0] /= group;
    shape.insert(shape.begin(), group);
  }
  return described({t.type, shape}, plan::Format::Plain);
}

ConvolutionShape shape_of(const Tensors& t, const graph::Attributes& attributes, bool bias) {
  const auto window = graph::window_of(attributes, graph::spatial_of(t.weights));
  ConvolutionShape s;
  s.image = described({t.type, t.image}, plan::Format::ChannelsLast);
  s.windows = described({t.type, t.windows}, plan::Format::ChannelsLast);
  s.weights = any_layout(plain_weights(t));
  if (bias) s.bias = described({t.type, {t.windows[1]}}, plan::Format::Plain);
  for (std::size_t d = 0; d < window.rank(); ++d) {
    s.strides.push_back(window.strides[d]);
    s.dilations.push_back(window.dilations[d] - 1);
    s.low.push_back(window.low[d]);
    s.high.push_back(window.high_for(d, t.image[d + 2], t.windows[d + 2]));
  }
  return s;
}

/// oneDNN (2.6.3, jit_1x1) gathers the pixels that a strided 1x1 convolution reads, one image for every thread, with channels in whole
/// blocks of 16, but books room for the channels that there are: with more than one thread it writes behind its scratchpad.
std::size_t beyond_scratchpad(const Tensors& t, const ConvolutionShape& s, int threads) {
  const bool strided = std::any_of(s.strides.begin(), s.strides.end(), [](std::int64_t stride) { return stride > 1; });
  const bool points = std::all_of(t.weights.begin() + 2, t.weights.end(), [](std::int64_t size) { return size == 1; });
  if (!strided || !points) return 0;
  constexpr std::int64_t kBlock = 16;
  const std::int64_t channels = (t.image[1] + kBlock - 1) / kBlock * kBlock;
  const std::int64_t pixels = graph::element_count({t.windows.begin() + 2, t.windows.end()});
  return static_cast<std::size_t>(threads * pixels * channels) * sizeof(float);
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& r) {
  const auto view = r.view();
  const Tensors t{view.input(0).shape, view.input(1).shape, view.output().shape, view.output().dtype};
  const bool bias = view.has_input(2);
  const auto s = shape_of(t, r.attributes, bias);
  const auto pd = worthwhile(forward(s, with_scratchpad(), cpu()), t.type);
  PrimitivePlan plan{
      [pd] { return dnnl::convolution_forward(pd); }, pd.scratchpad_desc(), {}, r.threads, beyond_scratchpad(t, s, r.threads)};
  plan.bindings = {{DNNL_ARG_SRC, false, 0, s.image, pd.src_desc()},
                   {DNNL_ARG_WEIGHTS, false, 1, plain_weights(t), pd.weights_desc()},
                   {DNNL_ARG_DST, true, 0, s.windows, pd.dst_desc()}};
  if (bias) plan.bindings.push_back({DNNL_ARG_BIAS, false, 2, s.bias, pd.bias_desc()});
  return make_kernel(std::move(plan));
}

/// dY, W -> dX.
std::unique_ptr<Kernel> make_backward_data(const KernelRequest& r) {
  const auto view = r.view();
  const Tensors t{view.output().shape, view.input(1).shape, view.input(0).shape, view.output().dtype};
  const auto s = shape_of(t, r.attributes, false);
  const auto pd = worthwhile(backward_data(s, forward(s, with_scratchpad(), cpu()), with_scratchpad(), cpu()), t.type);
  PrimitivePlan plan{
      [pd] { return dnnl::convolution_backward_data(pd); }, pd.scratchpad_desc(), {}, r.threads, beyond_scratchpad(t, s, r.threads)};
  plan.bindings = {{DNNL_ARG_DIFF_DST, false, 0, s.windows, pd.diff_dst_desc()},
                   {DNNL_ARG_WEIGHTS, false, 1, plain_weights(t), pd.weights_desc()},
                   {DNNL_ARG_DIFF_SRC, true, 0, s.image, pd.diff_src_desc()}};
  return make_kernel(std::move(plan));
}

/// Adds one number per channel to a channels-last f32 image that another kernel made.
class Biased final : public Kernel {
 public:
  Biased(std::unique_ptr<Kernel> product, std::int64_t channels, std::int64_t pixels, int threads)
      : product_(std::move(product)), channels_(channels), pixels_(pixels), threads_(threads) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override { return product_->workspace_bytes(); }
  [[nodiscard]] bool is_shareable() const override { return true; }
  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext& context) override {
    product_->run(inputs.first(2), outputs, context);
    const auto* bias = inputs[2].as<const float>();
    auto* y = outputs[0].as<float>();
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (std::int64_t p = 0; p < pixels_; ++p) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels_; ++c) y[p * channels_ + c] += bias[c];
    }
  }

 private:
  std::unique_ptr<Kernel> product_;
  std::int64_t channels_, pixels_;
  int threads_;
};

/// X, W, B? -> Y of a transposed convolution: the gradient of a convolution's operand, which is its result here.
std::unique_ptr<Kernel> make_transposed(const KernelRequest& r) {
  const auto view = r.view();
  auto product = make_backward_data(r);
  if (!product || !view.has_input(2)) return product;
  if (view.output().dtype != DType::F32) throw dnnl::error(dnnl_unimplemented, "bias of a transposed convolution only in f32");
  const std::int64_t channels = view.output().shape[1];
  return std::make_unique<Biased>(std::move(product), channels, graph::element_count(view.output().shape) / channels, r.threads);
}

/// True when every pixel of the windows is one of the image, times a matrix.
bool is_product(const Tensors& t, const graph::Attributes& attributes) {
  const auto window = graph::window_of(attributes, graph::spatial_of(t.weights));
  const auto one = [](std::int64_t n) { return n == 1; };
  return std::all_of(t.weights.begin() + 2, t.weights.end(), one) && std::all_of(window.strides.begin(), window.strides.end(), one) &&
         t.image[1] == t.weights[1] && std::equal(t.image.begin() + 2, t.image.end(), t.windows.begin() + 2, t.windows.end());
}

/// X, dY -> dW, and what of them is which.
Tensors of_weight_gradient(const graph::NodeView& view) {
  return {view.input(0).shape, view.output().shape, view.input(1).shape, view.output().dtype};
}

/// dW of such a convolution: the product of all pixels of dY, transposed, and those of X.
std::unique_ptr<Kernel> make_weights_product(const KernelRequest& r) {
  const auto view = r.view();
  const auto t = of_weight_gradient(view);
  const std::int64_t pixels = graph::element_count(t.image) / t.image[1], in = t.image[1], out = t.windows[1];
  const auto type = data_type(t.type);
  const memory::desc a({out, pixels}, type, memory::dims{1, out}), b({pixels, in}, type, memory::dims{in, 1}),
      c({out, in}, type, memory::dims{in, 1});
  const auto pd = worthwhile(product({a, b, {}, c}, with_scratchpad(), cpu()), t.type);
  PrimitivePlan plan{[pd] { return dnnl::matmul(pd); }, pd.scratchpad_desc(), {}, r.threads};
  plan.bindings = {{DNNL_ARG_SRC, false, 1, a, a}, {DNNL_ARG_WEIGHTS, false, 0, b, b}, {DNNL_ARG_DST, true, 0, c, c}};
  return make_kernel(std::move(plan));
}

/// In 16 bits oneDNN (2.6.3) is two to three times faster at it than at the convolution, before which it lays images out anew.
bool prefers_product(const plan::LocalNode& node, std::string& reason) {
  reason = "a product is not expected to be quicker in f32";
  return node.view().output().dtype != DType::F32;
}

/// X, dY -> dW.
std::unique_ptr<Kernel> make_backward_weights(const KernelRequest& r) {
  const auto view = r.view();
  const auto t = of_weight_gradient(view);
  const auto s = shape_of(t, r.attributes, false);
  const auto pd = worthwhile(backward_weights(s, forward(s, with_scratchpad(), cpu()), with_scratchpad(), cpu()), t.type);
  PrimitivePlan plan{
      [pd] { return dnnl::convolution_backward_weights(pd); }, pd.scratchpad_desc(), {}, r.threads, beyond_scratchpad(t, s, r.threads)};
  plan.bindings = {{DNNL_ARG_SRC, false, 0, s.image, pd.src_desc()},
                   {DNNL_ARG_DIFF_DST, false, 1, s.windows, pd.diff_dst_desc()},
                   {DNNL_ARG_DIFF_WEIGHTS, true, 0, plain_weights(t), pd.diff_weights_desc()}};
  return make_kernel(std::move(plan));
}

using Make = std::unique_ptr<Kernel> (*)(const KernelRequest&);

template <Make kMake>
std::unique_ptr<Kernel> make(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  return or_refuse(request.threads, reason, [&] { return kMake(request); });
}

std::unique_ptr<Kernel> make_product(const KernelRequest& request, std::string& reason) {
  if (is_product(of_weight_gradient(request.view()), request.attributes)) return make<make_weights_product>(request, reason);
  reason.clear();  // nothing that was expected to be quicker
  return nullptr;
}

constexpr KernelRow kConvolutionRows[] = {
    {"Conv", "onednn:convolution", make<make_forward>, images_of_convolution},
    {"ConvTranspose", "onednn:convolution", make<make_transposed>, images_of_convolution},
    {"ConvGradInput", "onednn:convolution", make<make_backward_data>, images_of_convolution},
    {"ConvGradWeight", "onednn:product", make_product, images_of_convolution, prefers_product},
    {"ConvGradWeight", "onednn:convolution", make<make_backward_weights>, images_of_convolution},
};

}  // namespace

std::span<const KernelRow> convolution_kernels() { return kConvolutionRows; }

}  // namespace rehearsal::exec::onednn
