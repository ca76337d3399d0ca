// PyTorch's Adadelta, Adamax, RAdam, Rprop and ASGD, element by element, against its equations written down once more.
#include <cmath>
#include <functional>
#include <vector>

#include "tests/exec/kernels/small_matrices.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

/// Of one element: its value, two numbers of state, the step from 1.
struct Element {
  double p = 0, first = 0, second = 0;
  int t = 0;
};

/// Trains with gradients that change their signs, and holds every step to `update`, which is given an element and its gradient.
void check_against(const std::string& optimizer, const std::map<std::string, double>& values, int steps,
                   const std::function<void(Element&, double)>& update) {
  INFO(optimizer);
  Job job{optimizer, values, {}};
  for (int step = 0; step < steps; ++step) job.gradients.push_back(gradient(3, 2, step));
  const auto got = train(job);
  std::vector<Element> elements;
  for (const double p : beginning(3, 2).values) elements.push_back({p});
  for (std::size_t step = 0; step < got.size(); ++step) {
    Numbers expected;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      ++elements[i].t;
      update(elements[i], job.gradients[step].values[i]);
      expected.push_back(elements[i].p);
    }
    check_same(got[step], expected, 1e-13);
  }
}

}  // namespace

TEST_CASE("Adadelta goes by the root of its own squares over that of the gradients'") {
  check_against("adadelta", {{"lr", 0.5}, {"rho", 0.8}, {"eps", 1e-3}, {"weight_decay", 0.1}}, 4, [](Element& e, double g) {
    g += 0.1 * e.p;
    e.first = 0.8 * e.first + 0.2 * g * g;
    const double delta = std::sqrt(e.second + 1e-3) / std::sqrt(e.first + 1e-3) * g;
    e.second = 0.8 * e.second + 0.2 * delta * delta;
    e.p -= 0.5 * delta;
  });
}

TEST_CASE("Adamax divides by the largest gradient, which fades") {
  check_against("adamax", {{"lr", 0.1}, {"beta1", 0.7}, {"beta2", 0.6}, {"eps", 1e-2}, {"weight_decay", 0.1}}, 4, [](Element& e, double g) {
    g += 0.1 * e.p;
    e.first = 0.7 * e.first + 0.3 * g;
    e.second = std::fmax(0.6 * e.second, std::fabs(g) + 1e-2);
    e.p -= 0.1 / (1 - std::pow(0.7, e.t)) * e.first / e.second;
  });
}

TEST_CASE("RAdam is SGD with momentum until its second moment has seen enough") {
  // With beta2 = 0.9 at most 19 steps count; after 7 steps those that do are above 5 for the first time.
  int rectified = 0;
  check_against("radam", {{"lr", 0.1}, {"beta1", 0.7}, {"beta2", 0.9}, {"eps", 1e-2}, {"weight_decay", 0.1}}, 9, [&](Element& e, double g) {
    g += 0.1 * e.p;
    e.first = 0.7 * e.first + 0.3 * g;
    e.second = 0.9 * e.second + 0.1 * g * g;
    const double t = e.t, most = 2 / 0.1 - 1, length = most - 2 * t * std::pow(0.9, t) / (1 - std::pow(0.9, t));
    const double m = e.first / (1 - std::pow(0.7, t));
    if (length > 5) {
      ++rectified;
      const double r = std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
      e.p -= 0.1 * m * r * std::sqrt(1 - std::pow(0.9, t)) / (std::sqrt(e.second) + 1e-2);
    } else {
      e.p -= 0.1 * m;
    }
  });
  CHECK(rectified > 0);
  CHECK(rectified < 9 * 6);
}

TEST_CASE("Rprop's steps grow while signs stay, and shrink and pause where they change") {
  int paused = 0, grown = 0;
  check_against("rprop", {{"lr", 0.1}, {"eta_minus", 0.4}, {"eta_plus", 1.5}, {"step_min", 0.05}, {"step_max", 0.2}}, 6,
                [&](Element& e, double g) {
                  double size = e.t == 1 ? 0.1 : e.second;
                  if (g * e.first > 0) size *= 1.5, ++grown;
                  if (g * e.first < 0) size *= 0.4, g = 0, ++paused;
                  e.second = std::fmin(std::fmax(size, 0.05), 0.2);
                  if (g > 0) e.p -= e.second;
                  if (g < 0) e.p += e.second;
                  e.first = g;
                });
  CHECK(paused > 0);
  CHECK(grown > 0);
}

TEST_CASE("ASGD's rate falls, and its average begins behind step t0") {
  const std::map<std::string, double> values{{"lr", 0.1}, {"lambd", 0.5}, {"alpha", 0.75}, {"t0", 1}, {"weight_decay", 0.1}};
  const auto update = [](Element& e, double g) {
    g += 0.1 * e.p;
    const double eta = e.t == 1 ? 0.1 : 0.1 / std::pow(1 + 0.5 * 0.1 * (e.t - 1), 0.75);
    e.p *= 1 - 0.5 * eta;
    e.p -= eta * g;
    const double mu = 1 / std::fmax(1, e.t - 1 - 1);
    e.first = mu == 1 ? e.p : e.first + (e.p - e.first) * mu;
  };
  check_against("asgd", values, 5, update);
  const auto averages =
      train({"asgd", values, {gradient(3, 2, 0), gradient(3, 2, 1), gradient(3, 2, 2), gradient(3, 2, 3), gradient(3, 2, 4)}}, "w.ax");
  Element e{beginning(3, 2).values[4]};
  for (int step = 0; step < 5; ++step) {
    ++e.t;
    update(e, gradient(3, 2, step).values[4]);
    CHECK(averages[static_cast<std::size_t>(step)][4] == Approx(e.first).margin(1e-13));
  }
  CHECK(std::abs(e.first - e.p) > 1e-3);
}
