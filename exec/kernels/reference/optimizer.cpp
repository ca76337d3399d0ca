// The equations of PyTorch's optimizers, computed in double and stored in the parameter's type.
// Every body reads element i before it writes it: results may lie over operands.

#include <algorithm>
#include <cmath>

#include "exec/kernels/reference/each_parameter.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/moments.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/step_interval.hpp"

namespace rehearsal::exec::reference {
namespace {

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
      : weights(call),
        beta1(weights.beta1),
        beta2(weights.beta2),
        eps(call.attributes().number("eps", 1e-8)),
        correction1(1 - std::pow(beta1, static_cast<double>(*call.in<std::int64_t>(2)))),
        correction2(1 - std::pow(beta2, static_cast<double>(weights.seen_by_second(*call.in<std::int64_t>(2))))) {}
  double direction(double g, double* state) const {
    state[1] = weights.keep2 * state[1] + weights.take2 * g * g;
    state[0] = weights.keep1 * state[0] + weights.take1 * g;
    const double root = std::sqrt(state[1] / correction2), most = weights.most() * root * correction1;
    if (weights.holds()) state[0] = std::clamp(state[0], -most, most);
    return state[0] / correction1 / (root + eps);
  }
  MomentWeights weights;
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

struct Lion {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-4), beta1 = a.number("beta1", 0.9), beta2 = a.number("beta2", 0.99),
                 decay = a.number("weight_decay", 0);
    each_parameter<T, 1>(call, kFirstState, [=](double p, double g, double* state) {
      const double between = beta1 * state[0] + (1 - beta1) * g;
      state[0] = beta2 * state[0] + (1 - beta2) * g;
      const double sign = between > 0 ? 1 : between < 0 ? -1 : 0;
      return p * (1 - lr * decay) - lr * sign;
    });
  }
};

/// Operands: sum of weights, highest rate; results: share of this step, both.
struct ScheduleFreeShare {
  template <class T>
  static void run(const Call& call) {
    const double highest = std::max(call.attributes().number("lr", 0), *call.in<double>(1));
    const double weight = std::pow(highest, call.attributes().number("weight_power", 2)), sum = *call.in<double>(0) + weight;
    *call.out<double>(0) = sum > 0 ? weight / sum : 0;
    *call.out<double>(1) = sum;
    *call.out<double>(2) = highest;
  }
};

struct AveragedStep {
  AveragedStep(const Call& call, const char* share_name, std::size_t operand)
      : lr(call.attributes().number("lr", 0)),
        share(call.attributes().number(share_name, 0.9)),
        decay(call.attributes().number("weight_decay", 0)),
        fresh(*call.in<double>(operand)) {}
  /// From y and z along a direction: z takes the whole step, y what is left of it.
  double moved(double y, double direction, double& z) const {
    y += fresh * (z - y) + lr * (share * (1 - fresh) - 1) * direction;
    z -= lr * direction;
    return y;
  }
  double lr, share, decay, fresh;
};

/// Operands: parameter, gradient, step or none, z, share of this step.
struct ScheduleFreeSgd {
  template <class T>
  static void run(const Call& call) {
    const AveragedStep step(call, "momentum", 4);
    each_parameter<T, 1>(call, kFirstState, [&](double p, double g, double* state) { return step.moved(p, g + step.decay * p, state[0]); });
  }
};

/// Operands: parameter, gradient, step, z, second moment, share of this step.
struct ScheduleFreeAdamw {
  template <class T>
  static void run(const Call& call) {
    const AveragedStep step(call, "beta1", 5);
    const double beta2 = call.attributes().number("beta2", 0.999), eps = call.attributes().number("eps", 1e-8);
    const double correction = 1 - std::pow(beta2, static_cast<double>(*call.in<std::int64_t>(2)));
    each_parameter<T, 2>(call, kFirstState, [&](double p, double g, double* state) {
      state[1] = beta2 * state[1] + (1 - beta2) * g * g;
      return step.moved(p, g / (std::sqrt(state[1] / correction) + eps) + step.decay * p, state[0]);
    });
  }
};

/// Operands: average, mean of squares, step.
struct AdafactorAverage {
  template <class T>
  static void run(const Call& call) {
    const double share = std::pow(static_cast<double>(*call.in<std::int64_t>(2)), -call.attributes().number("decay_rate", 0.8));
    each_parameter<T, 0>(call, 3, [=](double average, double mean, double*) { return average + share * (mean - average); });
  }
};

