// Optimizers that see a parameter as a matrix, or whose weights are not those that are evaluated, against their papers' equations written
// down once more: whatever the gradients are, which here are given.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/exec/kernels/small_matrices.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

std::vector<Matrix> three_gradients(std::int64_t rows, std::int64_t columns) {
  return {gradient(rows, columns, 0), gradient(rows, columns, 1), gradient(rows, columns, 2)};
}

double norm(const Matrix& m) {
  double sum = 0;
  for (const double v : m.values) sum += v * v;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("Lion takes the sign of what lies between gradient and average, and then averages") {
  // Chen et al. 2023, algorithm 2
  const auto gradients = three_gradients(3, 2);
  Numbers w = beginning(3, 2).values, m(6, 0.0);
  const auto got = train({"lion", {{"lr", 0.1}, {"beta1", 0.95}, {"beta2", 0.5}, {"weight_decay", 0.5}}, gradients});
  int turned = 0;
  for (std::size_t step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < 6; ++i) {
      const double g = gradients[step].values[i], c = 0.95 * m[i] + 0.05 * g;
      turned += c * g < 0;
      w[i] -= 0.1 * ((c > 0) - (c < 0) + 0.5 * w[i]);
      m[i] = 0.5 * m[i] + 0.5 * g;
    }
    check_same(got[step], w, 1e-14);
  }
  CHECK(turned > 0);  // the gradient alone would say otherwise
}

TEST_CASE("Adafactor keeps the second moment of a matrix as that of rows and of columns") {
  // Shazeer and Stern 2018, algorithm 4, with PyTorch's defaults but for the rate
  const std::int64_t rows = 3, columns = 4;
  const auto gradients = three_gradients(rows, columns);
  const double eps = std::ldexp(1.0, -23), lr = 0.05, decay = 0.1;
  Matrix w = beginning(rows, columns);
  Numbers of_rows(3, 0.0), of_columns(4, 0.0);
  const Job job{"adafactor", {{"lr", lr}, {"weight_decay", decay}}, gradients};
  const auto got = train(job), got_rows = train(job, "w.row_var"), got_columns = train(job, "w.col_var");
  for (int step = 0; step < 3; ++step) {
    const auto& g = gradients[static_cast<std::size_t>(step)];
    const double t = step + 1, fresh = std::pow(t, -0.8);
    Numbers row_means(3, 0.0), column_means(4, 0.0);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        row_means[static_cast<std::size_t>(r)] += g.at(r, c) * g.at(r, c) / columns;
        column_means[static_cast<std::size_t>(c)] += g.at(r, c) * g.at(r, c) / rows;
      }
    double mean = 0;
    for (std::size_t r = 0; r < 3; ++r) of_rows[r] += fresh * (row_means[r] - of_rows[r]), mean += of_rows[r] / 3;
    for (std::size_t c = 0; c < 4; ++c) of_columns[c] += fresh * (column_means[c] - of_columns[c]);
    const Matrix u = filled(rows, columns, [&](std::int64_t r, std::int64_t c) {
      return g.at(r, c) /
             std::sqrt(std::max(eps * eps, of_rows[static_cast<std::size_t>(r)] * of_columns[static_cast<std::size_t>(c)] / mean));
    });
    const double elements = 12, rate = std::min(lr, 1 / std::sqrt(t)) * std::max(1e-3, norm(w) / std::sqrt(elements));
    const double clipped = std::max(1.0, norm(u) / std::sqrt(elements));
    for (std::size_t i = 0; i < w.values.size(); ++i) w.values[i] = w.values[i] * (1 - lr * decay) - rate / clipped * u.values[i];
    check_same(got[static_cast<std::size_t>(step)], w.values, 1e-13);
    check_same(got_rows[static_cast<std::size_t>(step)], of_rows, 1e-14);
    check_same(got_columns[static_cast<std::size_t>(step)], of_columns, 1e-14);
  }
}

