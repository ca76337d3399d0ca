#include "exec/kernels/cuda/biases.hpp"

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"

namespace rehearsal::exec::cuda {
namespace {

template <class T>
struct AddBias {
  const T* bias;
  T* image;
  std::int64_t channels, inner;  ///< elements of one channel that lie together
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    image[i] = static_cast<T>(real(image[i]) + real(bias[i / inner % channels]));
  }
};

/// A channel's sum over the batch and the image.
template <class T>
struct SumOfChannel {
  const T* dy;
  T* bias;
  std::int64_t batch, channels, pixels;
  template <class Team>
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t c) const {
    Real<T> sum = 0;
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t i = team.rank(); i < pixels; i += team.size()) sum += real(dy[(n * channels + c) * pixels + i]);
    sum = team.sum(sum);
    if (team.rank() == 0) bias[c] = static_cast<T>(sum);
  }
};

struct ConvGradBias {
  template <class T>
  static void run(const Call& call) {
    const auto& shape = call.in_shape(0);
    const std::int64_t outer = std::max<std::int64_t>(1, shape[0] * shape[1]), pixels = graph::element_count(shape) / outer;
    for_each_row(call.context.stream, shape[1], shape[0] * pixels,
                 SumOfChannel<T>{call.in<T>(0), call.out<T>(), shape[0], shape[1], pixels});
  }
};

constexpr KernelRow kRows[] = {{"ConvGradBias", "cuda:bias", make_by_output<ConvGradBias, Floats>}};

}  // namespace

void add_bias(DeviceStream stream, const graph::TensorType& type, bool channels_last, const void* bias, void* image) {
  const auto count = graph::element_count(type.shape);
  const std::int64_t channels = type.shape[1], inner = channels_last ? 1 : std::max<std::int64_t>(1, count / (type.shape[0] * channels));
  const auto add = [&](auto element) {
    using T = decltype(element);
    for_each(stream, count, AddBias<T>{static_cast<const T*>(bias), static_cast<T*>(image), channels, inner});
  };
  if (type.dtype == DType::F64) return add(double{});
  if (type.dtype == DType::F16) return add(Half{});
  if (type.dtype == DType::BF16) return add(BFloat16{});
  add(float{});
}

std::span<const KernelRow> bias_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
