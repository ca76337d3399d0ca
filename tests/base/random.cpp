#include "base/random.hpp"

#include "base/hash.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("a random number depends on seed, stream and index only") {
  CHECK(random_bits(1, 2, 3) == random_bits(1, 2, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 2, 4));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 3, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(2, 2, 3));
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
