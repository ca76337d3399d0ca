#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {
namespace {

using Values = std::vector<double>;

Values of(const std::string& op, Values x, graph::Attributes attributes = {}) {
  const auto count = static_cast<std::int64_t>(x.size());
  return result_of({op, std::move(attributes), {Array{{count}, std::move(x)}}}).values;
}

Values of_two(const std::string& op, const Values& a, const Values& b, DType type = DType::F64) {
  const auto count = [](const Values& v) { return static_cast<std::int64_t>(v.size()); };
  return run({op, {}, {Array{{count(a)}, a}, Array{{count(b)}, b}}}, type)[0].values;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("functions of one operand have their textbook values") {
  CHECK(of("Relu", {-1, 0, 2}) == Values{0, 0, 2});
  CHECK(close(of("Sigmoid", {0, std::log(3.0)}), {0.5, 0.75}));                                 // 1 / (1 + 1/3)
  CHECK(close(of("Softplus", {0, 1000}), {std::log(2.0), 1000}));                               // no overflow
  CHECK(close(of("Gelu", {0, 1, -1}), {0, 0.8413447460685429, -0.15865525393145707}));          // the normal distribution function of 1
  CHECK(close(of("Gelu", {1}, {{"approximate", std::string("tanh")}}), {0.8411919906082768}));  // torch 2: gelu(1, approximate='tanh')
  CHECK(of("LeakyRelu", {-2, 2}, {{"alpha", 0.25}}) == Values{-0.5, 2});
  CHECK(close(of("Elu", {-1, 2}, {{"alpha", 2.0}}), {2 * (std::exp(-1.0) - 1), 2}));
  CHECK(close(of("Celu", {-1, 2}, {{"alpha", 2.0}}), {2 * (std::exp(-0.5) - 1), 2}));
  CHECK(of("HardSwish", {-4, 0, 3, 6}) == Values{0, 0, 3, 6});
  CHECK(close(of("HardSigmoid", {-4, 0, 1, 6}), {0, 0.5, 0.7, 1}));  // x / 5 + 1/2
  CHECK(of("Round", {0.5, 1.5, 2.5, -0.5}) == Values{0, 2, 2, 0});   // halves to even
  CHECK(of("Clip", {-2, 0, 5}, {{"min", -1.0}, {"max", 3.0}}) == Values{-1, 0, 3});
  CHECK(of("Scale", {3}, {{"factor", -0.5}}) == Values{-1.5});
  CHECK(of("Sign", {-2, 0, 5}) == Values{-1, 0, 1});
}

TEST_CASE("NaN passes through Relu, Max and Min, and is found") {
  CHECK(std::isnan(run({"Relu", {}, {Array{{1}, {kNaN}}}})[0].values[0]));
  CHECK(std::isnan(of_two("Max", {kNaN}, {1})[0]));
  CHECK(std::isnan(of_two("Max", {1}, {kNaN})[0]));
  CHECK(std::isnan(of_two("Min", {1}, {kNaN})[0]));
  CHECK(run({"IsNaN", {}, {Array{{3}, {kNaN, 1, kInfinity}}}})[0].values == Values{1, 0, 0});
  CHECK(run({"IsInf", {}, {Array{{3}, {kNaN, 1, -kInfinity}}}})[0].values == Values{0, 0, 1});
}

TEST_CASE("shapes broadcast from the right") {
  // [2,1] + [3] = [2,3]
  const Array sum = result_of({"Add", {}, {Array{{2, 1}, {10, 20}}, Array{{3}, {1, 2, 3}}}});
  CHECK(sum.shape == graph::Shape{2, 3});
  CHECK(sum.values == Values{11, 12, 13, 21, 22, 23});
  // a row of 1 within larger dimensions: [2,1,2] - [3,1] = [2,3,2]
  const Array difference = result_of({"Sub", {}, {Array{{2, 1, 2}, {1, 2, 3, 4}}, Array{{3, 1}, {0, 1, 2}}}});
  CHECK(difference.values == Values{1, 2, 0, 1, -1, 0, 3, 4, 2, 3, 1, 2});
  CHECK(result_of({"Mul", {}, {Array{{}, {3}}, Array{{2}, {1, 2}}}}).values == Values{3, 6});
  CHECK(result_of({"Add", {}, {Array{{2, 0}, {}}, Array{{1}, {1}}}}).values.empty());
}

TEST_CASE("large tensors are computed completely by several threads' parts") {
  const std::int64_t n = 70001;  // more than two parts, not divisible
  const Array x = Array::range({n}, 0, 1);
  const Array y = run({"Add", {}, {x, x}})[0];
  CHECK(y.values.front() == 0);
  CHECK(y.values.back() == 2.0 * static_cast<double>(n - 1));
}

TEST_CASE("integers divide towards zero and never trap") {
  CHECK(of_two("Div", {7, -7, 7, -7, 5}, {2, 2, -2, -2, 0}, DType::I64) == Values{3, -3, -3, 3, 0});
  CHECK(of_two("Mod", {7, -7, 7, -7, 5}, {3, 3, -3, -3, 0}, DType::I64) == Values{1, 2, -2, -1, 0});  // the sign of the divisor
  CHECK(run({"Mod", {{"fmod", std::int64_t{1}}}, {Array{{2}, {-7, 7}}, Array{{}, {3}}}}, DType::I64)[0].values == Values{-1, 1});
  CHECK(of_two("Pow", {2, -3}, {10, 3}, DType::I64) == Values{1024, -27});
}

TEST_CASE("comparisons and connectives give truth values") {
  CHECK(of_two("Less", {1, 2, 3}, {2, 2, 2}) == Values{1, 0, 0});
  CHECK(of_two("GreaterOrEqual", {1, 2, 3}, {2, 2, 2}, DType::I64) == Values{0, 1, 1});
  CHECK(of_two("Equal", {0, 1}, {1, 1}, DType::Bool) == Values{0, 1});
  CHECK(of_two("Xor", {0, 1, 1}, {1, 1, 0}, DType::Bool) == Values{1, 0, 1});
  CHECK(run({"Not", {}, {Array{{2}, {0, 1}}}}, DType::Bool)[0].values == Values{1, 0});
  CHECK(run({"Where", {}, {Array{{2}, {1, 0}, DType::Bool}, Array{{2}, {1, 2}}, Array{{}, {9}}}})[0].values == Values{1, 9});
}

TEST_CASE("ties of Max share their gradient") {
  // a > b, a = b, a < b with dy = 8
  const Array dy{{3}, {8, 8, 8}}, a{{3}, {2, 1, 0}}, b{{3}, {1, 1, 1}};
  CHECK(result_of({"MaxGrad", {}, {dy, a, b}}).values == Values{8, 4, 0});
  CHECK(result_of({"MinGrad", {}, {dy, a, b}}).values == Values{0, 4, 8});
}

TEST_CASE("casts truncate, saturate and test for zero") {
  const auto cast = [](Values x, const std::string& to) {
    const auto count = static_cast<std::int64_t>(x.size());
    return run({"Cast", {{"to", to}}, {Array{{count}, std::move(x)}}})[0].values;
  };
  CHECK(cast({1.9, -1.9, 1e300, kNaN}, "i32") == Values{1, -1, 2147483647, 0});
  CHECK(cast({0, -0.5, 2}, "bool") == Values{0, 1, 1});
  CHECK(cast({0.1}, "f32") == Values{static_cast<double>(0.1F)});
  CHECK_THROWS_AS(cast({1}, "complex"), BadInput);
}

}  // namespace rehearsal::exec