/// Operands: gradient and variance, or gradient, variance of rows, of columns, and the mean of that of rows.
struct AdafactorDirection {
  template <class T>
  static void run(const Call& call) {
    const double eps = call.attributes().number("eps", 0x1p-23);
    if (!call.has_input(2)) {
      each_parameter<T, 0>(call, 2, [=](double g, double v, double*) { return g / std::sqrt(std::max(v, eps * eps)); });
      return;
    }
    const auto& shape = call.in_shape(0);
    const std::int64_t rows = shape[shape.size() - 2], columns = shape.back(),
                       matrices = graph::element_count(shape) / std::max<std::int64_t>(1, rows * columns);
    const T *g = call.in<T>(0), *of_rows = call.in<T>(1), *of_columns = call.in<T>(2), *mean = call.in<T>(3);
    T* out = call.out<T>();
    parallel_items(call.threads(), matrices * rows, 1, [&](std::int64_t row) {
      const std::int64_t matrix = row / rows;
      const double share = static_cast<double>(of_rows[row]) / std::max(static_cast<double>(mean[matrix]), eps);
      for (std::int64_t c = 0; c < columns; ++c) {
        const double variance = share * static_cast<double>(of_columns[matrix * columns + c]);
        out[row * columns + c] = static_cast<T>(static_cast<double>(g[row * columns + c]) / std::sqrt(std::max(variance, eps * eps)));
      }
    });
  }
};

/// Operands: parameter, direction, step, their squared norms.
struct AdafactorUpdate {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-2), decay = a.number("weight_decay", 0);
    const auto elements = static_cast<double>(a.integer("elements", 1));
    const double rate = std::min(lr, 1 / std::sqrt(static_cast<double>(*call.in<std::int64_t>(2))));
    const double size = std::sqrt(*call.in<double>(3) / elements), direction = std::sqrt(*call.in<double>(4) / elements);
    const double step = rate * std::max(a.number("eps2", 1e-3), size) / std::max(1.0, direction / a.number("clip", 1));
    each_parameter<T, 0>(call, 5, [=](double p, double u, double*) { return p * (1 - lr * decay) - step * u; });
  }
};

/// Operands: gradient, momentum; results: direction, momentum. each_parameter's "parameter" is the gradient.
struct MuonMomentum {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double momentum = a.number("momentum", 0.95);
    const bool nesterov = a.number("nesterov", 1) != 0;
    each_parameter<T, 1>(call, 1, [=](double g, double, double* state) {
      state[0] = momentum * state[0] + (1 - momentum) * g;
      return nesterov ? momentum * state[0] + (1 - momentum) * g : state[0];
    });
  }
};

/// Operands: matrices, the squared norm of each.
struct DivideByNorm {
  template <class T>
  static void run(const Call& call) {
    const double least = call.attributes().number("least", 0);
    const std::int64_t matrices = graph::element_count(call.in_shape(1));
    const std::int64_t each = matrices == 0 ? 0 : graph::element_count(call.in_shape(0)) / matrices;
    const T *x = call.in<T>(0), *square = call.in<T>(1);
    T* out = call.out<T>();
    parallel_items(call.threads(), matrices * each, kOptimizerGrain, [&](std::int64_t i) {
      out[i] = static_cast<T>(static_cast<double>(x[i]) / std::max(least, std::sqrt(static_cast<double>(square[i / each]))));
    });
  }
};

struct LinearCombination {
  template <class T>
  static void run(const Call& call) {
    const double alpha = call.attributes().number("alpha", 1), beta = call.attributes().number("beta", 1);
    each_parameter<T, 0>(call, 2, [=](double x, double y, double*) { return alpha * x + beta * y; });
  }
};

/// Operands: parameter, direction.
struct MuonUpdate {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const double lr = a.number("lr", 1e-3), kept = 1 - lr * a.number("weight_decay", 0), step = lr * a.number("scale", 1);
    each_parameter<T, 0>(call, 2, [=](double p, double u, double*) { return kept * p - step * u; });
  }
};

/// Operands: turned momentum, turned gradient, step, second moment; results: direction, second moment.
struct SoapDirection {
  template <class T>
  static void run(const Call& call) {
    const OptimizerMoments moments(call);
    each_parameter<T, 1>(call, kFirstState, [&](double m, double g, double* state) {
      state[0] = moments.beta2 * state[0] + (1 - moments.beta2) * g * g;
      return m / moments.correction1 / (std::sqrt(state[0] / moments.correction2) + moments.eps);
    });
  }
};

/// Operands: average, product, step.
struct FactorAverage {
  template <class T>
  static void run(const Call& call) {
    const auto& a = call.attributes();
    const std::int64_t step = *call.in<std::int64_t>(2);
    const auto nth = static_cast<double>((step - 1) / a.integer("interval", 1) + 1);
    const double kept = computes_in(step, a) ? std::min(a.number("decay", 0), 1 - 1 / nth) : 1;
    each_parameter<T, 0>(call, 3, [=](double average, double product, double*) { return kept * average + (1 - kept) * product; });
  }
};

