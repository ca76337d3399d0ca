// Gradients of the weights of depthwise convolutions: every tap of a channel is one sum over all pixels. A block of channels at a time is
// laid out as the loops want it, a band of rows that stays in a core's caches, and its sums in registers run over that band.

#include <algorithm>
#include <vector>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/window.hpp"

namespace rehearsal::exec::native {
namespace {

using reference::Plane;

constexpr std::int64_t kBlock = kDepthwiseChannels;

/// Windows [first, last) of one slice of a result.
struct DepthwiseBand {
  std::int64_t sample, slice, first, last;
  /// Rows of the image that lie under them.
  [[nodiscard]] std::int64_t first_row(const Plane& p) const { return std::max<std::int64_t>(0, first * p.stride[1] - p.low[1]); }
  [[nodiscard]] std::int64_t last_row(const Plane& p) const {
    return std::min(p.image[1], (last - 1) * p.stride[1] - p.low[1] + (p.kernel[1] - 1) * p.dilation[1] + 1);
  }
};

/// How the gradient is dealt out: the same for any number of threads.
struct DepthwiseParts {
  Plane plane;
  std::int64_t batch, channels;
  std::int64_t rows = 1;  ///< of windows, of a band

  DepthwiseParts(const graph::NodeView& view);

  [[nodiscard]] std::int64_t blocks() const { return (channels + kBlock - 1) / kBlock; }
  [[nodiscard]] std::int64_t bands() const { return (plane.windows[1] + rows - 1) / rows; }
  [[nodiscard]] std::int64_t all_bands() const { return batch * plane.windows[0] * bands(); }
  /// Sums of a tap, each over some of all bands: so many that threads have enough to do.
  [[nodiscard]] std::int64_t sums() const {
    constexpr std::int64_t kThings = 64;
    return std::clamp<std::int64_t>((kThings + blocks() - 1) / blocks(), 1, all_bands());
  }
  [[nodiscard]] std::int64_t things() const { return blocks() * sums(); }
  [[nodiscard]] std::int64_t members(int threads) const { return std::min<std::int64_t>(threads, things()); }
  [[nodiscard]] std::int64_t sum_numbers() const { return plane.taps() * kBlock; }
  /// Of a row, with the columns of padding that taps see; of a band's rows; and of its windows.
  [[nodiscard]] std::int64_t image_columns() const {
    return (plane.windows[2] - 1) * plane.stride[2] + (plane.kernel[2] - 1) * plane.dilation[2] + 1;
  }
  [[nodiscard]] std::int64_t image_numbers(std::int64_t band) const {
    return ((band - 1) * plane.stride[1] + (plane.kernel[1] - 1) * plane.dilation[1] + 1) * image_columns() * kBlock;
  }
  [[nodiscard]] std::int64_t window_numbers(std::int64_t band) const { return band * plane.windows[2] * kBlock; }
  [[nodiscard]] std::int64_t band_numbers() const { return image_numbers(rows) + window_numbers(rows); }

  [[nodiscard]] DepthwiseBand band(std::int64_t number) const {
    const std::int64_t first = number % bands() * rows, slice = number / bands();
    return {slice / plane.windows[0], slice % plane.windows[0], first, std::min(plane.windows[1], first + rows)};
  }
};

DepthwiseParts::DepthwiseParts(const graph::NodeView& view)
    : plane(reference::plane_of(graph::window_of(view.attributes, graph::spatial_of(view.output().shape)), view.input(0).shape,
                                view.input(1).shape)),
      batch(view.input(0).shape[0]),
      channels(view.input(0).shape[1]) {
  constexpr std::int64_t kNumbersOfBand = std::int64_t{1} << 14;
  const std::int64_t of_row = image_numbers(2) - image_numbers(1) + window_numbers(1);
  rows = std::clamp<std::int64_t>(1 + (kNumbersOfBand - image_numbers(1) - window_numbers(1)) / of_row, 1, plane.windows[1]);
}

void take(const ChannelBlock& block, const float* x, float* y) { loops().depthwise.take_f32(block, x, y); }
void take(const ChannelBlock& block, const Bf16* x, float* y) { loops().depthwise.take_bf16(block, x, y); }
void take(const ChannelBlock& block, const F16* x, float* y) { loops().depthwise.take_f16(block, x, y); }

/// One block of channels.
template <class T>
struct DepthwiseBlock {
  const DepthwiseParts& parts;
  const T *x, *dy;         ///< the first channel's first pixels
  std::int64_t count;      ///< of channels
  float *image, *windows;  ///< room for a band's numbers

