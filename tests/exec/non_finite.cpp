// Numbers that are none: how many there are, and which instruction they come from.
#include "exec/host/non_finite.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// A tensor of f32 and what a kernel sees of it.
struct Block {
  std::vector<float> values;
  graph::TensorType type{DType::F32, {static_cast<std::int64_t>(values.size())}};
  explicit Block(std::vector<float> v) : values(std::move(v)) {}
  [[nodiscard]] TensorView view() { return {values.data(), &type, plan::Format::Plain, nullptr, nullptr}; }
};

/// Plays results one after the other, named by their number; returns the tensor that is found.
class Played {
 public:
  void make(std::vector<float> from, std::vector<float> to) {
    Block input(std::move(from)), output(std::move(to));
    const std::vector<TensorView> inputs{input.view()}, outputs{output.view()};
    ++number_;
    watch_.look({inputs, outputs}, [&](std::size_t, std::int64_t element) {
      BadTensor bad;
      bad.tensor = std::to_string(number_) + "[" + std::to_string(element) + "]";
      return bad;
    });
  }
  [[nodiscard]] std::string tensor() const { return watch_.find() ? watch_.find()->tensor : "none"; }
  [[nodiscard]] std::string what() const { return watch_.find() ? watch_.find()->what : ""; }

 private:
  NonFiniteWatch watch_;
  int number_ = 0;
};

}  // namespace

TEST_CASE("numbers that are none are counted in every type") {
  const std::vector<double> f64{1, -INFINITY, NAN, INFINITY, NAN};
  const auto wide = count_non_finite(DType::F64, f64.data(), 5);
  CHECK(wide.nan == 2);
  CHECK(wide.infinite == 1);
  CHECK(wide.minus_infinite == 1);
  const std::vector<std::uint16_t> f16{0x3C00, 0x7C00, 0xFC00, 0x7E00}, bf16{0x3F80, 0x7F80, 0xFF80, 0x7FC0};  // 1, inf, -inf, NaN
  for (const auto& [dtype, bits] : {std::pair{DType::F16, f16}, std::pair{DType::BF16, bf16}}) {
    const auto narrow = count_non_finite(dtype, bits.data(), 4);
    CHECK(narrow.nan == 1);
    CHECK(narrow.infinite == 1);
    CHECK(narrow.minus_infinite == 1);
  }
  const std::vector<std::int64_t> whole{-1, 0x7FF8000000000000};
  CHECK(!count_non_finite(DType::I64, whole.data(), 2).any());
  CHECK(!count_non_finite(DType::F32, f64.data(), 0).any());
}

TEST_CASE("what makes them of ordinary numbers is where they come from") {
  Played played;
  played.make({1, 2}, {3, 4});
  CHECK(played.tensor() == "none");
  played.make({1e30F, 1e30F}, {5, kInf});
  played.make({5, kInf}, {kNan, kNan});
  CHECK(played.tensor() == "2[1]");
  CHECK(played.what() == "1 of 2 elements are infinite");
}

TEST_CASE("what only passes them on is not") {
  Played played;
  played.make({kNan, 1}, {kNan, 1});
  CHECK(played.tensor() == "none");
  played.make({0, 0}, {kNan, kNan});
  CHECK(played.tensor() == "2[0]");
  CHECK(played.what() == "2 of 2 elements are NaN");
}

TEST_CASE("a mask of minus infinity is named when there is nothing else") {
  Played played;
  played.make({1, 2}, {1, -kInf});  // what may not be seen
  CHECK(played.tensor() == "1[1]");
  played.make({1, -kInf}, {1, 0});  // softmax
  played.make({-kInf, -kInf}, {kNan, kNan});
  CHECK(played.tensor() == "3[0]");
}
