// Convolutions by cuDNN's graphs. Its engines in 16 bits want channels-last images and weights, with whole groups of 8 channels: such
// images are asked for; weights, which are plain in the arena, and images of other numbers of channels are copied to that order first.

#include <cstdint>

#include "exec/kernels/cuda/biases.hpp"
#include "exec/kernels/cuda/dnn_graph.hpp"
#include "exec/kernels/cuda/libraries.hpp"
#include "exec/kernels/cuda/moves.hpp"
#include "exec/kernels/cuda/nvidia_gpu.hpp"
#include "exec/kernels/cuda/workspace_parts.hpp"
#include "graph/ops/window.hpp"

namespace rehearsal::exec::cuda {
namespace {

enum : std::int64_t { kImage = 1, kWeights = 2, kWindows = 3 };

constexpr std::int64_t kAligned = 16;  // bytes that cuDNN's fast engines want
constexpr std::int64_t kChannelsTogether = 8;

/// The three tensors of a convolution, whichever of them is the result.
struct ConvolutionsTensors {
  const graph::Shape &image, &weights, &windows;
  bool channels_last = false;  ///< all three as the library gets them, with room for whole groups of channels of the image

  [[nodiscard]] std::int64_t room() const { return channels_last ? rounded_up(image[1], kChannelsTogether) : image[1]; }
  [[nodiscard]] graph::Shape with_room(graph::Shape shape) const {
    if (channels_last) shape[1] = room();
    return shape;
  }
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

DnnDescriptor convolution_of(const ConvolutionsTensors& t, const graph::Attributes& attributes, DType type) {
  const auto window = graph::window_of(attributes, graph::spatial_of(t.weights));
  std::vector<std::int64_t> high;
  for (std::size_t d = 0; d < window.rank(); ++d) high.push_back(window.high_for(d, t.image[d + 2], t.windows[d + 2]));
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
  const auto format = t.channels_last ? plan::Format::ChannelsLast : plan::Format::Plain;
  const auto image = describe(tensor_of(kImage, t.with_room(t.image), type, format)),
             weights = describe(tensor_of(kWeights, t.with_room(t.weights), type, format)),
             windows = describe(tensor_of(kWindows, t.windows, type, format)), convolution = convolution_of(t, r.attributes, type);
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

/// A tensor that the library gets as a channels-last copy.
struct Copied {
  ChannelsMove move;
  bool is_needed = false;
  std::int64_t at = 0;  ///< in the workspace
};

ChannelsMove move_of(const graph::Shape& shape, std::int64_t room) {
  std::int64_t pixels = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) pixels *= shape[d];
  return {shape[0], shape[1], pixels, room};
}

class Convolution final : public Kernel {
 public:
  Convolution(const KernelRequest& r, const ConvolutionsTensors& t, DnnPlan plan, Roles roles)
      : gpu_(gpu_of(r)), plan_(std::move(plan)), roles_(roles), type_(r.view().output()), channels_last_(t.channels_last) {
    has_bias_ = roles.result != kWeights && r.view().has_input(2);
    (void)parts_.add(plan_.workspace_bytes());  // first
    if (t.channels_last) {
      image_.move = move_of(t.image, t.room()), weights_.move = move_of(t.weights, t.room());
      image_.is_needed = t.room() != t.image[1];
      weights_.is_needed = image_.is_needed || weights_.move.pixels > 1;
    }
    for (auto* copied : {&image_, &weights_})
      if (copied->is_needed) copied->at = parts_.add(copied->move.count * copied->move.pixels * copied->move.room * element_bytes());
    // For a gradient of weights whose place in a bucket is not aligned.
    if (roles.result == kWeights && !weights_.is_needed) spare_ = parts_.add(static_cast<std::int64_t>(graph::size_of(type_).value()));
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override { return parts_.bytes(); }

  [[nodiscard]] std::string engine() const override { return plan_.engine(); }
  [[nodiscard]] bool is_shareable() const override { return true; }

  void run(std::span<const TensorView> in, std::span<const TensorView> out, const RunContext& context) override {
    auto* workspace = WorkspaceParts::begin(context.workspace);
    const bool aligned = reinterpret_cast<std::uintptr_t>(out[0].data) % kAligned == 0, reordered = copied(roles_.result).is_needed;
    void* result = reordered ? workspace + copied(roles_.result).at : aligned ? out[0].data : workspace + spare_;
    plan_.run(gpu_.dnn(), {roles_.first, roles_.second, roles_.result},
              {operand(roles_.first, in[0].data, context), operand(roles_.second, in[1].data, context), result}, workspace);
    if (reordered)
      put_channels_first(context.stream, copied(roles_.result).move, size_of(type_.dtype), result, out[0].data);
    else if (!aligned)
      gpu_.copy(out[0].data, result, static_cast<std::size_t>(graph::size_of(type_).value()));
    if (has_bias_) add_bias(context.stream, type_, channels_last_, in[2].data, out[0].data);
  }

 private:
  [[nodiscard]] std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(type_.dtype)); }
  [[nodiscard]] const Copied& copied(std::int64_t tensor) const {
    static const Copied kAsItIs;
    return tensor == kWeights ? weights_ : tensor == kImage ? image_ : kAsItIs;
  }
  [[nodiscard]] void* operand(std::int64_t tensor, void* data, const RunContext& context) const {
    const auto& copy = copied(tensor);
    if (!copy.is_needed) return data;
    void* to = WorkspaceParts::begin(context.workspace) + copy.at;
    put_channels_last(context.stream, copy.move, size_of(type_.dtype), data, to);
    return to;
  }