  /// sums += those of the band
  void add(const DepthwiseBand& band, float* sums) const {
    const Plane& p = parts.plane;
    const std::int64_t pixel = ((band.sample * p.windows[0] + band.slice) * p.windows[1] + band.first) * p.windows[2];
    take({(band.last - band.first) * p.windows[2], parts.channels, count}, dy + pixel * parts.channels, windows);
    for (std::int64_t tap = 0; tap < p.kernel[0]; ++tap) {
      const std::int64_t slice = band.slice * p.stride[0] + tap * p.dilation[0] - p.low[0];
      if (slice < 0 || slice >= p.image[0]) continue;
      take_image(band, band.sample * p.image[0] + slice);
      add_taps(band, sums + tap * p.kernel[1] * p.kernel[2] * kBlock);
    }
  }

 private:
  /// The band's rows of a slice, with zeros where taps see padding beside them.
  void take_image(const DepthwiseBand& band, std::int64_t slice) const {
    const Plane& p = parts.plane;
    const std::int64_t columns = parts.image_columns(), low = std::clamp<std::int64_t>(p.low[2], 0, columns);
    const std::int64_t skipped = std::max<std::int64_t>(0, -p.low[2]),
                       own = std::clamp<std::int64_t>(p.image[2] - skipped, 0, columns - low);
    float* to = image;
    for (std::int64_t row = band.first_row(p); row < band.last_row(p); ++row, to += columns * kBlock) {
      std::fill_n(to, low * kBlock, 0.0F);
      take({own, parts.channels, count}, x + ((slice * p.image[1] + row) * p.image[2] + skipped) * parts.channels, to + low * kBlock);
      std::fill_n(to + (low + own) * kBlock, (columns - low - own) * kBlock, 0.0F);
    }
  }
  /// Of one slice of taps.
  void add_taps(const DepthwiseBand& band, float* sums) const {
    const Plane& p = parts.plane;
    const std::int64_t row = parts.image_columns() * kBlock, dy_row = p.windows[2] * kBlock;
    for (std::int64_t tap = 0; tap < p.kernel[1]; ++tap) {
      const auto reach = reference::reach_of(p, 1, tap);
      const std::int64_t first = std::max(band.first, reach.first), last = std::min(band.last, reach.last);
      if (first >= last) continue;
      const std::int64_t under = reach.image + (first - reach.first) * p.stride[1] - band.first_row(p);
      loops().depthwise.sums({last - first, p.windows[2], p.stride[1] * row, p.stride[2] * kBlock, dy_row, p.dilation[2] * kBlock},
                             p.kernel[2], image + under * row, windows + (first - band.first) * dy_row, sums + tap * p.kernel[2] * kBlock);
    }
  }
};

/// The sums of every tap, [block, sum, tap, channel], one after the other.
template <class T>
void put_weights(const DepthwiseParts& parts, int threads, const float* sums, T* dw) {
  const std::int64_t taps = parts.plane.taps();
  parallel_ranges(threads, parts.channels, kBlock, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> total(static_cast<std::size_t>(taps));
    for (std::int64_t c = first; c < last; ++c) {
      const float* own = sums + c / kBlock * parts.sums() * parts.sum_numbers() + c % kBlock;
      for (std::int64_t t = 0; t < taps; ++t) total[t] = own[t * kBlock];
      for (std::int64_t i = taps; i < parts.sums() * taps; ++i) total[i % taps] += own[i * kBlock];
      loops_over<T>().from_f32(dw + c * taps, total.data(), taps);
    }
  });
}

/// X, dY -> dW
struct DepthwiseGradient {
  template <class T>
  static void run(const Call& call) {
    const DepthwiseParts parts(call.problem.view());
    auto* sums = static_cast<float*>(call.context.workspace);
    float* rooms = sums + parts.things() * parts.sum_numbers();
    const std::int64_t members = parts.members(call.threads());
    parallel_items(call.threads(), members, 1, [&](std::int64_t member) {
      float* room = rooms + member * parts.band_numbers();
      for (std::int64_t i = member * parts.things() / members; i < (member + 1) * parts.things() / members; ++i) {
        const std::int64_t channel = i / parts.sums() * kBlock, part = i % parts.sums();
        const DepthwiseBlock<T> block{parts,
                                      call.in<T>(0) + channel,
                                      call.in<T>(1) + channel,
                                      std::min(kBlock, parts.channels - channel),
                                      room,
                                      room + parts.image_numbers(parts.rows)};
        std::fill_n(sums + i * parts.sum_numbers(), parts.sum_numbers(), 0.0F);
        for (std::int64_t b = part * parts.all_bands() / parts.sums(); b < (part + 1) * parts.all_bands() / parts.sums(); ++b)
          block.add(parts.band(b), sums + i * parts.sum_numbers());
      }
    });
    put_weights(parts, call.threads(), sums, call.out<T>());
  }
};

/// oneDNN (2.6.3) has a kernel of its own for images under windows of up to 3 columns of taps without gaps that reach over the border by no
/// more than half of their size. The others it computes as if groups had 16 channels, most of which are 0.
bool is_quicker(const graph::NodeView& view, std::string& reason) {
  const auto window = graph::window_of(view.attributes, graph::spatial_of(view.output().shape));
  if (window.rank() != 2 || window.kernel[1] > 3) return true;
  for (std::size_t d = 0; d < window.rank(); ++d) {
    const std::int64_t high = window.high_for(d, view.input(0).shape[d + 2], view.input(1).shape[d + 2]), half = window.kernel[d] / 2;
    if (window.dilations[d] > 1 || window.low[d] > half || high > half) return true;
  }
  reason = "oneDNN is expected to be quicker at windows of 3 columns or fewer";
  return false;
}

std::unique_ptr<Kernel> make_depthwise(const KernelRequest& request, std::string& reason) {
  const auto view = request.view();
  const graph::Shape &x = view.input(0).shape, &dy = view.input(1).shape, &w = view.output().shape;
  reason.clear();  // of others nobody would have expected it
  if (!is_image(x) || x[1] < 2 || w[1] != 1 || w[0] != x[1] || dy[1] != x[1]) return nullptr;
  if (!takes(request, reason)) return nullptr;
  // Else it would be taken where oneDNN has no kernel for 16 bits, and its f32 kernel on widened operands is quicker.
  if (view.input(0).dtype != DType::F32 && !is_quicker(view, reason)) return nullptr;
  const DepthwiseParts parts(view);
  const std::int64_t numbers = parts.things() * parts.sum_numbers() + parts.members(request.threads) * parts.band_numbers();
  return make_kernel(request, body_of<DepthwiseGradient>(request), numbers * static_cast<std::int64_t>(sizeof(float)));
}

bool prefers_depthwise(const plan::LocalNode& node, std::string& reason) { return is_quicker(node.view(), reason); }

constexpr KernelRow kDepthwiseRows[] = {
    {"ConvGradWeight", "native:depthwise", make_depthwise, images_of_convolution, prefers_depthwise},
};

}  // namespace

std::span<const KernelRow> depthwise_kernels() { return kDepthwiseRows; }

}  // namespace rehearsal::exec::native
