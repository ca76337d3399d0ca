// Every instruction set that this machine has: numbers of 16 bits, and that it computes what the plainest does.

#include "exec/kernels/native/levels.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "exec/kernels/native/bf16_dots.hpp"
#include "tests/catch.hpp"

using namespace rehearsal::exec::native;

namespace {

/// All numbers of 16 bits.
template <class T>
std::vector<T> all_numbers() {
  std::vector<T> x(std::size_t{1} << 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
  return x;
}

template <class T>
std::vector<float> widened(const LoopsOver<T>& l, const std::vector<T>& x) {
  std::vector<float> y(x.size());
  l.to_f32(y.data(), x.data(), static_cast<std::int64_t>(x.size()));
  return y;
}

template <class T>
std::vector<std::uint16_t> rounded(const LoopsOver<T>& l, const std::vector<float>& x) {
  std::vector<T> y(x.size());
  l.from_f32(y.data(), x.data(), static_cast<std::int64_t>(x.size()));
  std::vector<std::uint16_t> bits;
  for (const T& number : y) bits.push_back(number.bits);
  return bits;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("every number of 16 bits comes back from f32 as it was, on every instruction set") {
  for (const Loops* l : levels_here()) {
    const auto brain = all_numbers<Bf16>();
    const auto half = all_numbers<F16>();
    const auto from_brain = widened(l->bf16, brain), from_half = widened(l->f16, half);
    const auto back = rounded(l->bf16, from_brain);
    const auto half_back = rounded(l->f16, from_half);
    for (std::size_t i = 0; i < brain.size(); ++i) {
      if (!std::isnan(from_brain[i])) REQUIRE(back[i] == i);
      if (!std::isnan(from_half[i])) REQUIRE(half_back[i] == i);
      // not a number stays so
      if (std::isnan(from_brain[i])) REQUIRE((back[i] & 0x7FFFU) > 0x7F80U);
      if (std::isnan(from_half[i])) REQUIRE((half_back[i] & 0x7FFFU) > 0x7C00U);
    }
    CHECK(from_brain[0x3FC0] == 1.5F);     // exponent 127, first bit of the fraction: 1.5
    CHECK(from_half[0x3E00] == 1.5F);      // exponent 15, first bit of the fraction: 1.5
    CHECK(from_half[0x0001] == 0x1p-24F);  // the smallest subnormal number
    CHECK(from_half[0xFC00] == -INFINITY);
  }
}

TEST_CASE("f32 is rounded to the nearest number of 16 bits, ties to even, on every instruction set") {
  // bf16 keeps 8 digits: next to 1 lies 1 + 2^-7, halfway 1 + 2^-8. f16 keeps 11; from 65520 on it is infinite.
  const std::vector<float> x{1 + 0x1p-8F, 1 + 0x1.8p-7F, 0x1.010002p0F, 65519.0F, 65520.0F, 0x1p-25F, 0x1.8p-25F, 1 + 0x1p-11F};
  const std::vector<std::uint16_t> brain{0x3F80, 0x3F82, 0x3F81}, half{0x7BFF, 0x7C00, 0x0000, 0x0001, 0x3C00};
  for (const Loops* l : levels_here()) {
    const auto b = rounded(l->bf16, x), h = rounded(l->f16, x);
    CHECK(std::equal(brain.begin(), brain.end(), b.begin()));
    CHECK(std::equal(half.begin(), half.end(), h.begin() + 3));
  }
}

TEST_CASE("every instruction set computes element-wise what the plainest one does") {
  std::vector<float> x(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 12.9898F);
  const auto levels = levels_here();
  const auto sums = [&](const Loops& l) {
    const auto bits = rounded(l.bf16, x);
    std::vector<Bf16> a(x.size()), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) a[i].bits = bits[i];
    const Bf16* operands[] = {a.data(), a.data()};
    const std::int64_t steps[] = {1, 1};
    for (int row = 0; row < l.bf16.elementwise_rows; ++row)
      if (l.bf16.elementwise[row].op == std::string("Add")) l.bf16.elementwise[row].loop({}, y.data(), operands, steps, 1000);
    return widened(l.bf16, y);
  };
  for (const Loops* l : levels) CHECK(same_bits(sums(*l), sums(*levels.back())));
}

TEST_CASE("transposes move every element of 2 and 4 bytes, on every instruction set") {
  for (const Loops* l : levels_here()) {
    for (const std::int64_t rows : {1, 31, 64, 97}) {
      for (const std::int64_t columns : {1, 16, 45}) {
        std::vector<std::uint16_t> from(static_cast<std::size_t>(rows * columns)), to(from.size());
        std::vector<std::uint32_t> wide_from(from.size()), wide_to(from.size());
        std::iota(from.begin(), from.end(), std::uint16_t{1});
        std::iota(wide_from.begin(), wide_from.end(), 1U);
        l->transpose16(from.data(), columns, to.data(), rows, rows, columns);
        l->transpose32(wide_from.data(), columns, wide_to.data(), rows, rows, columns);
        bool right = true;
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c) {
            const auto at = static_cast<std::size_t>(c * rows + r), own = static_cast<std::size_t>(r * columns + c);
            right = right && to[at] == from[own] && wide_to[at] == wide_from[own];
          }
        CHECK(right);
      }
    }
  }
}

TEST_CASE("dot products of bf16 add what they are told to, and a lower instruction set forbids them") {
  std::string reason;
  if (has_bf16_dots(reason)) {
    // One row (1, 2) by 16 columns (3 + j, 4): 3 + j + 2 * 4 = 11 + j, and with 1 that was there 12 + j. In bf16 1 is 0x3F80, 2 0x4000.
    const std::uint16_t a[] = {0x3F80, 0x4000};
    std::vector<std::uint32_t> b(16);
    std::vector<float> c(16, 1.0F);
    for (int j = 0; j < 16; ++j) {
      const Bf16 upper{0x4080};  // 4
      Bf16 lower{};
      const float number = static_cast<float>(3 + j);
      loops().bf16.from_f32(&lower, &number, 1);
      b[static_cast<std::size_t>(j)] = static_cast<std::uint32_t>(lower.bits) | static_cast<std::uint32_t>(upper.bits) << 16U;
    }
    dot_product({1, 16, 2, 2, 16, 16, true}, a, b.data(), c.data());
    for (int j = 0; j < 16; ++j) CHECK(c[static_cast<std::size_t>(j)] == static_cast<float>(12 + j));
  }
  const char* limit = std::getenv("REHEARSAL_MAX_ISA");
  const std::string before = limit == nullptr ? "" : limit;
  ::setenv("REHEARSAL_MAX_ISA", "avx512", 1);
  CHECK_FALSE(has_bf16_dots(reason));
  CHECK_THAT(reason, contains("AVX512_BF16"));
  ::setenv("REHEARSAL_MAX_ISA", "avx512bf16", 1);
  CHECK_THROWS_AS(allows(Level::Avx512Bf16), rehearsal::BadInput);
  before.empty() ? ::unsetenv("REHEARSAL_MAX_ISA") : ::setenv("REHEARSAL_MAX_ISA", before.c_str(), 1);
}
