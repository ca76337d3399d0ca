#pragma once
// Small matrices, and what training one weight with given gradients leaves: for tests of optimizers that see matrices.

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/play/interpreter.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exec::sample {

using graph::TensorId;

using Numbers = std::vector<double>;

/// `rows` x `columns`, row-major.
struct Matrix {
  std::int64_t rows, columns;
  Numbers values;
  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  [[nodiscard]] double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};

inline Matrix filled(std::int64_t rows, std::int64_t columns, const std::function<double(std::int64_t, std::int64_t)>& value) {
  Matrix m{rows, columns, Numbers(static_cast<std::size_t>(rows * columns))};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) m.at(r, c) = value(r, c);
  return m;
}

/// Numbers without a pattern, of another size in every step.
inline Matrix gradient(std::int64_t rows, std::int64_t columns, int step) {
  return filled(rows, columns, [=](std::int64_t r, std::int64_t c) {
    return std::sin(1.7 * static_cast<double>(r) + 2.9 * static_cast<double>(c) + 0.8 * step) * (0.3 + 0.2 * step);
  });
}

inline Matrix beginning(std::int64_t rows, std::int64_t columns) {
  return filled(rows, columns,
                [](std::int64_t r, std::int64_t c) { return 0.5 + 0.25 * static_cast<double>(r) - 0.125 * static_cast<double>(c); });
}

struct Job {
  std::string optimizer;
  std::map<std::string, double> values;
  std::vector<Matrix> gradients;
};

/// What is stored under a name behind every step. The loss is the sum of a (I w), so that the gradient of w is a; w is a hidden matrix.
inline std::vector<Numbers> train(const Job& job, const std::string& stored = "w", DType dtype = DType::F64) {
  const auto rows = job.gradients.front().rows, columns = job.gradients.front().columns;
  graph::GraphBuilder builder;
  const TensorId unit = builder.add_input("unit", {dtype, {rows, rows}}), a = builder.add_input("a", {dtype, {rows, columns}});
  const TensorId w =
      builder.add_stored("w", {dtype, {rows, columns}}, graph::TensorRole::Parameter,
                         graph::contents_of(graph::Value::of_reals(beginning(rows, columns).values, {rows, columns}, dtype)));
  const TensorId product = builder.add1("Mul", {a, builder.add1("MatMul", {unit, w})});
  builder.set_outputs({builder
                           .add("ReduceSum", {product}, {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}},
                                {"", graph::Phase::Forward, graph::NodeId::None, {"loss"}})
                           .front()});
  graph::TrainingOptions options;
  options.optimizer = {job.optimizer, job.values};
  const auto training = graph::build_training_graph(std::move(builder).build(), options);
  Interpreter interpreter(training.graph);
  interpreter.set_reals(training.graph.find("unit"),
                        filled(rows, rows, [](std::int64_t r, std::int64_t c) { return r == c ? 1.0 : 0.0; }).values);
  std::vector<Numbers> history;
  for (std::size_t step = 0; step < job.gradients.size(); ++step) {
    interpreter.set_reals(training.graph.find("a"), job.gradients[step].values);
    interpreter.run(static_cast<std::int64_t>(step));
    history.push_back(interpreter.get_reals(training.graph.find(stored)));
  }
  return history;
}

inline void check_same(const Numbers& got, const Numbers& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(0).margin(tolerance));
}

/// Turned by an angle in the first two of its dimensions: its columns are orthogonal and of length 1.
inline Matrix turned(std::int64_t size, double angle) {
  return filled(size, size, [=](std::int64_t r, std::int64_t c) {
    if (r > 1 || c > 1) return r == c ? 1.0 : 0.0;
    return r == c ? std::cos(angle) : r < c ? -std::sin(angle) : std::sin(angle);
  });
}

/// U diag(s) V^T with U and V turned: its singular values are s.
inline Matrix with_singular_values(std::int64_t rows, std::int64_t columns, const Numbers& s, double angle) {
  const Matrix u = turned(rows, angle), v = turned(columns, -0.7 * angle);
  return filled(rows, columns, [&](std::int64_t r, std::int64_t c) {
    double sum = 0;
    for (std::size_t k = 0; k < s.size(); ++k) sum += u.at(r, static_cast<std::int64_t>(k)) * s[k] * v.at(c, static_cast<std::int64_t>(k));
    return sum;
  });
}

}  // namespace rehearsal::exec::sample
