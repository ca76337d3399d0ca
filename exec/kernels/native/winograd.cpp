// Convolutions of 3 x 3 (or n x 3 x 3) taps in f32 with a quarter of their multiplications (winograd_tiles.hpp).

#include <algorithm>
#include <vector>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/native/winograd_weights.hpp"

namespace rehearsal::exec::native {
namespace {

/// Bytes of a vector with which 36 small products are worth it: AVX2's and above.
constexpr int kVectorOfTiles = 32;

/// Of each of the 36 points: results = numbers of the image x weights.
void multiply(const TiledConvolution& s, int threads, const WinogradNumbers& image, const float* weights, const WinogradNumbers& to) {
  const std::int64_t panels = panels_of(s), rows = to.slices * to.tiles;
  parallel_items(threads, TiledConvolution::kPoints * panels, 1, [&](std::int64_t item) {
    const WinogradPanel panel = panel_of(s, item % panels);
    const std::int64_t point = item / panels;
    const float* b = weights + point * s.weights_of_point() + panel.first * s.inner();
    float* c = to.first + point * to.point() + panel.first;
    for (std::int64_t t = 0; t < s.taps; ++t)
      loops().attention.product({rows, panel.count, s.in, s.in, 1, panel.width, s.out, s.in * panel.width, t > 0},
                                image.first + point * image.point() + t * image.tiles * s.in, b + t * s.in * panel.width, c);
  });
}

struct Operands {
  const float *image, *weights, *bias;
  float* result;
  bool turned;  ///< weights are those of the convolution that this one is the transposed of
};

/// Numbers of a part that stay in a thread's caches.
constexpr std::int64_t kNumbersOfThread = std::int64_t{1} << 18;

/// Who makes things that do not wait for each other: every thread some of its own, or, where they are too few, all threads each of them.
struct WinogradTeam {
  WinogradTeam(std::int64_t all, int of) : things(all), members(all < of ? 1 : of), threads(all < of ? of : 1) {}
  std::int64_t things;
  int members, threads;  ///< that work beside each other; of each

