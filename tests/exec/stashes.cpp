// The forms in which results wait for the backward pass.
#include "exec/host/stashes.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

template <class T>
std::vector<T> there_and_back(const std::vector<T>& values, DType own, DType stashed, std::int64_t stash_elements) {
  const auto count = static_cast<std::int64_t>(values.size());
  const graph::TensorType whole{own, {count}}, stash{stashed, {stash_elements}};
  std::vector<std::byte> waiting(static_cast<std::size_t>(graph::size_of(stash).value()));
  std::vector<T> back(values.size(), T(7));
  CHECK(copy_stash({whole, stash}, values.data(), waiting.data()) == 0);
  CHECK(copy_stash({stash, whole}, waiting.data(), back.data()) == 0);
  return back;
}

}  // namespace

TEST_CASE("signs come back as ones and zeros") {
  // 11 elements in 2 bytes: the last byte has 3.
  const std::vector<float> values{1.5F, 0, 3, 0, 0, 1e-30F, 0, 2, 0, 4, 0};
  CHECK(there_and_back(values, DType::F32, DType::U8, 2) == std::vector<float>{1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0});
  const std::vector<double> wide{0, 1e-300, -0.0};
  CHECK(there_and_back(wide, DType::F64, DType::U8, 1) == std::vector<double>{0, 1, 0});
  // 2, 0, -0 and the least subnormal of f16; 1 is 0x3C00.
  const std::vector<std::uint16_t> narrow{0x4000, 0, 0x8000, 1};
  CHECK(there_and_back(narrow, DType::F16, DType::U8, 1) == std::vector<std::uint16_t>{0x3C00, 0, 0, 0x3C00});
}

TEST_CASE("rounded results come back as the nearest number of 16 bits") {
  // bf16 keeps 8 bits: between 1 and 2 the numbers lie 2^-7 apart.
  const std::vector<float> values{1, 1 + 1.0F / 128, 1 + 1.0F / 1024, -3.5F};
  CHECK(there_and_back(values, DType::F32, DType::BF16, 4) == std::vector<float>{1, 1 + 1.0F / 128, 1, -3.5F});
  const std::vector<double> wide{1, 1 + 1.0 / 1024, 65504, 1 + 1.0 / 8192};  // f16: 2^-10 apart, 65504 is the largest
  CHECK(there_and_back(wide, DType::F64, DType::F16, 4) == std::vector<double>{1, 1 + 1.0 / 1024, 65504, 1});
}

TEST_CASE("a stash of the same type is a copy") {
  const std::vector<double> values{1.1, -2.2, std::numeric_limits<double>::infinity()};
  CHECK(there_and_back(values, DType::F64, DType::F64, 3) == values);
}

TEST_CASE("sparse results come back bit for bit, and one that is too dense is counted") {
  // 11 elements, 5 of them other than zero: 2 bytes of bits, up to the next multiple of 4, and 5 numbers of 4 bytes.
  const std::vector<float> values{1.5F, 0, -3, 0, 0, 1e-44F, 0, std::numeric_limits<float>::infinity(), 0, 4, 0};
  CHECK(there_and_back(values, DType::F32, DType::U8, 4 + 5 * 4) == values);
  CHECK(there_and_back(values, DType::F32, DType::U8, 4 + 11 * 4) == values);
  const std::vector<float> minus{0, -0.0F, 0};  // -0 is not all zeros: it takes a place, and keeps its sign
  CHECK(std::signbit(there_and_back(minus, DType::F32, DType::U8, 4 + 4)[1]));
  const std::vector<double> wide{0, 1e-300, 0, 2, 0, 0, 0, 0, 3};  // 2 bytes of bits take 8
  CHECK(there_and_back(wide, DType::F64, DType::U8, 8 + 3 * 8) == wide);
  const std::vector<std::uint16_t> narrow{0x4000, 0, 0x8000, 1};
  CHECK(there_and_back(narrow, DType::BF16, DType::U8, 2 + 3 * 2) == narrow);
  std::vector<std::byte> waiting(4 + 4 * 4 + 4, std::byte{0x55});
  const graph::TensorType whole{DType::F32, {11}}, stash{DType::U8, {4 + 4 * 4}};
  CHECK(copy_stash({whole, stash}, values.data(), waiting.data()) == 5);
  CHECK(waiting.back() == std::byte{0x55});  // nothing behind the stash was touched
}
