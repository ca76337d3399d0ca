// Optimizers that multiply a gradient with a matrix from each side, against their papers' equations: SOAP and K-FAC (Shampoo is in
// matrix_optimizers.cpp).
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "graph/loss_scaling.hpp"
#include "tests/exec/kernels/one_node.hpp"
#include "tests/exec/kernels/small_matrices.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

Matrix times(const Matrix& a, const Matrix& b) {
  return filled(a.rows, b.columns, [&](std::int64_t r, std::int64_t c) {
    double sum = 0;
    for (std::int64_t k = 0; k < a.columns; ++k) sum += a.at(r, k) * b.at(k, c);
    return sum;
  });
}

Matrix transposed(const Matrix& a) {
  return filled(a.columns, a.rows, [&](std::int64_t r, std::int64_t c) { return a.at(c, r); });
}

Matrix scaled(Matrix a, double factor) {
  for (double& x : a.values) x *= factor;
  return a;
}

Matrix sum_of(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

Matrix with_diagonal(Matrix a, double added) {
  for (std::int64_t i = 0; i < a.rows; ++i) a.at(i, i) += added;
  return a;
}

double mean_diagonal(const Matrix& a) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) sum += a.at(i, i);
  return sum / static_cast<double>(a.rows);
}

/// By Gauss and Jordan, without pivots: of positive definite matrices.
Matrix inverse(Matrix a) {
  Matrix left = filled(a.rows, a.rows, [](std::int64_t r, std::int64_t c) { return r == c ? 1.0 : 0.0; });
  for (std::int64_t k = 0; k < a.rows; ++k) {
    const double pivot = a.at(k, k);
    for (std::int64_t c = 0; c < a.rows; ++c) a.at(k, c) /= pivot, left.at(k, c) /= pivot;
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const double factor = a.at(r, k);
      for (std::int64_t c = 0; c < a.rows && r != k; ++c) a.at(r, c) -= factor * a.at(k, c), left.at(r, c) -= factor * left.at(k, c);
    }
  }
  return left;
}

}  // namespace

TEST_CASE("SOAP runs Adam on the singular values of gradients that share their singular vectors") {
  // Vyas et al. 2025, algorithm 3: in the eigenbases of G Gᵀ and Gᵀ G such a gradient is diagonal.
  const std::vector<Numbers> s{{2, 0.5}, {1.75, 1}, {-1, 0.75}};
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 2}, {2, 3}, {4, 2}}) {
    std::vector<Matrix> gradients;
    for (const auto& values : s) gradients.push_back(with_singular_values(rows, columns, values, 0.3));
    for (const double beta1 : {0.0, 0.9})
      for (const int interval : {1, 2}) {
        INFO(rows << " x " << columns << ", beta1 " << beta1 << ", interval " << interval);
        const Job job{"soap",
                      {{"lr", 0.1},
                       {"beta1", beta1},
                       {"beta2", 0.8},
                       {"eps", 1e-3},
                       {"basis_eps", 1e-14},
                       {"interval", interval},
                       {"weight_decay", 0.5}},
                      gradients};
        const auto got = train(job);
        Numbers w = beginning(rows, columns).values, m(2), v(2);
        for (std::size_t step = 0; step < s.size(); ++step) {
          const double t = static_cast<double>(step) + 1;
          Numbers direction(2);
          for (std::size_t k = 0; k < 2; ++k) {
            m[k] = beta1 * m[k] + (1 - beta1) * s[step][k];
            v[k] = 0.8 * v[k] + 0.2 * s[step][k] * s[step][k];
            direction[k] = m[k] / (1 - std::pow(beta1, t)) / (std::sqrt(v[k] / (1 - std::pow(0.8, t))) + 1e-3);
          }
          const Matrix d = with_singular_values(rows, columns, direction, 0.3);
          for (std::size_t i = 0; i < w.size(); ++i) w[i] = (1 - 0.1 * 0.5) * w[i] - 0.1 * d.values[i];
          check_same(got[step], w, 1e-9);
        }
      }
  }
}

