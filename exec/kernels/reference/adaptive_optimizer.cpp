// More of PyTorch's optimizers, computed in double and stored in the parameter's type. Operands: parameter, gradient, step, state.

#include <algorithm>
#include <cmath>

#include "exec/kernels/reference/each_parameter.hpp"
#include "exec/kernels/reference/families.hpp"

namespace rehearsal::exec::reference {
namespace {

double number_of_step(const Call& call) { return static_cast<double>(*call.in<std::int64_t>(2)); }

/// State: averages of squares of gradients and of steps.
struct Adadelta {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1), rho = a.number("rho", 0.9), eps = a.number("eps", 1e-6), decay = a.number("weight_decay", 0);
    each_parameter<T, 2>(call, kFirstState, [=](double p, double g, double* state) {
      g += decay * p;
      state[0] = rho * state[0] + (1 - rho) * g * g;
      const double step = std::sqrt((state[1] + eps) / (state[0] + eps)) * g;
      state[1] = rho * state[1] + (1 - rho) * step * step;
      return p - lr * step;
    });
  }
};

/// State: the first moment, and the largest gradient, which fades.
struct Adamax {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double beta1 = a.number("beta1", 0.9), beta2 = a.number("beta2", 0.999), eps = a.number("eps", 1e-8),
                 decay = a.number("weight_decay", 0), lr = a.number("lr", 2e-3) / (1 - std::pow(beta1, number_of_step(call)));
    each_parameter<T, 2>(call, kFirstState, [=](double p, double g, double* state) {
      g += decay * p;
      state[0] = beta1 * state[0] + (1 - beta1) * g;
      state[1] = std::max(beta2 * state[1], std::abs(g) + eps);
      return p - lr * state[0] / state[1];
    });
  }
};

/// What the second moment is worth after so many steps; 0 while its variance is not bounded (Liu et al. 2020, algorithm 2).
double rectification(double beta2, double step) {
  constexpr double kBounded = 5;  // PyTorch's threshold; the paper has 4
  const double most = 2 / (1 - beta2) - 1, decayed = std::pow(beta2, step), length = most - 2 * step * decayed / (1 - decayed);
  if (length <= kBounded) return 0;
  return std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
}

struct Radam {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double beta1 = a.number("beta1", 0.9), beta2 = a.number("beta2", 0.999), eps = a.number("eps", 1e-8),
                 decay = a.number("weight_decay", 0), step = number_of_step(call);
    const double lr = a.number("lr", 1e-3) / (1 - std::pow(beta1, step)), root = std::sqrt(1 - std::pow(beta2, step)),
                 rectified = rectification(beta2, step);
    each_parameter<T, 2>(call, kFirstState, [=](double p, double g, double* state) {
      g += decay * p;
      state[0] = beta1 * state[0] + (1 - beta1) * g;
      state[1] = beta2 * state[1] + (1 - beta2) * g * g;
      return p - lr * state[0] * (rectified > 0 ? rectified * root / (std::sqrt(state[1]) + eps) : 1);
    });
  }
};

/// State: the gradient before, and how far an element goes, which begins at the rate.
struct Rprop {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double shrink = a.number("eta_minus", 0.5), grow = a.number("eta_plus", 1.2), least = a.number("step_min", 1e-6),
                 most = a.number("step_max", 50), lr = a.number("lr", 1e-2);
    const bool first = number_of_step(call) == 1;
    each_parameter<T, 2>(call, kFirstState, [=](double p, double g, double* state) {
      const double agrees = g * state[0], size = first ? lr : state[1];
      state[1] = std::min(most, std::max(least, size * (agrees > 0 ? grow : agrees < 0 ? shrink : 1)));
      state[0] = agrees < 0 ? 0 : g;
      return p - (state[0] > 0 ? state[1] : state[0] < 0 ? -state[1] : 0);
    });
  }
};

/// State: the average of the parameter from step t0 on, until then the parameter.
struct Asgd {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-2), lambda = a.number("lambd", 1e-4), decay = a.number("weight_decay", 0),
                 step = number_of_step(call);
    const double rate = step == 1 ? lr : lr / std::pow(1 + lambda * lr * (step - 1), a.number("alpha", 0.75));
    const double share = 1 / std::max(1.0, step - 1 - a.number("t0", 1e6));
    each_parameter<T, 1>(call, kFirstState, [=](double p, double g, double* state) {
      p = p * (1 - lambda * rate) - rate * (g + decay * p);
      state[0] += share * (p - state[0]);
      return p;
    });
  }
};

constexpr KernelRow kAdaptiveOptimizerRows[] = {
    {"AdadeltaUpdate", "reference:any", make_by_output<Adadelta, Floats>},
    {"AdamaxUpdate", "reference:any", make_by_output<Adamax, Floats>},
    {"RadamUpdate", "reference:any", make_by_output<Radam, Floats>},
    {"RpropUpdate", "reference:any", make_by_output<Rprop, Floats>},
    {"AsgdUpdate", "reference:any", make_by_output<Asgd, Floats>},
};

}  // namespace

std::span<const KernelRow> adaptive_optimizer_kernels() { return kAdaptiveOptimizerRows; }

}  // namespace rehearsal::exec::reference