TEST_CASE("schedule-free SGD trains y, between z and the average x") {
  // Defazio et al. 2024, algorithm 1: z takes the step, x is the mean of all z weighted by the square of the rate, y = 0.2 z + 0.8 x
  const auto gradients = three_gradients(2, 3);
  Numbers x = beginning(2, 3).values, y = x, z = x;
  const Job job{"schedule-free-sgd", {{"lr", 0.3}, {"momentum", 0.8}, {"weight_decay", 0.25}}, gradients};
  const auto got = train(job), got_z = train(job, "w.schedule_free.z"), sums = train(job, "w.weight_sum"), highest = train(job, "w.lr_max");
  for (std::size_t step = 0; step < 3; ++step) {
    const double c = 1.0 / (static_cast<double>(step) + 1);
    for (std::size_t i = 0; i < 6; ++i) {
      z[i] -= 0.3 * (gradients[step].values[i] + 0.25 * y[i]);
      x[i] = (1 - c) * x[i] + c * z[i];
      y[i] = 0.2 * z[i] + 0.8 * x[i];
    }
    check_same(got[step], y, 1e-14);
    check_same(got_z[step], z, 1e-14);
    check_same(sums[step], {0.09 * (static_cast<double>(step) + 1)}, 1e-15);
    check_same(highest[step], {0.3}, 0);
  }
}

TEST_CASE("schedule-free AdamW scales the step by its second moment") {
  const auto gradients = three_gradients(2, 2);
  Numbers x = beginning(2, 2).values, y = x, z = x, v(4, 0.0);
  const auto got = train({"schedule-free-adamw", {{"lr", 0.05}, {"beta1", 0.9}, {"beta2", 0.7}, {"weight_decay", 0.2}}, gradients});
  for (std::size_t step = 0; step < 3; ++step) {
    const double t = static_cast<double>(step) + 1, c = 1 / t;
    for (std::size_t i = 0; i < 4; ++i) {
      const double g = gradients[step].values[i];
      v[i] = 0.7 * v[i] + 0.3 * g * g;
      z[i] -= 0.05 * (g / (std::sqrt(v[i] / (1 - std::pow(0.7, t))) + 1e-8) + 0.2 * y[i]);
      x[i] = (1 - c) * x[i] + c * z[i];
      y[i] = 0.1 * z[i] + 0.9 * x[i];
    }
    check_same(got[step], y, 1e-14);
  }
}

namespace {

/// What five of Muon's iterations make of singular values.
Numbers near_one(const Numbers& s) {
  double square = 0;
  for (const double x : s) square += x * x;
  Numbers result;
  for (double x : s) {
    x /= std::sqrt(square);
    for (int i = 0; i < 5; ++i) x = 3.4445 * x - 4.7750 * std::pow(x, 3) + 2.0315 * std::pow(x, 5);
    result.push_back(x);
  }
  return result;
}

}  // namespace

TEST_CASE("Muon keeps the singular vectors of the momentum and brings its singular values near one") {
  // An odd polynomial of a matrix acts on its singular values alone (Jordan et al. 2024).
  const Numbers s{2, 0.5};
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 2}, {2, 3}, {4, 2}}) {
    const Matrix g = with_singular_values(rows, columns, s, 0.4);
    const Matrix o = with_singular_values(rows, columns, near_one(s), 0.4);
    Numbers expected = beginning(rows, columns).values, jordan = expected;
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    // Rows of w are what goes in: its columns come out.
    const double own = std::sqrt(std::max(1.0, static_cast<double>(columns) / static_cast<double>(rows)));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      jordan[i] -= 0.1 * own * o.values[i];
      expected[i] = (1 - 0.1 * 0.5) * expected[i] - 0.1 * scale * o.values[i];
    }
    // In the first step momentum is a share of the gradient, whose size does not matter.
    check_same(train({"muon", {{"lr", 0.1}, {"weight_decay", 0.5}}, {g}})[0], expected, 1e-12);
    check_same(train({"muon", {{"lr", 0.1}, {"weight_decay", 0}, {"rms", 0}}, {g}})[0], jordan, 1e-12);
  }
}

