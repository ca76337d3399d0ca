#include <algorithm>
#include <cmath>

#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Values = std::vector<double>;

namespace {

Values dropped(const Array& x, double ratio, RunContext context, std::int64_t stream = 1, const char* op = "Dropout") {
  return run({op, {{"ratio", ratio}, {"stream", stream}}, {x}, context})[0].values;
}

std::vector<bool> kept(const Values& values) {
  std::vector<bool> result;
  for (const double v : values) result.push_back(v != 0);
  return result;
}

const Array kOnes = Array::range({50, 200}, 1, 0);

}  // namespace

TEST_CASE("dropout keeps the stated share and grows it") {
  const Values y = dropped(kOnes, 0.2, {});
  CHECK(std::all_of(y.begin(), y.end(), [](double v) { return v == 0 || v == 1.25; }));  // 1 / (1 - 0.2)
  // 10,000 draws: standard deviation sqrt(10000 * 0.2 * 0.8) = 40; five of them
  CHECK(std::abs(std::count(y.begin(), y.end(), 0.0) - 2000) < 200);
  CHECK(dropped(kOnes, 0, {}) == kOnes.values);
  CHECK(dropped(kOnes, 1, {}) == Values(10000, 0.0));
}

TEST_CASE("the mask depends on seed, step and stream, and is the same in both directions") {
  const auto mask = kept(dropped(kOnes, 0.5, {1, 2, nullptr}));
  CHECK(kept(dropped(kOnes, 0.5, {1, 2, nullptr}, 1, "DropoutGrad")) == mask);
  CHECK(kept(dropped(kOnes, 0.5, {9, 2, nullptr})) != mask);
  CHECK(kept(dropped(kOnes, 0.5, {1, 3, nullptr})) != mask);
  CHECK(kept(dropped(kOnes, 0.5, {1, 2, nullptr}, 2)) != mask);
}

TEST_CASE("a block of the tensor gets its part of the mask") {
  const Array whole = Array::range({4, 5, 6}, 1);
  const Values y = dropped(whole, 0.5, {});
  Array block{{2, 3, 4}, {}};
  Values expected;
  for (std::int64_t i = 1; i < 3; ++i) {
    for (std::int64_t j = 2; j < 5; ++j) {
      for (std::int64_t k = 1; k < 5; ++k) {
        const auto at = static_cast<std::size_t>((i * 5 + j) * 6 + k);
        block.values.push_back(whole.values[at]);
        expected.push_back(y[at]);
      }
    }
  }
  const Block place{{1, 2, 1}, {4, 5, 6}};
  CHECK(run({"Dropout", {{"ratio", 0.5}, {"stream", std::int64_t{1}}}, {block}, {}, {place}, {place}})[0].values == expected);
}
