// The gradient noise scale of a problem where it is known: linear regression on normal inputs.
#include "exec/noise_scale.hpp"

#include <cmath>
#include <random>

#include "tests/catch.hpp"

using namespace rehearsal::exec;

namespace {

/// y = x w* + noise, x of d independent normal numbers, at w = w* + delta. The gradient of (x w - y)^2 / 2 for one sample is
/// (x delta - noise) x: its mean is delta, and E |(x delta) x|^2 = (d + 2) |delta|^2 (Isserlis), so that the variance of its elements is
/// (d + 1) |delta|^2 + d sigma^2 in all.
struct Regression {
  std::vector<double> delta;
  double sigma = 1;
  std::mt19937_64 random{1};

  [[nodiscard]] double square() const {
    double sum = 0;
    for (const double d : delta) sum += d * d;
    return sum;
  }
  [[nodiscard]] double variance() const {
    const auto d = static_cast<double>(delta.size());
    return (d + 1) * square() + d * sigma * sigma;
  }

  std::vector<double> gradient() {
    std::normal_distribution<double> normal;
    std::vector<double> x(delta.size());
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = normal(random), error += x[i] * delta[i];
    error -= sigma * normal(random);
    for (double& value : x) value *= error;
    return x;
  }

  /// A step: `samples` of every part, gradients of the mean loss over all.
  GradientSquares step(const std::vector<int>& samples) {
    int batch = 0;
    for (const int n : samples) batch += n;
    GradientSquares squares;
    std::vector<double> whole(delta.size());
    for (const int n : samples) {
      std::vector<double> part(delta.size());
      for (int s = 0; s < n; ++s) {
        const auto g = gradient();
        for (std::size_t i = 0; i < g.size(); ++i) part[i] += g[i] / batch;
      }
      for (std::size_t i = 0; i < part.size(); ++i) squares.parts += part[i] * part[i], whole[i] += part[i];
    }
    for (const double w : whole) squares.whole += w * w;
    return squares;
  }
};

PartsOfBatch parts_with(const std::vector<int>& samples) {
  PartsOfBatch parts{0, 0, static_cast<std::int64_t>(samples.size())};
  for (const int n : samples) parts.batch += n;
  for (const int n : samples) parts.square_share += n * n / (parts.batch * parts.batch);
  return parts;
}

}  // namespace

TEST_CASE("two equal parts give McCandlish's estimates") {
  // Parts of 2 of 4 samples with mean gradients (3) and (1): g = (1.5), (0.5), G = (2). |G_small|^2 = 5, |G_big|^2 = 4:
  // (4 * 4 - 2 * 5) / (4 - 2) = 3 and (5 - 4) / (1/2 - 1/4) = 4
  const auto noise = noise_of({4, 0.5, 2}, {1.5 * 1.5 + 0.5 * 0.5, 4});
  CHECK(noise.square == Approx(3).epsilon(1e-14));
  CHECK(noise.variance == Approx(4).epsilon(1e-14));
}

TEST_CASE("estimates are unbiased, whatever the parts") {
  const std::vector<int> samples =
      GENERATE(std::vector<int>{2, 2}, std::vector<int>{1, 1, 1, 1, 1, 1}, std::vector<int>{3, 1, 2}, std::vector<int>{5, 1});
  Regression regression{{0.5, -1, 0.25}, 0.8};
  const auto parts = parts_with(samples);
  constexpr int kSteps = 20000;
  double square = 0, variance = 0, square_square = 0, variance_square = 0;
  for (int s = 0; s < kSteps; ++s) {
    const auto noise = noise_of(parts, regression.step(samples));
    square += noise.square / kSteps;
    variance += noise.variance / kSteps;
    square_square += noise.square * noise.square / kSteps;
    variance_square += noise.variance * noise.variance / kSteps;
  }
  // Four deviations of the mean.
  CHECK(std::abs(square - regression.square()) < 4 * std::sqrt((square_square - square * square) / kSteps));
  CHECK(std::abs(variance - regression.variance()) < 4 * std::sqrt((variance_square - variance * variance) / kSteps));
  CHECK(std::abs(variance - regression.variance()) < 0.03 * regression.variance());
}

TEST_CASE("the norms of single samples' gradients are seen where every part has one sample") {
  // Gradients 3, -1 and 4 of three samples: of the mean loss each is a third of that. Root of (9 + 1 + 16) / 3.
  NoiseScale noise({3, 1.0 / 3, 3});
  (void)noise.add({(9.0 + 1 + 16) / 9, (3.0 - 1 + 4) * (3.0 - 1 + 4) / 9});
  const auto result = noise.result();
  REQUIRE(result.sample_norm());
  CHECK(*result.sample_norm() == Approx(std::sqrt(26.0 / 3)).epsilon(1e-14));
  NoiseScale silent({3, 1.0 / 3, 3});
  (void)silent.add({0, 0});
  CHECK(!silent.result().sample_norm());
}

TEST_CASE("of single samples' norms the mean and both ends stay, and who has the largest") {
  SampleNorms norms;
  norms.add(4, {{3, "row 7"}, {1, "row 2"}});
  norms.add(5, {{2, "row 9"}, {5, "row 1"}});
  norms.add(6, {{5, "row 3"}});
  CHECK(norms.count == 5);
  CHECK(norms.mean() == Approx(16.0 / 5).epsilon(1e-14));
  CHECK(norms.least == 1);
  CHECK(norms.largest.norm == 5);
  CHECK(norms.largest.sample == "row 1");  // the first of those
  CHECK(norms.largest_in == 5);
  CHECK(NoiseScale({4, 0.25, 4}).sees_samples());
  CHECK(!NoiseScale({4, 0.5, 2}).sees_samples());
}

TEST_CASE("nine of ten intervals hold the noise scale") {
  // variance / square = ((d + 1) |delta|^2 + d sigma^2) / |delta|^2
  const std::vector<int> samples{8, 8, 8, 8};
  int held = 0;
  constexpr int kTrainings = 300;
  for (int training = 0; training < kTrainings; ++training) {
    Regression regression{{0.6, -0.8}, 1, std::mt19937_64(static_cast<std::uint64_t>(training))};
    NoiseScale noise(parts_with(samples));
    for (int s = 0; s < 200; ++s) (void)noise.add(regression.step(samples));
    const auto result = noise.result();
    REQUIRE(result.scale);
    const double truth = regression.variance() / regression.square();  // 3 + 2 = 5
    CHECK(truth == Approx(5).epsilon(1e-12));
    held += *result.low <= truth && truth <= *result.high;
  }
  CHECK(held > 0.85 * kTrainings);
  CHECK(held < 0.95 * kTrainings);
}

TEST_CASE("a gradient that drowns in its noise has no scale") {
  NoiseScale noise({8, 0.5, 2});
  // |g|^2 of the parts is what independent noise leaves of the whole: the square comes out as 0 or below.
  for (int s = 0; s < 6; ++s) CHECK(!noise.add({1.1, 1}).scale);
  const auto result = noise.result();
  CHECK(result.steps == 6);
  CHECK(result.square < 0);
  CHECK(!result.scale);
  CHECK(!result.low);
  NoiseScale few({8, 0.5, 2});
  (void)few.add({0.6, 1});
  CHECK(few.result().scale);
  CHECK(!few.result().low);
}
