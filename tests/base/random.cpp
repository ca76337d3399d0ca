#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/hash.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("a random number depends on seed, stream and index only") {
  CHECK(random_bits(1, 2, 3) == random_bits(1, 2, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 2, 4));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 3, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(2, 2, 3));
}

TEST_CASE("normal numbers are those of Box and Muller, and many at a time are the same bits as one alone") {
  constexpr std::uint64_t kFirst = 1000;
  std::vector<double> many(3001);
  fill_random_normal(7, 1, kFirst, many);
  double worst = 0;
  for (std::size_t i = 0; i < many.size(); ++i) {
    const auto index = kFirst + i;
    const double u = 1.0 - random_uniform(7, 1, 2 * index), v = random_uniform(7, 1, 2 * index + 1);
    worst = std::max(worst, std::fabs(many[i] - std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v)));
    CHECK(many[i] == random_normal(7, 1, index));
  }
  CHECK(worst < 1e-14);  // the argument of the cosine is rounded to 9e-16 before it is taken there, the root is at most 8.6
  // As every processor draws them, with and without vectors and fused multiplication.
  CHECK(random_normal(0, 0, 0) == -0x1.c14033d8878d5p-2);
  CHECK(random_normal(1, 2, 3) == -0x1.80063b68cac85p+0);
  CHECK(random_normal(7, 1, 123456789) == -0x1.572f995f5b441p-3);
}

TEST_CASE("uniform and normal numbers have their moments") {
  // Standard errors over n = 200000: uniform mean 0.29/sqrt(n) = 6e-4, normal mean 2.2e-3, normal variance 3.2e-3; limits are 5 of them.
  constexpr int n = 200000;
  double uniform = 0, normal = 0, square = 0;
  for (int i = 0; i < n; ++i) {
    uniform += random_uniform(7, 0, static_cast<std::uint64_t>(i));
    const double z = random_normal(7, 1, static_cast<std::uint64_t>(i));
    normal += z;
    square += z * z;
  }
  CHECK(uniform / n == Approx(0.5).margin(3.2e-3));
  CHECK(normal / n == Approx(0.0).margin(1.1e-2));
  CHECK(square / n == Approx(1.0).margin(1.6e-2));
}

TEST_CASE("hashes are the published FNV-1a values") {
  // FNV-1a 64 of the empty input and of "a" (tables of the FNV authors).
  CHECK(Hasher().text() == "cbf29ce484222325");
  CHECK(Hasher().add("a", 1).text() == "af63dc4c8601ec8c");
}