TEST_CASE("Muon's momentum averages, and looks ahead") {
  // Gradients of the same singular vectors: everything happens to their values. m = 0.9 m + 0.1 g, then 0.9 m + 0.1 g is taken.
  const std::vector<Numbers> s{{2, 0.5}, {0.25, 1}};
  const std::vector<Matrix> gradients{with_singular_values(2, 3, s[0], 0.3), with_singular_values(2, 3, s[1], 0.3)};
  for (const bool nesterov : {true, false}) {
    const auto got =
        train({"muon", {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0}, {"rms", 1}, {"nesterov", nesterov ? 1 : 0}}, gradients});
    Numbers w = beginning(2, 3).values, m{0, 0};
    for (std::size_t step = 0; step < 2; ++step) {
      Numbers taken(2);
      for (std::size_t k = 0; k < 2; ++k) {
        m[k] = 0.9 * m[k] + 0.1 * s[step][k];
        taken[k] = nesterov ? 0.9 * m[k] + 0.1 * s[step][k] : m[k];
      }
      const Matrix o = with_singular_values(2, 3, near_one(taken), 0.3);
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * std::sqrt(3.0) * o.values[i];
      check_same(got[step], w, 1e-12);
    }
  }
}

namespace {

Numbers product(const Numbers& a, const Numbers& b, std::int64_t n) {
  Numbers c(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n * n; ++i)
    for (std::int64_t k = 0; k < n; ++k)
      c[static_cast<std::size_t>(i)] += a[static_cast<std::size_t>(i / n * n + k)] * b[static_cast<std::size_t>(k * n + i % n)];
  return c;
}

/// What Shampoo makes of gradients that share their singular vectors: everything happens to their values.
class ShampooValues {
 public:
  ShampooValues(double beta1, int interval) : beta1_(beta1), interval_(interval) {}

  /// Singular values of the direction of the next step.
  Numbers step(const Numbers& s) {
    ++step_;
    double largest = 0;
    for (std::size_t k = 0; k < s.size(); ++k) {
      momentum_[k] = beta1_ * momentum_[k] + (1 - beta1_) * s[k];
      second_[k] = 0.9 * second_[k] + 0.1 * s[k] * s[k];
      largest = std::max(largest, second_[k]);
    }
    Numbers direction(2);
    for (std::size_t k = 0; k < s.size(); ++k) {
      // From the left and from the right a fourth root each.
      if ((step_ - 1) % interval_ == 0) roots_[k] = std::pow((second_[k] + 1e-3 * largest) / (1 - std::pow(0.9, step_)), -0.5);
      direction[k] = momentum_[k] * roots_[k];
    }
    return direction;
  }

 private:
  double beta1_;
  int interval_, step_ = 0;
  Numbers momentum_ = Numbers(2), second_ = Numbers(2), roots_ = Numbers(2);
};

}  // namespace

TEST_CASE("Shampoo divides singular values by the roots of their averages, which it makes anew every few steps") {
  const std::vector<Numbers> s{{2, 0.5}, {0.25, 1}, {1, 1.5}};
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 2}, {2, 3}, {4, 2}}) {
    std::vector<Matrix> gradients;
    for (const auto& values : s) gradients.push_back(with_singular_values(rows, columns, values, 0.3));
    for (const double beta1 : {0.0, 0.9})
      for (const int interval : {1, 2})
        for (const double rms : {0.0, 0.2}) {
          INFO(rows << " x " << columns << ", beta1 " << beta1 << ", interval " << interval << ", rms " << rms);
          const auto got = train({"shampoo",
                                  {{"lr", 0.1},
                                   {"beta1", beta1},
                                   {"beta2", 0.9},
                                   {"root_eps", 1e-3},
                                   {"interval", interval},
                                   {"rms", rms},
                                   {"weight_decay", 0.5}},
                                  gradients});
          ShampooValues reference(beta1, interval);
          Numbers w = beginning(rows, columns).values;
          for (std::size_t step = 0; step < s.size(); ++step) {
            const Numbers direction = reference.step(s[step]);
            const Matrix d = with_singular_values(rows, columns, direction, 0.3);
            const double norm = std::sqrt(direction[0] * direction[0] + direction[1] * direction[1]);
            const double scale = rms > 0 ? rms * std::sqrt(static_cast<double>(rows * columns)) / norm : 1;
            for (std::size_t i = 0; i < w.size(); ++i) w[i] = (1 - 0.1 * 0.5) * w[i] - 0.1 * scale * d.values[i];
            check_same(got[step], w, 1e-11);
          }
        }
  }
}

