#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/data/pictures/picture.hpp"

namespace rehearsal::exec {
namespace {

/// Which pixels along one dimension make those of the target, and how much each counts.
struct SourceWeights {
  struct Of {
    int first = 0, count = 0;
    std::size_t at = 0;  ///< in `values`
  };
  std::vector<Of> pixels;
  std::vector<float> values;
};

/// `begin` and `extent` of the window among `pixels`.
SourceWeights weights_of(double begin, double extent, int target, int pixels) {
  const double step = extent / target, radius = std::max(step, 1.0);
  const int least = std::clamp(static_cast<int>(std::floor(begin + 1e-6)), 0, pixels - 1);
  const int end = std::clamp(static_cast<int>(std::ceil(begin + extent - 1e-6)), least + 1, pixels);
  SourceWeights w;
  for (int n = 0; n < target; ++n) {
    const double middle = begin + (n + 0.5) * step;
    const int first = std::clamp(static_cast<int>(std::floor(middle - radius)), least, end - 1);
    const int last = std::clamp(static_cast<int>(std::ceil(middle + radius)), first + 1, end);
    SourceWeights::Of of{first, 0, w.values.size()};
    double sum = 0;
    for (int p = first; p < last; ++p) {
      const double weight = std::max(0.0, 1 - std::abs(p + 0.5 - middle) / radius);
      if (weight < 1e-9 && of.count == 0 && p + 1 < last) {
        ++of.first;
        continue;
      }
      w.values.push_back(static_cast<float>(weight));
      sum += weight;
      ++of.count;
    }
    for (auto i = of.at; i < w.values.size(); ++i) w.values[i] = sum > 0 ? static_cast<float>(w.values[i] / sum) : 1.0F;
    while (of.count > 1 && w.values.back() == 0.0F) w.values.pop_back(), --of.count;
    w.pixels.push_back(of);
  }
  return w;
}

/// The values of a row that columns are made of.
struct SourceExtent {
  std::size_t begin = 0, end = 0;
};

SourceExtent extent_of(const SourceWeights& columns, int channels) {
  int begin = columns.pixels.front().first, end = 0;
  for (const auto& of : columns.pixels) begin = std::min(begin, of.first), end = std::max(end, of.first + of.count);
  return {static_cast<std::size_t>(begin * channels), static_cast<std::size_t>(end * channels)};
}

/// One row of the target's height.
void mix_rows(const Picture& picture, const SourceWeights::Of& of, const float* weights, const SourceExtent& extent, float* mixed) {
  const auto stride = static_cast<std::size_t>(picture.size.width) * static_cast<std::size_t>(picture.channels);
  std::fill(mixed + extent.begin, mixed + extent.end, 0.0F);
  for (int n = 0; n < of.count; ++n) {
    const float weight = weights[n];
    const auto* from = picture.pixels.data() + static_cast<std::size_t>(of.first + n) * stride;
    for (auto i = extent.begin; i < extent.end; ++i) mixed[i] += weight * static_cast<float>(from[i]);
  }
}

/// Where a value of the target goes.
struct Strides {
  std::size_t channel = 1, pixel = 1;
};

template <int kChannels>
void mix_columns(const std::vector<float>& row, const SourceWeights& columns, const PictureTarget& target, float* to,
                 const Strides& strides) {
  for (std::size_t x = 0; x < columns.pixels.size(); ++x) {
    const auto& of = columns.pixels[x];
    const float* weights = columns.values.data() + of.at;
    const float* from = row.data() + static_cast<std::size_t>(of.first) * kChannels;
    float sums[kChannels] = {};
    for (int n = 0; n < of.count; ++n)
      for (int c = 0; c < kChannels; ++c) sums[c] += weights[n] * from[n * kChannels + c];
    for (std::size_t c = 0; c < kChannels; ++c) to[x * strides.pixel + c * strides.channel] = sums[c] * target.scale[c] + target.shift[c];
  }
}

}  // namespace

void resample(const Picture& picture, const PictureWindow& window, const PictureTarget& target) {
  const auto rows = weights_of(window.top, window.height, target.size.height, picture.size.height);
  auto columns = weights_of(window.left, window.width, target.size.width, picture.size.width);
  const auto extent = extent_of(columns, picture.channels);
  if (window.flipped) std::reverse(columns.pixels.begin(), columns.pixels.end());
  const auto width = static_cast<std::size_t>(target.size.width), height = static_cast<std::size_t>(target.size.height);
  const auto channels = static_cast<std::size_t>(picture.channels);
  const Strides strides = target.channels_last ? Strides{1, channels} : Strides{width * height, 1};
  std::vector<float> mixed(static_cast<std::size_t>(picture.size.width) * channels);
  for (std::size_t y = 0; y < height; ++y) {
    mix_rows(picture, rows.pixels[y], rows.values.data() + rows.pixels[y].at, extent, mixed.data());
    float* to = target.to + y * width * strides.pixel;
    picture.channels == 3 ? mix_columns<3>(mixed, columns, target, to, strides) : mix_columns<1>(mixed, columns, target, to, strides);
  }
}

void resample_nearest(const Picture& picture, const PictureWindow& window, PictureSize size, std::uint8_t* to) {
  const auto nearest = [](double begin, double extent, int n, int of, int pixels) {
    return std::clamp(static_cast<int>(std::floor(begin + (n + 0.5) * extent / of)), 0, pixels - 1);
  };
  for (int y = 0; y < size.height; ++y) {
    const auto row = static_cast<std::size_t>(nearest(window.top, window.height, y, size.height, picture.size.height));
    const auto* from = picture.pixels.data() + row * static_cast<std::size_t>(picture.size.width);
    for (int x = 0; x < size.width; ++x) {
      const int column = nearest(window.left, window.width, window.flipped ? size.width - 1 - x : x, size.width, picture.size.width);
      *to++ = from[column];
    }
  }
}

}  // namespace rehearsal::exec