TEST_CASE("SOAP's bases are eigenvectors at first, and follow their matrices by orthogonal iteration") {
  const std::vector<Matrix> gradients{gradient(4, 4, 0), gradient(4, 4, 1), gradient(4, 4, 2)};
  const double eps = 1e-3;
  const Job job{"soap", {{"lr", 0.1}, {"beta2", 0.5}, {"basis_eps", eps}, {"interval", 1}}, gradients};
  for (const std::string side : {"row", "column"}) {
    INFO(side);
    const auto factors = train(job, "w." + side + "_factor"), bases = train(job, "w." + side + "_basis");
    Matrix average = filled(4, 4, [](std::int64_t, std::int64_t) { return 0.0; });
    Matrix before = average;
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      const Matrix& g = gradients[step];
      const Matrix square = side == "row" ? times(g, transposed(g)) : times(transposed(g), g);
      average = sum_of(scaled(average, 0.5), scaled(square, 0.5));
      check_same(factors[step], average.values, 1e-14);
      const Matrix q{4, 4, bases[step]};
      check_same(times(transposed(q), q).values, with_diagonal(filled(4, 4, [](auto, auto) { return 0.0; }), 1).values, 1e-12);
      double largest = 0;
      for (std::int64_t i = 0; i < 4; ++i) largest = std::max(largest, average.at(i, i));
      // Turned, the matrix is diagonal, the largest first; later what it makes of the basis before has nothing below the diagonal.
      Matrix sum = average;
      for (std::int64_t i = 0; i < 4; ++i) sum.at(i, i) += eps * largest * (step == 0 ? 1 - static_cast<double>(i) / 4 : 1);
      const Matrix seen = times(times(transposed(q), sum), step == 0 ? q : before);
      for (std::int64_t r = 0; r < 4; ++r)
        for (std::int64_t c = 0; c < r; ++c) {
          CHECK(seen.at(r, c) == Approx(0).margin(1e-12));
          if (step == 0) CHECK(seen.at(c, r) == Approx(0).margin(1e-12));
          if (step == 0) CHECK(seen.at(c, c) >= seen.at(r, r));
        }
      before = q;
    }
  }
}

TEST_CASE("SOAP of a gradient of zeros moves nothing but by weight decay, and takes one side where the other is too long") {
  const Matrix zeros = scaled(gradient(2, 3, 1), 0);
  check_same(train({"soap", {{"lr", 0.1}, {"weight_decay", 0.5}}, {zeros}})[0], scaled(beginning(2, 3), 0.95).values, 1e-15);
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 1025}, {1025, 2}}) {
    INFO(rows << " x " << columns);
    // Of the side of two the basis turns the gradient into rows (columns) of s v, elements of which Adam divides by themselves.
    const Numbers s{2, 0.5};
    const Matrix g = with_singular_values(rows, columns, s, 0.3);
    const Matrix u = turned(2, rows == 2 ? 0.3 : -0.21);
    const bool wide = rows == 2;
    Matrix inside = wide ? times(transposed(u), g) : times(g, u);
    for (double& x : inside.values) x /= std::abs(x) + 1e-3;
    const Matrix d = wide ? times(u, inside) : times(inside, transposed(u));
    const auto got = train({"soap", {{"lr", 0.1}, {"beta1", 0}, {"eps", 1e-3}, {"basis_eps", 1e-14}, {"weight_decay", 0}}, {g}})[0];
    check_same(got, sum_of(beginning(rows, columns), scaled(d, -0.1)).values, 1e-9);
  }
}

namespace {

/// Of a layer whose loss is the sum of what comes out times `outward`, element by element: inputs and gradients of every step.
struct Layer {
  std::vector<Matrix> inward, outward;  ///< a row for each sample
};

/// Factors as K-FAC keeps them, of matrices of rows of samples; the loss counts as a mean over these.
struct KfacReference {
  double lr, momentum, decay, damping, clip, factor_decay;
  int factor_interval, interval;
  Matrix w, in_factor, out_factor, in_inverse, out_inverse, velocity;
  int step = 0;

  static double share(double decay, int nth) { return 1 - std::min(decay, 1 - 1.0 / nth); }

