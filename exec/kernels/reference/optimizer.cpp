// The equations of PyTorch's optimizers, computed in double and stored in the parameter's type.
// Every body reads element i before it writes it: results may lie over operands.

#include <cmath>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::int64_t kOptimizerGrain = 4096;
constexpr std::size_t kFirstState = 3;  ///< operands: parameter, gradient, step, state...

/// Runs update(parameter, gradient, state of element i) -> new parameter, for every element; `state` is updated in place.
template <class T, std::size_t kStates, class F>
void each_parameter(const Call& call, std::size_t first_state, F&& update) {
  const T *p = call.in<T>(0), *g = call.in<T>(1);
  T* out = call.out<T>(0);
  parallel_items(call.threads(), graph::element_count(call.in_shape(0)), kOptimizerGrain, [&](std::int64_t i) {
    double state[kStates + 1] = {};
    for (std::size_t s = 0; s < kStates; ++s)
      state[s] = call.has_input(first_state + s) ? static_cast<double>(call.in<T>(first_state + s)[i]) : 0.0;
    out[i] = static_cast<T>(update(static_cast<double>(p[i]), static_cast<double>(g[i]), state));
    for (std::size_t s = 0; s < kStates; ++s) {
      if (call.has_output(s + 1)) call.out<T>(s + 1)[i] = static_cast<T>(state[s]);
    }
  });
}

struct Sgd {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-3), momentum = a.number("momentum", 0), decay = a.number("weight_decay", 0);
    const bool nesterov = a.number("nesterov", 0) != 0;
    each_parameter<T, 1>(call, kFirstState, [=](double p, double g, double* state) {
      g += decay * p;
      state[0] = momentum * state[0] + g;  // from zero: the first step's buffer is the gradient
      return p - lr * (momentum == 0 ? g : nesterov ? g + momentum * state[0] : state[0]);
    });
  }
};

/// Adam's moments after a step, with their bias corrections.
struct OptimizerMoments {
  explicit OptimizerMoments(const Call& call)
      : beta1(call.attributes().number("beta1", 0.9)),
        beta2(call.attributes().number("beta2", 0.999)),
        eps(call.attributes().number("eps", 1e-8)),
        correction1(1 - std::pow(beta1, static_cast<double>(*call.in<std::int64_t>(2)))),
        correction2(1 - std::pow(beta2, static_cast<double>(*call.in<std::int64_t>(2)))) {}
  double direction(double g, double* state) const {
    state[0] = beta1 * state[0] + (1 - beta1) * g;
    state[1] = beta2 * state[1] + (1 - beta2) * g * g;
    return state[0] / correction1 / (std::sqrt(state[1] / correction2) + eps);
  }
  double beta1, beta2, eps, correction1, correction2;
};

struct Adam {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-3), decay = a.number("weight_decay", 0);
    const bool decoupled = a.number("decoupled", 0) != 0;
    const OptimizerMoments moments(call);
    each_parameter<T, 2>(call, kFirstState, [&](double p, double g, double* state) {
      if (!decoupled) return p - lr * moments.direction(g + decay * p, state);
      return p * (1 - lr * decay) - lr * moments.direction(g, state);
    });
  }
};

/// Dozat's schedule of the momentum, and the product of all its values so far (PyTorch: mu, mu_product).
struct NesterovMomentum {
  NesterovMomentum(double beta1, double decay, std::int64_t step) {
    const auto at = [=](std::int64_t t) { return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * decay)); };
    now = at(step);
    next = at(step + 1);
    constexpr double kVanished = 1e-18;  // 1 - product is 1 from here on
    for (std::int64_t t = 1; t <= step && product > kVanished; ++t) product *= at(t);
  }
  double now = 0, next = 0, product = 1;
};

struct Nadam {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 2e-3), decay = a.number("weight_decay", 0);
    const OptimizerMoments moments(call);
    const NesterovMomentum mu(moments.beta1, a.number("momentum_decay", 4e-3), *call.in<std::int64_t>(2));
    const double of_gradient = lr * (1 - mu.now) / (1 - mu.product), of_average = lr * mu.next / (1 - mu.product * mu.next);
    each_parameter<T, 2>(call, kFirstState, [=](double p, double g, double* state) {
      g += decay * p;
      state[0] = moments.beta1 * state[0] + (1 - moments.beta1) * g;
      state[1] = moments.beta2 * state[1] + (1 - moments.beta2) * g * g;
      return p - (of_gradient * g + of_average * state[0]) / (std::sqrt(state[1] / moments.correction2) + moments.eps);
    });
  }
};

