#include "graph/value.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

template <class T>
Contents bytes_as(DType type, const std::vector<T>& raw) {
  auto data = std::make_shared<std::vector<std::byte>>(raw.size() * sizeof(T));
  std::memcpy(data->data(), raw.data(), data->size());
  return {type, InlineBytes{std::move(data)}};
}

/// A file of four floats 1, 2, 3, 4 that disappears at the end.
struct FloatFile {
  std::string path = (std::filesystem::temp_directory_path() / "rehearsal_value_test.bin").string();
  FloatFile() {
    const float values[] = {1, 2, 3, 4};
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values), sizeof values);
  }
  ~FloatFile() { std::filesystem::remove(path); }
};

TEST_CASE("a mask is known to be causal where it hides just the later elements of every row") {
  const auto flags = [](std::vector<std::int64_t> seen, Shape shape) {
    return Value::of_integers(std::move(seen), std::move(shape), DType::Bool);
  };
  CHECK(contents_of(flags({1, 0, 1, 1}, {2, 2})).is_causal_mask);
  CHECK(contents_of(flags({1, 0, 0, 1, 1, 0, 1, 1, 1}, {1, 1, 3, 3})).is_causal_mask);
  CHECK(!contents_of(flags({1, 1, 1, 1}, {2, 2})).is_causal_mask);
  CHECK(!contents_of(flags({1, 0, 0, 1}, {2, 2})).is_causal_mask);                 // hides an earlier one
  CHECK(!contents_of(flags({1, 0, 1, 1, 1, 0, 1, 1}, {2, 2, 2})).is_causal_mask);  // one of several masks
  CHECK(!contents_of(flags({1, 0, 0, 1, 1, 0}, {2, 3})).is_causal_mask);           // more keys than rows
  CHECK(!contents_of(Value::of_integers({1, 0, 1, 1}, {2, 2})).is_causal_mask);    // numbers that are no flags
  const double hides = -3.4e38;
  CHECK(contents_of(Value::of_reals({0, hides, 0, 0}, {1, 1, 2, 2})).is_causal_mask);
  CHECK(!contents_of(Value::of_reals({0, -10, 0, 0}, {2, 2})).is_causal_mask);  // what it adds still counts
  CHECK(!contents_of(Value::of_reals({1, hides, 0, 0}, {2, 2})).is_causal_mask);
}

}  // namespace

TEST_CASE("16-bit floats decode by their definition") {
  // half: 0x3C00 = 1; 0x0001 = 2^-24, the least subnormal; 0xFBFF = -65504; 0x7C00 = infinity
  CHECK(read_reals(bytes_as<std::uint16_t>(DType::F16, {0x3C00, 0x0001, 0xFBFF, 0x7C00}), {4}, 0, 0) ==
        std::vector<double>{1, 0x1p-24, -65504, std::numeric_limits<double>::infinity()});
  // brain: the upper half of a float; 0x3F80 = 1, 0xC040 = -3
  CHECK(read_reals(bytes_as<std::uint16_t>(DType::BF16, {0x3F80, 0xC040}), {2}, 0, 0) == std::vector<double>{1, -3});
  // E4M3: bias 7; 0x38 = 1, 0x7E = 448 the largest, 0x01 = 2^-9. E5M2: bias 15; 0x3C = 1, 0x7B = 57344 the largest
  CHECK(read_reals(bytes_as<std::uint8_t>(DType::F8E4M3, {0x38, 0x7E, 0x01}), {3}, 0, 0) == std::vector<double>{1, 448, 0x1p-9});
  CHECK(read_reals(bytes_as<std::uint8_t>(DType::F8E5M2, {0x3C, 0x7B}), {2}, 0, 0) == std::vector<double>{1, 57344});
  CHECK(std::isnan(read_reals(bytes_as<std::uint8_t>(DType::F8E4M3, {0x7F}), {1}, 0, 0)[0]));
}

