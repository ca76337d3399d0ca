#include <cmath>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {
namespace {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<double>;

Array ids(Values values, graph::Shape shape, DType type = DType::I64) { return {std::move(shape), std::move(values), type}; }

}  // namespace

TEST_CASE("rows are picked, negative ones from the end, by indices of both widths") {
  const Array x = Array::range({3, 2});
  CHECK(result_of({"Gather", {}, {x, ids({2, 0, -1}, {3})}}).values == Values{4, 5, 0, 1, 4, 5});
  CHECK(result_of({"Gather", {{"axis", std::int64_t{1}}}, {x, ids({1}, {}, DType::I32)}}).values == Values{1, 3, 5});
  CHECK_THROWS_AS(run({"Gather", {}, {x, ids({3}, {1})}}), BadInput);
  CHECK_THROWS_AS(run({"Gather", {}, {x, ids({1}, {1}, DType::F64)}}), BadInput);
}

TEST_CASE("gradients of the same row add up") {
  const Array dy{{3, 2}, {1, 2, 10, 20, 100, 200}};
  CHECK(result_of({"GatherGrad", {{"shape", Integers{3, 2}}}, {dy, ids({2, 0, -1}, {3})}}).values == Values{10, 20, 0, 0, 101, 202});
}

TEST_CASE("one element for every index") {
  const Array x = Array::range({2, 3});
  CHECK(result_of({"GatherElements", {{"axis", std::int64_t{1}}}, {x, ids({2, 0, 1, 1}, {2, 2})}}).values == Values{2, 0, 4, 4});
  const Array dy{{2, 2}, {1, 2, 3, 4}};
  CHECK(result_of({"GatherElementsGrad", {{"axis", std::int64_t{1}}, {"shape", Integers{2, 3}}}, {dy, ids({2, 0, 1, 1}, {2, 2})}}).values ==
        Values{2, 0, 1, 0, 7, 0});
}

TEST_CASE("slices are read and written where addresses say") {
  const Array x = Array::range({2, 2, 2});
  CHECK(result_of({"GatherND", {}, {x, ids({1, 0, 0, -1}, {2, 2})}}).values == Values{4, 5, 2, 3});
  const Array updates{{2, 2}, {10, 20, 30, 40}};
  CHECK(result_of({"ScatterND", {}, {Array::range({3, 2}), ids({2, 0}, {2, 1}), updates}}).values == Values{30, 40, 2, 3, 10, 20});
  CHECK_THROWS_AS(run({"GatherND", {}, {x, ids({2}, {1})}}), BadInput);
}

TEST_CASE("updates are combined with what is there, duplicates one after another") {
  const Array x{{4}, {1, 2, 3, 4}}, updates{{3}, {5, 7, -1}};
  const Array at = ids({1, -3, 3}, {3});
  const auto with = [&](const char* reduction) {
    return result_of({"ScatterElements", {{"reduction", std::string(reduction)}}, {x, at, updates}}).values;
  };
  CHECK(with("none") == Values{1, 7, 3, -1});
  CHECK(with("add") == Values{1, 14, 3, 3});
  CHECK(with("mul") == Values{1, 70, 3, -4});
  CHECK(with("max") == Values{1, 7, 3, 4});
  CHECK(with("min") == Values{1, 2, 3, -1});
}

TEST_CASE("the largest come first, and of equal ones the earlier") {
  const Array x{{2, 4}, {3, 9, 9, 1, 0, -2, 5, 5}};
  const auto best = run({"TopK", {{"k", std::int64_t{3}}}, {x}});
  CHECK(best[0].values == Values{9, 9, 3, 5, 5, 0});
  CHECK(best[1].values == Values{1, 2, 0, 2, 3, 0});
  const auto least = run({"TopK", {{"k", std::int64_t{1}}, {"axis", std::int64_t{0}}, {"largest", std::int64_t{0}}}, {x}});
  CHECK(least[0].values == Values{0, -2, 5, 1});
  CHECK(least[1].values == Values{1, 1, 1, 0});
  CHECK_THROWS_AS(run({"TopK", {{"k", std::int64_t{5}}}, {x}}), BadInput);
}

TEST_CASE("softmax by hand, and far from overflow") {
  // exp(0), exp(ln 2), exp(ln 5) = 1, 2, 5 of 8
  const Array x{{3}, {0, std::log(2.0), std::log(5.0)}};
  CHECK(close(result_of({"Softmax", {}, {x}}).values, {0.125, 0.25, 0.625}));
  CHECK(close(result_of({"LogSoftmax", {}, {x}}).values, {-3 * std::log(2.0), -2 * std::log(2.0), std::log(0.625)}));
  CHECK(close(result_of({"Softmax", {}, {Array{{2}, {1e4, 1e4}}}}).values, {0.5, 0.5}));
  CHECK(close(result_of({"Softmax", {}, {Array{{2}, {-1e30, 0}}}}).values, {0, 1}));
  // along the first axis of [2,2]: columns (0, ln 3) and (0, 0)
  CHECK(
      close(result_of({"Softmax", {{"axis", std::int64_t{0}}}, {Array{{2, 2}, {0, 0, std::log(3.0), 0}}}}).values, {0.25, 0.5, 0.75, 0.5}));
}

}  // namespace rehearsal::exec
