#include "exec/play/flush_denormals.hpp"

#include <omp.h>

#include <array>
#include <limits>

#include "tests/catch.hpp"

namespace rehearsal::exec {
namespace {

/// 1e-30 x 1e-10 = 1e-40 lies below the smallest normal f32, 1.18e-38.
float product_of_small_numbers() {
  const volatile float a = 1e-30F, b = 1e-10F;
  return a * b;
}

/// The same on every thread of a team of two.
std::array<float, 2> products_of_a_team() {
  std::array<float, 2> products{1, 1};
#pragma omp parallel num_threads(2)
  products[static_cast<std::size_t>(omp_get_thread_num())] = product_of_small_numbers();
  return products;
}

}  // namespace

TEST_CASE("results below the normal numbers are 0 while it lives, on every thread, and only then") {
  omp_set_num_threads(2);
  REQUIRE(product_of_small_numbers() > 0);
  {
    const FlushDenormals flush;
    const FlushDenormals inner;
    CHECK(products_of_a_team() == std::array<float, 2>{0, 0});
  }
  for (const float product : products_of_a_team()) CHECK(product > 0);
}

TEST_CASE("numbers that are normal are left alone, and so are operands") {
  const FlushDenormals flush;
  const volatile float least = std::numeric_limits<float>::min(), two = 2, denormal = std::numeric_limits<float>::denorm_min();
  CHECK(least * two == 2 * std::numeric_limits<float>::min());
  const volatile float factor = 0x1p100F;  // the smallest f32 is 2^-149
  CHECK(denormal * factor == 0x1p-49F);
}

}  // namespace rehearsal::exec