  /// `in_square`, `out_square`: Σ f fᵀ, with their scales. w, g: of rows in.
  void update(const Matrix& g, const Matrix& in_square, const Matrix& out_square) {
    if (step % factor_interval == 0) {
      const double fresh = share(factor_decay, step / factor_interval + 1);
      in_factor = sum_of(scaled(in_factor, 1 - fresh), scaled(in_square, fresh));
      out_factor = sum_of(scaled(out_factor, 1 - fresh), scaled(out_square, fresh));
    }
    if (step % interval == 0) {
      const double ratio = mean_diagonal(in_factor) / mean_diagonal(out_factor);
      in_inverse = inverse(with_diagonal(in_factor, std::sqrt(damping * ratio)));
      out_inverse = inverse(with_diagonal(out_factor, std::sqrt(damping / ratio)));
    }
    ++step;
    const Matrix v = times(times(in_inverse, g), out_inverse);
    double divergence = 0;
    for (std::size_t i = 0; i < v.values.size(); ++i) divergence += lr * lr * v.values[i] * g.values[i];
    const double nu = std::min(1.0, std::sqrt(clip / divergence));
    velocity = sum_of(scaled(velocity, momentum), sum_of(scaled(v, nu), scaled(w, decay)));
    w = sum_of(w, scaled(velocity, -lr));
  }
};

Matrix zeros(std::int64_t rows, std::int64_t columns) {
  return filled(rows, columns, [](std::int64_t, std::int64_t) { return 0.0; });
}

graph::OptimizerSettings settings_of(const KfacReference& k) {
  return {"kfac",
          {{"lr", k.lr},
           {"momentum", k.momentum},
           {"weight_decay", k.decay},
           {"damping", k.damping},
           {"kl_clip", k.clip},
           {"factor_decay", k.factor_decay},
           {"factor_interval", k.factor_interval},
           {"interval", k.interval}}};
}

/// `product` makes what comes out of x and w.
template <class Product>
std::vector<Numbers> train_layer(const graph::Shape& x, const graph::Shape& w, const graph::Shape& y, const Layer& layer,
                                 const graph::OptimizerSettings& optimizer, const Product& product) {
  graph::GraphBuilder builder;
  const auto in = builder.add_input("x", {DType::F64, x}), out = builder.add_input("a", {DType::F64, y});
  const auto rows = w[0], columns = graph::element_count(w) / w[0];
  const auto weight = builder.add_stored("w", {DType::F64, w}, graph::TensorRole::Parameter,
                                         graph::contents_of(graph::Value::of_reals(beginning(rows, columns).values, w, DType::F64)));
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < y.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  builder.set_outputs({builder
                           .add("ReduceSum", {builder.add1("Mul", {out, product(builder, in, weight)})},
                                {{"axes", axes}, {"keepdims", std::int64_t{0}}}, {"", graph::Phase::Forward, graph::NodeId::None, {"loss"}})
                           .front()});
  graph::TrainingOptions options;
  options.optimizer = optimizer;
  const auto training = graph::build_training_graph(std::move(builder).build(), options);
  Interpreter interpreter(training.graph);
  std::vector<Numbers> history;
  for (std::size_t step = 0; step < layer.inward.size(); ++step) {
    interpreter.set_reals(training.graph.find("x"), layer.inward[step].values);
    interpreter.set_reals(training.graph.find("a"), layer.outward[step].values);
    interpreter.run(static_cast<std::int64_t>(step));
    history.push_back(interpreter.get_reals(training.graph.find("w")));
  }
  return history;
}

}  // namespace

TEST_CASE("K-FAC divides by the second moments of what goes into a product and of what comes back") {
  // Martens, Grosse 2015, sections 3, 5 and 6.3: A = E[a aᵀ], G = E[g gᵀ], a sample's gradient being as many times its share of the mean.
  const std::int64_t samples = 5, in = 3, out = 2;
  Layer layer;
  for (int step = 0; step < 5; ++step) {
    layer.inward.push_back(gradient(samples, in, step));
    layer.outward.push_back(scaled(gradient(samples, out, step + 7), 0.2));
  }
  for (const auto& [momentum, clip, factor_interval, interval] :
       std::vector<std::tuple<double, double, int, int>>{{0.0, 1e9, 1, 1}, {0.9, 1e9, 1, 2}, {0.9, 1e-4, 2, 2}, {0.5, 1e-4, 2, 3}})
    for (const bool turned_weight : {false, true}) {
      INFO("momentum " << momentum << ", clip " << clip << ", intervals " << factor_interval << " and " << interval << ", turned "
                       << turned_weight);
      KfacReference reference{0.1, momentum, 0.05, 0.03, clip, 0.6, factor_interval, interval};
      reference.w = turned_weight ? transposed(beginning(out, in)) : beginning(in, out);
      reference.in_factor = zeros(in, in), reference.out_factor = zeros(out, out), reference.velocity = zeros(in, out);
      const graph::Shape w = turned_weight ? graph::Shape{out, in} : graph::Shape{in, out};
      const auto got = train_layer({samples, in}, w, {samples, out}, layer, settings_of(reference), [&](auto& b, auto x, auto weight) {
        return b.add1("MatMul", {x, weight}, turned_weight ? graph::Attributes{{"trans_b", std::int64_t{1}}} : graph::Attributes{});
      });
      for (std::size_t step = 0; step < got.size(); ++step) {
        const Matrix &x = layer.inward[step], &dy = layer.outward[step];
        reference.update(times(transposed(x), dy), scaled(times(transposed(x), x), 1.0 / samples),
                         scaled(times(transposed(dy), dy), static_cast<double>(samples)));
        check_same(got[step], turned_weight ? transposed(reference.w).values : reference.w.values, 1e-10);
      }
    }
}