  /// make(thing, member)
  template <class F>
  void make_all(const F& make) const {
    parallel_items(members, members, 1, [&](std::int64_t member) {
      for (std::int64_t i = member * things / members; i < (member + 1) * things / members; ++i) make(i, member);
    });
  }
};

/// Numbers of one part's tiles.
struct WinogradRoom {
  WinogradRoom(const TiledConvolution& shape, const WinogradParts& parts, float* first)
      : s(shape), image(first), result(first + parts.image_numbers()) {}
  const TiledConvolution& s;
  float *image, *result;
  [[nodiscard]] WinogradNumbers of_image(const WinogradPart& part) const {
    return {image, part.slices + s.taps - 1, part.rows * s.tile_columns(), s.in};
  }
  [[nodiscard]] WinogradNumbers of_result(const WinogradPart& part) const {
    return {result, part.slices, part.rows * s.tile_columns(), s.out};
  }
};

void convolve(const TiledConvolution& s, int threads, const Operands& o, float* weights) {
  const WinogradParts parts(s, kNumbersOfThread);
  const WinogradTeam team(parts.count(), threads);
  (o.turned ? take_turned_winograd_weights : take_winograd_weights)(s, threads, o.weights, weights);
  team.make_all([&](std::int64_t i, std::int64_t member) {
    const WinogradPart part = parts.part(i);
    const WinogradRoom room(s, parts, weights + s.weight_numbers() + member * parts.numbers());
    const WinogradTiles tiles(s, team.threads);
    tiles.take_image(part, o.image, room.of_image(part));
    multiply(s, team.threads, room.of_image(part), weights, room.of_result(part));
    tiles.put_result(part, room.of_result(part), o.bias, o.result);
  });
}

/// The sum that a gradient of weights is added to, or begins.
struct WeightSum {
  float* first;
  bool adds;
};

/// Of each point: sum += numbers of the image, transposed, x those of the gradient; rows of weights are padded_out() apart.
void multiply_gradient(const TiledConvolution& s, int threads, const WinogradNumbers& image, const WinogradNumbers& gradient,
                       const WeightSum& sum) {
  const std::int64_t panels = panels_of(s), tiles = gradient.slices * gradient.tiles;
  parallel_items(threads, TiledConvolution::kPoints * s.taps * panels, 1, [&](std::int64_t item) {
    const WinogradPanel panel = panel_of(s, item % panels);
    const std::int64_t point = item / panels / s.taps, tap = item / panels % s.taps;
    loops().attention.product({s.in, panel.count, tiles, 1, s.in, s.out, s.padded_out(), tiles * s.out - panel.first, sum.adds},
                              image.first + point * image.point() + tap * image.tiles * s.in,
                              gradient.first + point * gradient.point() + panel.first,
                              sum.first + point * s.weights_of_point() + tap * s.in * s.padded_out() + panel.first);
  });
}

/// A gradient of weights is added up in so many sums of parts, whatever the number of threads: their numbers are few beside those of tiles.
std::int64_t sums_of(const TiledConvolution& s, const WinogradParts& parts) {
  constexpr std::int64_t kMost = 8, kTilesPerWeight = 4;
  const std::int64_t tiles = TiledConvolution::kPoints * s.tiles() * (s.in + s.out);
  return std::clamp<std::int64_t>(tiles / (kTilesPerWeight * s.weight_numbers()), 1, std::min(kMost, parts.count()));
}

/// Of the call's node, which was found to suit when the kernel was made.
TiledConvolution shape_of(const Call& call) {
  std::string reason;
  return *graph::tiled_convolution(call.problem.schema, call.problem.view(), reason);
}

float* workspace_of(const Call& call) { return static_cast<float*>(call.context.workspace); }

/// X, W, B? -> Y
void run_forward(const Call& call) {
  const auto s = shape_of(call);
  const float* bias = call.has_input(2) ? call.in<float>(2) : nullptr;
  convolve(s, call.threads(), {call.in<float>(0), call.in<float>(1), bias, call.out<float>(), false}, workspace_of(call));
}

/// dY, W -> dX
void run_image_gradient(const Call& call) {
  const auto s = shape_of(call);
  convolve(s, call.threads(), {call.in<float>(0), call.in<float>(1), nullptr, call.out<float>(), true}, workspace_of(call));
}

/// X, dY -> dW
void run_weight_gradient(const Call& call) {
  const auto s = shape_of(call);
  const auto *x = call.in<float>(0), *dy = call.in<float>(1);
  auto* workspace = workspace_of(call);
  const WinogradParts parts(s, kNumbersOfThread);
  const WinogradTeam team(sums_of(s, parts), call.threads());
  team.make_all([&](std::int64_t sum, std::int64_t member) {
    const WinogradRoom room(s, parts, workspace + team.things * s.weight_numbers() + member * parts.numbers());
    const WinogradTiles tiles(s, team.threads);
    const std::int64_t first = sum * parts.count() / team.things;
    for (std::int64_t i = first; i < (sum + 1) * parts.count() / team.things; ++i) {
      const WinogradPart part = parts.part(i);
      tiles.take_image(part, x, room.of_image(part));
      tiles.take_gradient(part, dy, room.of_result(part));
      multiply_gradient(s, team.threads, room.of_image(part), room.of_result(part), {workspace + sum * s.weight_numbers(), i > first});
    }
  });
  put_winograd_weights(s, call.threads(), {workspace, team.things}, call.out<float>());
}

std::int64_t workspace_numbers(const TiledConvolution& s, bool of_weights, int threads) {
  const WinogradParts parts(s, kNumbersOfThread);
  const std::int64_t sums = sums_of(s, parts);
  return (of_weights ? sums : 1) * s.weight_numbers() + WinogradTeam(of_weights ? sums : parts.count(), threads).members * parts.numbers();
}

template <KernelBody kBody>
std::unique_ptr<Kernel> make_winograd(const KernelRequest& request, std::string& reason) {
  if (!takes_f32(request, reason)) return nullptr;
  if (loops().multiply_add_bytes < kVectorOfTiles) {
    reason = "Winograd's tiles need AVX2";
    return nullptr;
  }
  const auto s = graph::tiled_convolution(request.schema, request.view(), reason);
  if (!s) return nullptr;
  const std::int64_t numbers = workspace_numbers(*s, kBody == run_weight_gradient, request.threads);
  return make_kernel(request, kBody, numbers * static_cast<std::int64_t>(sizeof(float)));
}

bool prefers_winograd(const plan::LocalNode& node, std::string& reason) {
  return graph::is_quicker_by_tiles(node.schema, node.view(), reason);
}

constexpr KernelRow kWinogradRows[] = {
    {"Conv", "native:winograd", make_winograd<run_forward>, images_of_convolution, prefers_winograd},
    {"ConvGradInput", "native:winograd", make_winograd<run_image_gradient>, images_of_convolution, prefers_winograd},
    {"ConvGradWeight", "native:winograd", make_winograd<run_weight_gradient>, images_of_convolution, prefers_winograd},
};

}  // namespace

std::span<const KernelRow> winograd_kernels() { return kWinogradRows; }

}  // namespace rehearsal::exec::native
