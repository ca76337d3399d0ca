// Convolutions by cuDNN's graphs, on images in plain or channels-last order; weights are plain in the arena.

#include <cstdint>

#include "exec/kernels/cuda/biases.hpp"
#include "exec/kernels/cuda/dnn_graph.hpp"
#include "exec/kernels/cuda/libraries.hpp"
#include "exec/kernels/cuda/nvidia_gpu.hpp"
#include "graph/ops/window.hpp"

namespace rehearsal::exec::cuda {
namespace {

enum : std::int64_t { kImage = 1, kWeights = 2, kWindows = 3 };

constexpr std::int64_t kAligned = 16;  // bytes that cuDNN's fast engines want

/// The three tensors of a convolution, whichever of them is the result.
struct ConvolutionsTensors {
  const graph::Shape &image, &weights, &windows;
  plan::Format image_format = plan::Format::Plain, windows_format = plan::Format::Plain;
};

/// cuDNN knows two and three spatial dimensions: one of size 1 is put before a single one.
std::vector<std::int64_t> with_two_dimensions(std::vector<std::int64_t> values, std::int64_t filler, std::size_t before) {
  if (values.size() == before + 1) values.insert(values.begin() + static_cast<std::ptrdiff_t>(before), filler);
  return values;
}

DnnTensor tensor_of(std::int64_t id, const graph::Shape& shape, DType type, plan::Format format) {
  DnnTensor t{id, type, with_two_dimensions(shape, 1, 2), {}, kAligned};
  const auto rank = t.sizes.size();
  t.strides.assign(rank, 1);
  std::int64_t step = 1;
  const auto next = [&](std::size_t d) { t.strides[d] = step, step *= t.sizes[d]; };
  if (format == plan::Format::ChannelsLast) next(1);
  for (std::size_t d = rank; d-- > 2;) next(d);
  if (format != plan::Format::ChannelsLast) next(1);
  next(0);
  return t;
}

/// Padding that makes the windows exactly as many as there are: a block of a split image may have fewer than would fit.
std::int64_t high_padding_of_convolutions(const ConvolutionsTensors& t, const graph::Window& window, std::size_t d) {
  const std::int64_t image = t.image[d + 2], windows = t.windows[d + 2], room = image + window.low[d] + window.high[d] - window.span(d);
  if (room >= 0 && room / window.strides[d] + 1 == windows) return window.high[d];
  return (windows - 1) * window.strides[d] + window.span(d) - image - window.low[d];
}

DnnDescriptor convolution_of(const ConvolutionsTensors& t, const graph::Attributes& attributes, DType type) {
  const auto window = graph::window_of(attributes, graph::spatial_of(t.weights));
  std::vector<std::int64_t> high;
  for (std::size_t d = 0; d < window.rank(); ++d) high.push_back(high_padding_of_convolutions(t, window, d));
  DnnDescriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const auto low = with_two_dimensions(window.low, 0, 0);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(low.size()))
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, type == DType::F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, low)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, with_two_dimensions(high, 0, 0))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, with_two_dimensions(window.strides, 1, 0))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, with_two_dimensions(window.dilations, 1, 0))
      .finalize();
  return d;
}