/// Operands: a matrix, the sum of products of matrices and gradients over all weights.
struct DivergenceClip {
  template <class T>
  static void run(const Call& call) {
    const double lr = call.attributes().number("lr", 1e-3), clip = call.attributes().number("clip", 1e-3);
    const double divergence = lr * lr * std::abs(*call.in<double>(1));
    const double factor = divergence > clip ? std::sqrt(clip / divergence) : 1;
    const T* x = call.in<T>(0);
    T* out = call.out<T>();
    parallel_items(call.threads(), graph::element_count(call.in_shape(0)), kOptimizerGrain,
                   [&](std::int64_t i) { out[i] = static_cast<T>(static_cast<double>(x[i]) * factor); });
  }
};

/// Operand: two vectors, one behind the other. In one thread and one order, as norms are.
struct AdaptiveSumProducts {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t each = graph::element_count(call.in_shape(0)) / 2;
    const T *a = call.in<T>(0), *b = a + each;
    double aa = 0, ab = 0, bb = 0;
    for (std::int64_t i = 0; i < each; ++i) {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      aa += x * x, ab += x * y, bb += y * y;
    }
    double* out = call.out<double>();
    out[0] = aa, out[1] = ab, out[2] = bb;
  }
};

/// A vector of zeros has nothing in common with another.
struct AdaptiveSum {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t each = graph::element_count(call.out_shape());
    const T *a = call.in<T>(0), *b = a + each;
    const double* products = call.in<double>(1);
    const auto factor = [&](double square) { return square > 0 ? 1 - products[1] / (2 * square) : 1; };
    const double of_a = factor(products[0]), of_b = factor(products[2]);
    T* out = call.out<T>();
    parallel_items(call.threads(), each, kOptimizerGrain,
                   [&](std::int64_t i) { out[i] = static_cast<T>(of_a * static_cast<double>(a[i]) + of_b * static_cast<double>(b[i])); });
  }
};

/// In one thread and one order: norms must not depend on the number of threads.
template <class T>
double square_of(const Call& call) {
  const T* x = call.in<T>(0);
  double sum = 0;
  for (std::int64_t i = 0; i < graph::element_count(call.in_shape(0)); ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

struct SquaredNorm {
  template <class T>
  static void run(const Call& call) {
    *call.out<double>() = square_of<T>(call);
  }
};

struct SquaredNormOfParts {
  template <class T>
  static void run(const Call& call) {
    double* out = call.out<double>();
    std::fill_n(out, call.out_shape()[0], 0.0);
    const std::int64_t first = call.context.first_sample;  // behind the last one where a rank has none
    if (first < call.out_shape()[0]) out[first] = square_of<T>(call);
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
    {"LionUpdate", "reference:any", make_by_output<Lion, Floats>},
    {"ScheduleFreeShare", "reference:any", make_by_output<ScheduleFreeShare, Types<double>>},
    {"ScheduleFreeSgdUpdate", "reference:any", make_by_output<ScheduleFreeSgd, Floats>},
    {"ScheduleFreeAdamwUpdate", "reference:any", make_by_output<ScheduleFreeAdamw, Floats>},
    {"AdafactorAverage", "reference:any", make_by_output<AdafactorAverage, Floats>},
    {"AdafactorDirection", "reference:any", make_by_output<AdafactorDirection, Floats>},
    {"AdafactorUpdate", "reference:any", make_by_output<AdafactorUpdate, Floats>},
    {"MuonMomentum", "reference:any", make_by_output<MuonMomentum, Floats>},
    {"DivideByNorm", "reference:any", make_by_output<DivideByNorm, Floats>},
    {"LinearCombination", "reference:any", make_by_output<LinearCombination, Floats>},
    {"MuonUpdate", "reference:any", make_by_output<MuonUpdate, Floats>},
    {"SoapDirection", "reference:any", make_by_output<SoapDirection, Floats>},
    {"FactorAverage", "reference:any", make_by_output<FactorAverage, Floats>},
    {"DivergenceClip", "reference:any", make_by_output<DivergenceClip, Floats>},
    {"AdaptiveSumProducts", "reference:any", make_by_input<AdaptiveSumProducts, Floats>},
    {"AdaptiveSum", "reference:any", make_by_output<AdaptiveSum, Floats>},
    {"SquaredNorm", "reference:any", make_by_input<SquaredNorm, Floats>},
    {"SquaredNormOfParts", "reference:any", make_by_input<SquaredNormOfParts, Floats>},
};

}  // namespace

std::span<const KernelRow> optimizer_kernels() { return kOptimizerRows; }

}  // namespace rehearsal::exec::reference