namespace {

/// Element `tap` of channel c under the window at (r, s) of a 2 x 2 kernel with stride 1 and a border of one zero below and to the right.
double under(const Matrix& image, std::int64_t height, std::int64_t width, std::int64_t feature, std::int64_t position) {
  const std::int64_t c = feature / 4, r = position / width + feature % 4 / 2, s = position % width + feature % 2;
  return r < height && s < width ? image.values[static_cast<std::size_t>((c * height + r) * width + s)] : 0;
}

}  // namespace

TEST_CASE("K-FAC sums what lies under the windows of a convolution") {
  // Grosse, Martens 2016, section 3: Ω = E[Σ_t a_t a_tᵀ], Γ = E[Σ_t g_t g_tᵀ] / T.
  const std::int64_t samples = 2, channels = 2, height = 3, width = 2, outputs = 3, positions = height * width, features = channels * 4;
  Layer layer;
  for (int step = 0; step < 3; ++step) {
    layer.inward.push_back(gradient(samples, channels * height * width, step));
    layer.outward.push_back(scaled(gradient(samples, outputs * positions, step + 5), 0.1));
  }
  KfacReference reference{0.05, 0.9, 0, 0.01, 1e-3, 0.7, 1, 2};
  reference.w = transposed(beginning(outputs, features));
  reference.in_factor = zeros(features, features), reference.out_factor = zeros(outputs, outputs),
  reference.velocity = zeros(features, outputs);
  const auto got = train_layer({samples, channels, height, width}, {outputs, channels, 2, 2}, {samples, outputs, height, width}, layer,
                               settings_of(reference), [](auto& b, auto x, auto weight) {
                                 return b.add1("Conv", {x, weight}, {{"pads", std::vector<std::int64_t>{0, 0, 1, 1}}});
                               });
  for (std::size_t step = 0; step < got.size(); ++step) {
    Matrix g = zeros(features, outputs), in_square = zeros(features, features), out_square = zeros(outputs, outputs);
    for (std::int64_t n = 0; n < samples; ++n) {
      const auto row = [n](const Matrix& m) {
        return Matrix{1, m.columns, Numbers(m.values.begin() + n * m.columns, m.values.begin() + (n + 1) * m.columns)};
      };
      const Matrix image = row(layer.inward[step]), back = row(layer.outward[step]);
      const Matrix a = filled(positions, features, [&](std::int64_t t, std::int64_t f) { return under(image, height, width, f, t); });
      const Matrix dy = filled(positions, outputs, [&](std::int64_t t, std::int64_t o) { return back.at(0, o * positions + t); });
      g = sum_of(g, times(transposed(a), dy));
      in_square = sum_of(in_square, scaled(times(transposed(a), a), 1.0 / samples));
      out_square = sum_of(out_square, scaled(times(transposed(dy), dy), static_cast<double>(samples) / static_cast<double>(positions)));
    }
    reference.update(g, in_square, out_square);
    check_same(got[step], transposed(reference.w).values, 1e-10);
  }
}