/// Names of one operation's attributes.
struct OperationRow {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t image, weights, windows, convolution, alpha, beta;
};
constexpr OperationRow kForward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr OperationRow kGradInput{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr OperationRow kGradWeight{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

DnnPlan plan_of(const OperationRow& row, const ConvolutionsTensors& t, const KernelRequest& r, bool tf32) {
  const auto type = r.view().output().dtype;
  const auto image = describe(tensor_of(kImage, t.image, type, t.image_format)),
             weights = describe(tensor_of(kWeights, t.weights, type, plan::Format::Plain)),
             windows = describe(tensor_of(kWindows, t.windows, type, t.windows_format)),
             convolution = convolution_of(t, r.attributes, type);
  DnnDescriptor operation(row.descriptor);
  operation.set(row.image, image)
      .set(row.weights, weights)
      .set(row.windows, windows)
      .set(row.convolution, convolution)
      .set_real(row.alpha, 1, type)
      .set_real(row.beta, 0, type)
      .finalize();
  return {gpu_of(r).dnn_target(), std::move(operation), tf32 || type != DType::F32};
}

/// Operands and result by the ids of a convolution's tensors, in the order of the node.
struct Roles {
  std::int64_t first, second, result;
};

class Convolution final : public Kernel {
 public:
  Convolution(const KernelRequest& r, DnnPlan plan, Roles roles)
      : gpu_(gpu_of(r)), plan_(std::move(plan)), roles_(roles), type_(r.view().output()) {
    has_bias_ = roles.result != kWeights && r.view().has_input(2);
    channels_last_ = !r.output_formats.empty() && r.output_formats[0] == plan::Format::ChannelsLast;
    spare_ = (plan_.workspace_bytes() + 255) / 256 * 256;
  }

  /// Behind the plan's own: room for a gradient of weights whose place in a bucket is not aligned.
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return spare_ + (roles_.result == kWeights ? static_cast<std::int64_t>(graph::size_of(type_).value()) : 0);
  }

  [[nodiscard]] std::string engine() const override { return plan_.engine(); }
  [[nodiscard]] bool is_shareable() const override { return true; }

  void run(std::span<const TensorView> in, std::span<const TensorView> out, const RunContext& context) override {
    const bool aligned = reinterpret_cast<std::uintptr_t>(out[0].data) % kAligned == 0;
    void* result = aligned ? out[0].data : static_cast<std::byte*>(context.workspace) + spare_;
    plan_.run(gpu_.dnn(), {roles_.first, roles_.second, roles_.result}, {in[0].data, in[1].data, result}, context.workspace);
    if (!aligned) gpu_.copy(out[0].data, result, static_cast<std::size_t>(graph::size_of(type_).value()));
    if (has_bias_) add_bias(context.stream, type_, channels_last_, in[2].data, out[0].data);
  }

 private:
  NvidiaGpu& gpu_;
  DnnPlan plan_;
  Roles roles_;
  graph::TensorType type_;
  std::int64_t spare_ = 0;
  bool has_bias_ = false, channels_last_ = false;
};

/// Makes a kernel, or says why cuDNN does not.
template <class Make>
std::unique_ptr<Kernel> or_refuse(const KernelRequest& r, std::string& reason, const Make& make) {
  for (const auto& type : r.inputs)
    if (type && (!is_float(type->dtype) || graph::element_count(type->shape) == 0)) return reason = "no numbers to compute with", nullptr;
  try {
    return make();
  } catch (const Refused& refused) {
    reason = refused.why;
    return nullptr;
  }
}

template <bool kTf32>
std::unique_ptr<Kernel> make_forward(const KernelRequest& r, std::string& reason) {
  return or_refuse(r, reason, [&] {
    const ConvolutionsTensors t{r.view().input(0).shape, r.view().input(1).shape, r.view().output().shape, r.input_formats[0],
                                r.output_formats[0]};
    return std::make_unique<Convolution>(r, plan_of(kForward, t, r, kTf32), Roles{kImage, kWeights, kWindows});
  });
}

/// dY, W -> dX; X, W, B? -> Y of a transposed convolution, which is the same.
template <bool kTf32>
std::unique_ptr<Kernel> make_grad_input(const KernelRequest& r, std::string& reason) {
  return or_refuse(r, reason, [&] {
    const ConvolutionsTensors t{r.view().output().shape, r.view().input(1).shape, r.view().input(0).shape, r.output_formats[0],
                                r.input_formats[0]};
    return std::make_unique<Convolution>(r, plan_of(kGradInput, t, r, kTf32), Roles{kWindows, kWeights, kImage});
  });
}

/// X, dY -> dW.
template <bool kTf32>
std::unique_ptr<Kernel> make_grad_weight(const KernelRequest& r, std::string& reason) {
  return or_refuse(r, reason, [&] {
    const ConvolutionsTensors t{r.view().input(0).shape, r.view().output().shape, r.view().input(1).shape, r.input_formats[0],
                                r.input_formats[1]};
    return std::make_unique<Convolution>(r, plan_of(kGradWeight, t, r, kTf32), Roles{kImage, kWindows, kWeights});
  });
}

template <bool kTf32>
constexpr std::string_view kConvolutionsName = kTf32 ? "cudnn:convolution-tf32" : "cudnn:convolution";
template <bool kTf32>
constexpr KernelRow kConvolutionsRows[] = {
    {"Conv", kConvolutionsName<kTf32>, make_forward<kTf32>},
    {"ConvTranspose", kConvolutionsName<kTf32>, make_grad_input<kTf32>},
    {"ConvGradInput", kConvolutionsName<kTf32>, make_grad_input<kTf32>},
    {"ConvGradWeight", kConvolutionsName<kTf32>, make_grad_weight<kTf32>},
};

}  // namespace

std::span<const KernelRow> convolution_kernels(bool tf32) {
  return tf32 ? std::span<const KernelRow>(kConvolutionsRows<true>) : kConvolutionsRows<false>;
}

}  // namespace rehearsal::exec::cuda