  NvidiaGpu& gpu_;
  DnnPlan plan_;
  Roles roles_;
  graph::TensorType type_;
  bool has_bias_ = false, channels_last_ = false;
  Copied image_, weights_;
  WorkspaceParts parts_;
  std::int64_t spare_ = 0;
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

template <bool kTf32, bool kChannelsLast = false>
std::unique_ptr<Kernel> make_forward(const KernelRequest& r, std::string& reason) {
  return or_refuse(r, reason, [&] {
    const ConvolutionsTensors t{r.view().input(0).shape, r.view().input(1).shape, r.view().output().shape, kChannelsLast};
    return std::make_unique<Convolution>(r, t, plan_of(kForward, t, r, kTf32), Roles{kImage, kWeights, kWindows});
  });
}

/// dY, W -> dX; X, W, B? -> Y of a transposed convolution, which is the same.
template <bool kTf32, bool kChannelsLast = false>
std::unique_ptr<Kernel> make_grad_input(const KernelRequest& r, std::string& reason) {
  return or_refuse(r, reason, [&] {
    const ConvolutionsTensors t{r.view().output().shape, r.view().input(1).shape, r.view().input(0).shape, kChannelsLast};
    return std::make_unique<Convolution>(r, t, plan_of(kGradInput, t, r, kTf32), Roles{kWindows, kWeights, kImage});
  });
}

/// X, dY -> dW.
template <bool kTf32, bool kChannelsLast = false>
std::unique_ptr<Kernel> make_grad_weight(const KernelRequest& r, std::string& reason) {
  return or_refuse(r, reason, [&] {
    const ConvolutionsTensors t{r.view().input(0).shape, r.view().output().shape, r.view().input(1).shape, kChannelsLast};
    return std::make_unique<Convolution>(r, t, plan_of(kGradWeight, t, r, kTf32), Roles{kImage, kWindows, kWeights});
  });
}

/// What the channels-last kernels are for: 16 bits, two dimensions, no groups of channels, results of whole groups of 8.
bool suits_channels_last(const plan::LocalNode& node, const graph::Shape& weights) {
  return size_of(node.outputs[0]->dtype) == 2 && weights.size() == 4 && node.attributes.integer("group", 1) == 1 &&
         weights[0] % kChannelsTogether == 0;
}
/// An image whose channels are no whole groups is copied, from plain order.
plan::Format format_of_image(const graph::Shape& weights) {
  return weights[1] % kChannelsTogether == 0 ? plan::Format::ChannelsLast : plan::Format::Plain;
}
bool forward_channels_last(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  const auto& weights = node.inputs[1]->shape;
  inputs[0] = format_of_image(weights), outputs[0] = plan::Format::ChannelsLast;
  return suits_channels_last(node, weights);
}
bool grad_input_channels_last(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  const auto& weights = node.inputs[1]->shape;
  inputs[0] = outputs[0] = plan::Format::ChannelsLast;
  return suits_channels_last(node, weights) && format_of_image(weights) == plan::Format::ChannelsLast;
}
bool grad_weight_channels_last(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>&) {
  const auto& weights = node.outputs[0]->shape;
  inputs[0] = format_of_image(weights), inputs[1] = plan::Format::ChannelsLast;
  return suits_channels_last(node, weights);
}

template <bool kTf32>
constexpr std::string_view kConvolutionsName = kTf32 ? "cudnn:convolution-tf32" : "cudnn:convolution";
constexpr std::string_view kChannelsLastName = "cudnn:convolution-channels-last";
template <bool kTf32>
constexpr KernelRow kConvolutionsRows[] = {
    {"Conv", kChannelsLastName, make_forward<kTf32, true>, forward_channels_last},
    {"ConvGradInput", kChannelsLastName, make_grad_input<kTf32, true>, grad_input_channels_last},
    {"ConvGradWeight", kChannelsLastName, make_grad_weight<kTf32, true>, grad_weight_channels_last},
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