TEST_CASE("16-bit floats are written rounded to nearest even, and overflow to infinity") {
  const auto half = [](double v) {
    std::uint16_t bits = 0;
    read_into({DType::F64, Fill{v}}, {1}, DType::F16, {}, &bits);
    return bits;
  };
  CHECK(half(1) == 0x3C00);
  CHECK(half(1 + 0x1p-11) == 0x3C00);      // halfway between 1 and 1 + 2^-10: the even one
  CHECK(half(1 + 3 * 0x1p-11) == 0x3C02);  // halfway between 1 + 2^-10 and 1 + 2^-9: the even one
  CHECK(half(2 - 0x1p-11) == 0x4000);      // rounding carries into the exponent
  CHECK(half(0x1p-24) == 0x0001);
  CHECK(half(-0.0) == 0x8000);
  CHECK(half(65519) == 0x7BFF);  // below the middle between 65504 and 65536
  CHECK(half(65520) == 0x7C00);
  CHECK(half(1e30) == 0x7C00);
}

TEST_CASE("large integers stay exact") {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK(read_integers(contents_of(Value::vector({large, -large})), {2}) == std::vector<std::int64_t>{large, -large});
  std::int64_t copy = 0;
  read_into(contents_of(Value::vector({large})), {1}, DType::I64, {}, &copy);
  CHECK(copy == large);
}

TEST_CASE("a file region is read where it lies, and refused where it does not") {
  const FloatFile file;
  CHECK(read_reals({DType::F32, FileRegion{file.path, 4, 8}}, {2}, 0, 0) == std::vector<double>{2, 3});
  CHECK_THROWS_WITH(read_reals({DType::F32, FileRegion{file.path, 12, 8}}, {2}, 0, 0),
                    contains(file.path) && contains("outside the file of 16 bytes"));
  CHECK_THROWS_AS(read_reals({DType::F32, FileRegion{file.path, std::numeric_limits<std::uint64_t>::max(), 8}}, {2}, 0, 0), BadInput);
  CHECK_THROWS_WITH(read_reals({DType::F32, FileRegion{file.path, 0, 8}}, {3}, 0, 0), contains("12 bytes") && contains("8 bytes"));
  CHECK_THROWS_WITH(read_reals({DType::F32, FileRegion{file.path + ".missing", 0, 8}}, {2}, 0, 0), contains(".missing"));
  // a shape that claims an exabyte is refused before memory is taken
  CHECK_THROWS_AS(read_reals({DType::F32, FileRegion{file.path, 0, 16}}, {std::int64_t{1} << 40, 1 << 20}, 0, 0), BadInput);
}

TEST_CASE("random contents depend on seed and stream alone") {
  const Contents normal{DType::F32, RandomNormal{1, 2}};
  const auto a = read_reals(normal, {1000}, 7, 3);
  CHECK(a == read_reals(normal, {1000}, 7, 3));
  CHECK(a != read_reals(normal, {1000}, 7, 4));
  CHECK(a != read_reals(normal, {1000}, 8, 3));
  double mean = 0;
  for (const double v : a) mean += v / 1000;
  CHECK(mean == Approx(1).margin(0.25));  // standard error 2 / sqrt(1000) = 0.063; four of them
}

TEST_CASE("parts of contents that are made are those of the whole") {
  for (const Contents& contents :
       {Contents{DType::F32, RandomNormal{0.5, 2}}, Contents{DType::F32, RandomUniform{-1, 3}}, Contents{DType::F32, Fill{7}}}) {
    CHECK(is_made(contents));
    std::vector<float> whole(10), parts(10);
    read_into(contents, {2, 5}, DType::F32, {3, 4}, whole.data());
    make_into(contents, {0, 4}, DType::F32, {3, 4}, parts.data());
    make_into(contents, {4, 6}, DType::F32, {3, 4}, parts.data() + 4);
    CHECK(parts == whole);
  }
  std::vector<std::int64_t> integers(2);
  make_into({DType::I64, Fill{7}}, {5, 2}, DType::I64, {}, integers.data());
  CHECK(integers == std::vector<std::int64_t>{7, 7});
  CHECK(!is_made(Contents{}));
}

TEST_CASE("bytes of another length than the shape are refused") {
  CHECK_THROWS_AS(read_reals(bytes_as<float>(DType::F32, {1, 2}), {3}, 0, 0), BadInput);
}