TEST_CASE("K-FAC's directions are clipped by what all weights with factors add up to") {
  // Ba, Grosse, Martens 2017, section 5. Two layers of one sample and one element in and out, x w with gradient a x: A = x², G = a², and
  // with a damping d that vanishes v = a x / (A G) = 1 / (a x), v g = 1. Both together: lr² Σ v g = 2 lr², so that with clip = lr² / 2
  // each moves by lr v / 2. By itself each would have moved by lr v / √2. The vector b is SGD's, and takes no part: it moves by lr g.
  graph::GraphBuilder builder;
  const double lr = 0.1;
  const auto scalar = [&](const std::string& name) { return builder.add_input(name, {DType::F64, {1, 1}}); };
  const auto weight = [&](const std::string& name, const graph::Shape& shape, double value) {
    return builder.add_stored(name, {DType::F64, shape}, graph::TensorRole::Parameter,
                              graph::contents_of(graph::Value::of_reals(Numbers{value}, shape, DType::F64)));
  };
  const auto x = scalar("x");
  const auto first = builder.add1("MatMul", {x, weight("first", {1, 1}, 3)});
  const auto second = builder.add1("MatMul", {builder.add1("Mul", {x, x}), weight("second", {1, 1}, 5)});
  const auto all = builder.add1("Add", {builder.add1("Add", {first, second}), weight("b", {1}, 7)});
  builder.set_outputs({builder
                           .add("ReduceSum", {all}, {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}},
                                {"", graph::Phase::Forward, graph::NodeId::None, {"loss"}})
                           .front()});
  graph::TrainingOptions options;
  options.optimizer = {"kfac", {{"lr", lr}, {"momentum", 0}, {"weight_decay", 0}, {"damping", 1e-14}, {"kl_clip", lr * lr / 2}}};
  const auto training = graph::build_training_graph(std::move(builder).build(), options);
  Interpreter interpreter(training.graph);
  interpreter.set_reals(training.graph.find("x"), Numbers{2});
  interpreter.run(0);
  const auto value = [&](const char* name) { return interpreter.get_reals(training.graph.find(name)).front(); };
  CHECK(value("first") == Approx(3 - lr / 2 / 2).epsilon(1e-6));   // a = 1, x = 2: v = 1 / 2
  CHECK(value("second") == Approx(5 - lr / 4 / 2).epsilon(1e-6));  // x² = 4: v = 1 / 4
  CHECK(value("b") == Approx(7 - lr));
}

TEST_CASE("K-FAC's inverses are of what the damping makes positive, and rounding below 0 counts as 0") {
  const auto inverse_of = [](std::vector<double> matrix, std::vector<double> other, double damping) {
    return run({"DampedInverse",
                {{"damping", damping}},
                {Array{{2, 2}, {9, 9, 9, 9}}, Array{{2, 2}, std::move(matrix)}, Array{{}, {1}, DType::I64},
                 Array{{2, 2}, std::move(other)}}})
        .front()
        .values;
  };
  // Mean diagonals 2 and 0.5: the damping 0.25 becomes sqrt(0.25 * 2 / 0.5) = 1 on the diagonal; [[3, 1], [1, 3]] has [[3, -1], [-1, 3]]
  // / 8.
  check_same(inverse_of({2, 1, 1, 2}, {0.5, 0, 0, 0.5}, 0.25), {0.375, -0.125, -0.125, 0.375}, 1e-15);
  // Mean diagonals are equal: 1e-4 is added to 1 and to 0 in place of -1e-3.
  const double below = 1 - 1e-3;
  check_same(inverse_of({1, 0, 0, -1e-3}, {below, 0, 0, 0}, 1e-8), {1 / 1.0001, 0, 0, 1e4}, 1e-8);
  // Nothing has been seen of either: the root of the damping alone.
  check_same(inverse_of({0, 0, 0, 0}, {0, 0, 0, 0}, 0.04), {5, 0, 0, 5}, 1e-15);
  for (const double x : inverse_of({1, NAN, NAN, 1}, {1, 0, 0, 1}, 0.1)) CHECK(std::isnan(x));
}

TEST_CASE("K-FAC leaves what has no single product to SGD, and refuses a loss scale") {
  // Read twice: its gradient is a sum of two products.
  graph::GraphBuilder builder;
  const auto x = builder.add_input("x", {DType::F64, {4, 3}});
  const auto w = builder.add_stored("w", {DType::F64, {3, 3}}, graph::TensorRole::Parameter, {});
  const auto y = builder.add1("MatMul", {builder.add1("Relu", {builder.add1("MatMul", {x, w})}), w});
  builder.set_outputs({builder
                           .add("ReduceSum", {y}, {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}},
                                {"", graph::Phase::Forward, graph::NodeId::None, {"loss"}})
                           .front()});
  const auto model = std::move(builder).build();
  graph::TrainingOptions options;
  options.optimizer = {"kfac", {}};
  const auto training = graph::build_training_graph(model, options);
  REQUIRE(training.parameters.size() == 1);
  CHECK(training.parameters[0].slots.size() == 1);  // momentum
  CHECK_THROWS_AS(graph::build_training_graph(model, options, {1024, true}), Refusal);
}