TEST_CASE("Shampoo's roots are fourth roots of the averages of products") {
  const std::vector<Matrix> gradients{gradient(3, 4, 1), gradient(3, 4, 2)};
  const Job job{"shampoo", {{"beta2", 0.9}, {"root_eps", 1e-2}, {"interval", 1}}, gradients};
  for (const auto& [side, name] : std::vector<std::pair<std::int64_t, std::string>>{{3, "row"}, {4, "column"}}) {
    INFO(name);
    Numbers average = train(job, "w." + name + "_factor")[1];
    // By hand: 0.9 times the first product and the second, a tenth of both.
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j < side; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < 7 - side; ++k)
          for (std::size_t step = 0; step < 2; ++step) {
            const Matrix& g = gradients[step];
            sum += (step == 0 ? 0.09 : 0.1) * (side == 3 ? g.at(i, k) * g.at(j, k) : g.at(k, i) * g.at(k, j));
          }
        CHECK(average[static_cast<std::size_t>(i * side + j)] == Approx(sum).margin(1e-14));
      }
    const Numbers root = train(job, "w." + name + "_root")[1];
    const Numbers fourth = product(product(root, root, side), product(root, root, side), side);
    // (average + a share of its largest eigenvalue) root^4 is the identity times the sum of weights, 1 - 0.9^2.
    const Numbers left = product(average, fourth, side);
    double largest = 0;
    for (std::int64_t i = 0; i < side; ++i)
      for (std::int64_t j = 0; j < side; ++j) {
        const auto at = static_cast<std::size_t>(i * side + j);
        const double rest = (i == j ? 0.19 : 0.0) - left[at];
        if (i == 0 && j == 0) largest = rest / fourth[at];
        CHECK(rest == Approx(largest * fourth[at]).margin(1e-11));
      }
    CHECK(largest > 0);
  }
}

TEST_CASE("Shampoo of a gradient of zeros moves nothing but by weight decay") {
  Matrix zeros = gradient(2, 3, 1);
  std::fill(zeros.values.begin(), zeros.values.end(), 0.0);
  Numbers w = beginning(2, 3).values;
  for (auto& x : w) x *= 1 - 0.1 * 0.5;
  check_same(train({"shampoo", {{"lr", 0.1}, {"weight_decay", 0.5}}, {zeros}})[0], w, 1e-15);
}

TEST_CASE("Shampoo takes the side that is short enough alone, with its square root") {
  // 2 x 1025: columns are left out; 1025 x 2: rows are.
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 1025}, {1025, 2}}) {
    INFO(rows << " x " << columns);
    const Numbers s{2, 0.5};
    const Matrix g = with_singular_values(rows, columns, s, 0.3);
    const auto got = train({"shampoo", {{"lr", 0.1}, {"beta1", 0}, {"root_eps", 1e-3}, {"rms", 0}, {"weight_decay", 0}}, {g}})[0];
    // In the first step the average is the square itself: s / sqrt(s^2 + 1e-3 * 4).
    const Matrix d = with_singular_values(rows, columns, {2 / std::sqrt(4.004), 0.5 / std::sqrt(0.254)}, 0.3);
    Numbers w = beginning(rows, columns).values;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * d.values[i];
    check_same(got, w, 1e-11);
  }
}