struct Rmsprop {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-2), alpha = a.number("alpha", 0.99), eps = a.number("eps", 1e-8);
    const double momentum = a.number("momentum", 0), decay = a.number("weight_decay", 0);
    each_parameter<T, 2>(call, kFirstState, [=](double p, double g, double* state) {
      g += decay * p;
      state[0] = alpha * state[0] + (1 - alpha) * g * g;
      state[1] = momentum * state[1] + g / (std::sqrt(state[0]) + eps);
      return p - lr * state[1];
    });
  }
};

struct Adagrad {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-2), eps = a.number("eps", 1e-10), decay = a.number("weight_decay", 0);
    each_parameter<T, 1>(call, kFirstState, [=](double p, double g, double* state) {
      g += decay * p;
      state[0] += g * g;
      return p - lr * g / (std::sqrt(state[0]) + eps);
    });
  }
};

/// Operands: parameter, gradient, their squared norms, momentum.
struct Lars {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-3), trust = a.number("trust", 1e-3), momentum = a.number("momentum", 0),
                 decay = a.number("weight_decay", 0);
    const double p_norm = std::sqrt(*call.in<double>(2)), g_norm = std::sqrt(*call.in<double>(3));
    const double local = p_norm > 0 && g_norm > 0 ? trust * p_norm / (g_norm + decay * p_norm) : 1.0;
    each_parameter<T, 1>(call, 4, [=](double p, double g, double* state) {
      state[0] = momentum * state[0] + lr * local * (g + decay * p);
      return p - state[0];
    });
  }
};

struct LambDirection {
  template <class T>
  static void run(const Call& call) {
    const double decay = call.attributes().number("weight_decay", 0);
    const OptimizerMoments moments(call);
    each_parameter<T, 2>(call, kFirstState, [&](double p, double g, double* state) { return moments.direction(g, state) + decay * p; });
  }
};

/// Operands: parameter, direction, their squared norms.
struct LambUpdate {
  template <class T>
  static void run(const Call& call) {
    const double lr = call.attributes().number("lr", 1e-3);
    const double p_norm = std::sqrt(*call.in<double>(2)), u_norm = std::sqrt(*call.in<double>(3));
    const double ratio = p_norm > 0 && u_norm > 0 ? p_norm / u_norm : 1.0;
    each_parameter<T, 0>(call, 4, [=](double p, double u, double*) { return p - lr * ratio * u; });
  }
};

/// Operands: parameter, gradient, step, squared norm of the gradient, first and second moment.
struct NovogradUpdate {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-3), beta1 = a.number("beta1", 0.95), beta2 = a.number("beta2", 0.98), eps = a.number("eps", 1e-8),
                 decay = a.number("weight_decay", 0), squares = *call.in<double>(3);
    const bool first = *call.in<std::int64_t>(2) == 1;
    each_parameter<T, 2>(call, 4, [=](double p, double g, double* state) {
      state[1] = first ? squares : beta2 * state[1] + (1 - beta2) * squares;
      const double norm = std::sqrt(state[1]) + eps;
      state[0] = beta1 * state[0] + (g / norm + decay * p);
      return p - lr * state[0];
    });
  }
};

/// In one thread and one order: norms must not depend on the number of threads.
struct SquaredNorm {
  template <class T>
  static void run(const Call& call) {
    const T* x = call.in<T>(0);
    double sum = 0;
    for (std::int64_t i = 0; i < graph::element_count(call.in_shape(0)); ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    *call.out<double>() = sum;
  }
};

constexpr KernelRow kOptimizerRows[] = {
    {"SgdUpdate", "reference:any", make_by_output<Sgd, Floats>},
    {"AdamUpdate", "reference:any", make_by_output<Adam, Floats>},
    {"NadamUpdate", "reference:any", make_by_output<Nadam, Floats>},
    {"RmspropUpdate", "reference:any", make_by_output<Rmsprop, Floats>},
    {"AdagradUpdate", "reference:any", make_by_output<Adagrad, Floats>},
    {"LarsUpdate", "reference:any", make_by_output<Lars, Floats>},
    {"LambDirection", "reference:any", make_by_output<LambDirection, Floats>},
    {"LambUpdate", "reference:any", make_by_output<LambUpdate, Floats>},
    {"NovogradUpdate", "reference:any", make_by_output<NovogradUpdate, Floats>},
    {"SquaredNorm", "reference:any", make_by_input<SquaredNorm, Floats>},
};

}  // namespace

std::span<const KernelRow> optimizer_kernels() { return kOptimizerRows; }

}  // namespace rehearsal::exec::reference
