// Steps of optimizers (equations: exec/kernels/reference/optimizer.cpp), in f32 and in f64 for f64: what a whole tensor shares (powers of
// the betas, norms) is found in f64 by every team for itself, because step and norms lie where the host cannot read them.
// An element is read before it is written: results may lie over operands.

#include <cmath>
#include <span>
#include <utility>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/neighbours.hpp"
#include "exec/kernels/cuda/packs.hpp"
#include "exec/kernels/reference/mixed_update.hpp"
#include "exec/kernels/reference/moments.hpp"

namespace rehearsal::exec::cuda {
namespace {

constexpr std::int64_t kPacksOfTeam = 1024;
constexpr std::size_t kMostStates = 2;

/// Number of an attribute in the type that is computed in.
template <class R>
R number(const Call& call, const char* key, double otherwise) {
  return static_cast<R>(call.attributes().number(key, otherwise));
}

/// New values of a parameter and its states; Rule::prepare finds what all elements share. G: of the gradient. N: of the parameter's
/// rounding where there is one.
template <class T, class G, class N, class Rule>
struct Update {
  Packs<T> packs;
  const T* p;
  const G* g;
  const T* old[kMostStates];  ///< nullptr: 0
  T* fresh[kMostStates];      ///< nullptr: not kept
  T* out;
  N* rounded;  ///< nullptr: nobody reads it
  Rule rule;

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    using R = Real<T>;
    const auto shared = rule.prepare(team);
    const std::int64_t first = row * kPacksOfTeam, end = first + kPacksOfTeam, all = packs.packs();
    for (std::int64_t i = first + team.rank(); i < end && i < all; i += team.size()) {
      auto parameters = packs.load(p, i);
      const auto gradients = packs.load_beside(g, i);
      Pack<T> states[kMostStates] = {};
      for (int s = 0; s < Rule::kStates; ++s)
        if (old[s] != nullptr) states[s] = packs.load(old[s], i);
      Few<N, Pack<T>::kSize> roundings;
      for (int k = 0; k < Pack<T>::kSize; ++k) {
        R state[kMostStates] = {real(states[0].at[k]), real(states[1].at[k])};
        parameters.at[k] = static_cast<T>(rule(shared, real(parameters.at[k]), static_cast<R>(real(gradients.at[k])), state));
        roundings.at[k] = static_cast<N>(parameters.at[k]);
        for (int s = 0; s < Rule::kStates; ++s) states[s].at[k] = static_cast<T>(state[s]);
      }
      packs.store(out, i, parameters);
      if (rounded != nullptr) packs.store_beside(rounded, i, roundings);
      for (int s = 0; s < Rule::kStates; ++s)
        if (fresh[s] != nullptr) packs.store(fresh[s], i, states[s]);
    }
  }
};

template <class T, class G, class N, class Rule>
std::int64_t rows_of(const Update<T, G, N, Rule>& update) {
  return (update.packs.packs() + kPacksOfTeam - 1) / kPacksOfTeam;
}

/// Updates of so many tensors that one launch has room for among its arguments, of which every GPU takes 4 KB.
template <class One>
struct Updates {
  static constexpr std::size_t kMost = 4000 / (sizeof(One) + sizeof(std::int64_t));
  One each[kMost];
  std::int64_t begin[kMost];  ///< the first row of each
  int count = 0;

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    int last = count - 1;
    while (begin[last] > row) --last;
    each[last](team, row - begin[last]);
  }
};

template <template <class> class Rule>
struct Optimizer {
  template <class T, class G, class N>
  using UpdateOf = Update<T, G, N, Rule<Real<T>>>;

  template <class T>
  static void run(const Call& call) {
    run_mixed<T, T, T>(call);
  }
  template <class T, class G, class N>
  static void run_mixed(const Call& call) {
    const auto body = update_of<T, G, N>(call);
    for_each_row(call.context.stream, rows_of(body), std::min(body.packs.packs(), kPacksOfTeam), body);
  }
  template <class T, class G, class N>
  static void run_several(std::span<const Call> calls) {
    using All = Updates<UpdateOf<T, G, N>>;
    for (; !calls.empty(); calls = calls.subspan(std::min(calls.size(), All::kMost)))
      launch<T, G, N>(calls.first(std::min(calls.size(), All::kMost)), std::make_index_sequence<All::kMost>());
  }

 private:
  /// Places behind the last call repeat it: an update has no value of its own that means none.
  template <class T, class G, class N, std::size_t... I>
  static void launch(std::span<const Call> calls, std::index_sequence<I...>) {
    Updates<UpdateOf<T, G, N>> all{{update_of<T, G, N>(calls[std::min(I, calls.size() - 1)])...}, {}, static_cast<int>(calls.size())};
    std::int64_t rows = 0, packs = 1;
    for (std::size_t n = 0; n < calls.size(); ++n) {
      all.begin[n] = rows;
      rows += rows_of(all.each[n]);
      packs = std::max(packs, std::min(all.each[n].packs.packs(), kPacksOfTeam));
    }
    for_each_row(calls.front().context.stream, rows, packs, all);
  }

  template <class T, class G, class N>
  static UpdateOf<T, G, N> update_of(const Call& call) {
    using Chosen = Rule<Real<T>>;
    const std::size_t last = call.outputs.size() - 1;
    N* const rounded = reference::rounds_parameter(call) ? call.out<N>(last) : nullptr;
    const bool aligned = are_aligned({call.in<T>(0), call.in<G>(1), call.out<T>(), rounded});
    UpdateOf<T, G, N> body{
        {graph::element_count(call.in_shape(0)), aligned}, call.in<T>(0), call.in<G>(1), {}, {}, call.out<T>(), rounded, Chosen(call)};
    const std::size_t kept = last + (rounded == nullptr ? 1 : 0);  // parameter and states
    for (int s = 0; s < Chosen::kStates; ++s) {
      const std::size_t operand = Chosen::kFirstState + static_cast<std::size_t>(s), result = 1 + static_cast<std::size_t>(s);
      body.old[s] = call.has_input(operand) ? call.in<T>(operand) : nullptr;
      body.fresh[s] = result < kept && call.has_output(result) ? call.out<T>(result) : nullptr;
      body.packs.aligned = body.packs.aligned && are_aligned({body.old[s], body.fresh[s]});
    }
    return body;
  }
};

/// Updates of parameters in f32 whose passes compute in 16 bits, and of those whose gradient has their own type. N: of the rounding.
template <template <class> class Rule, class G, class N>
std::unique_ptr<Kernel> make_mixed(const KernelRequest& request, std::string& reason) {
  using Own = Optimizer<Rule>;
  return make_joinable(request, &Own::template run_mixed<float, G, N>, &Own::template run_several<float, G, N>, reason);
}

template <template <class> class Rule>
std::unique_ptr<Kernel> make_update(const KernelRequest& request, std::string& reason) {
  const DType parameter = request.view().input(0).dtype, gradient = request.view().input(1).dtype;
  const bool rounds = request.attributes.has(graph::kRoundedTo);
  const DType rounding = rounds ? request.outputs.back()->dtype : gradient;
  if (parameter == DType::F32 && gradient == DType::F32) {  // with a rounding: the sum of micro-batches in 16 bits
    if (rounding == DType::F32) return make_mixed<Rule, float, float>(request, reason);
    if (rounding == DType::BF16) return make_mixed<Rule, float, BFloat16>(request, reason);
    if (rounding == DType::F16) return make_mixed<Rule, float, Half>(request, reason);
  }
  if (parameter == gradient && !rounds) return make_by_output<Optimizer<Rule>, Floats>(request, reason);
  if (parameter == DType::F32 && rounding == gradient) {
    if (gradient == DType::BF16) return make_mixed<Rule, BFloat16, BFloat16>(request, reason);
    if (gradient == DType::F16) return make_mixed<Rule, Half, Half>(request, reason);
  }
  reason = "the gradient in " + std::string(name(gradient)) + " of a parameter in " + std::string(name(parameter));
  return nullptr;
}

struct Nothing {};

/// By squaring: a team's first thread waits for it before it can do anything, and pow() takes longer than the update of a short tensor.
REHEARSAL_BODY double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 != 0) result *= base;
  return result;
}

template <class R>
struct Sgd {
  static constexpr int kStates = 1;
  static constexpr std::size_t kFirstState = 3;  ///< operands: parameter, gradient, step, state...
  R lr, momentum, decay;
  bool nesterov;
  explicit Sgd(const Call& call)
      : lr(number<R>(call, "lr", 1e-3)),
        momentum(number<R>(call, "momentum", 0)),
        decay(number<R>(call, "weight_decay", 0)),
        nesterov(call.attributes().number("nesterov", 0) != 0) {}
  REHEARSAL_BODY Nothing prepare(const Team&) const { return {}; }
  REHEARSAL_BODY R operator()(Nothing, R p, R g, R* state) const {
    g += decay * p;
    state[0] = momentum * state[0] + g;
    return p - lr * (momentum == 0 ? g : nesterov ? g + momentum * state[0] : state[0]);
  }
};

/// Adam's moments, and one over their corrections after a step.
template <class R>
struct Moments {
  double beta1, beta2;
  R keep1, take1, keep2, take2, most, eps;
  const std::int64_t* step;
  std::int64_t settled;  ///< updates that the second moment has seen; -1: all
  struct Corrections {
    R one, two;
  };
  explicit Moments(const Call& call) : Moments(call, reference::MomentWeights(call)) {}
  Moments(const Call& call, const reference::MomentWeights& weights)
      : beta1(weights.beta1),
        beta2(weights.beta2),
        keep1(static_cast<R>(weights.keep1)),
        take1(static_cast<R>(weights.take1)),
        keep2(static_cast<R>(weights.keep2)),
        take2(static_cast<R>(weights.take2)),
        most(static_cast<R>(weights.most())),
        eps(number<R>(call, "eps", 1e-8)),
        step(call.in<std::int64_t>(2)),
        settled(weights.from) {}
  REHEARSAL_BODY Corrections corrections() const {
    const std::int64_t seen = settled < 0 || *step < settled ? *step : settled;
    return {static_cast<R>(1 / (1 - power(beta1, *step))), static_cast<R>(1 / (1 - power(beta2, seen)))};
  }
  REHEARSAL_BODY void advance(R g, R* state) const {
    state[1] = keep2 * state[1] + take2 * g * g;
    state[0] = keep1 * state[0] + take1 * g;
  }
  REHEARSAL_BODY R direction(const Corrections& by, R g, R* state) const {
    advance(g, state);
    const R root = std::sqrt(state[1] * by.two), held = most * root / by.one;
    if (settled >= 0) state[0] = state[0] > held ? held : state[0] < -held ? -held : state[0];
    return state[0] * by.one / (root + eps);
  }
};

template <class R>
struct Adam {
  static constexpr int kStates = 2;
  static constexpr std::size_t kFirstState = 3;
  Moments<R> moments;
  R lr, decay, kept;
  bool decoupled;
  explicit Adam(const Call& call)
      : moments(call),
        lr(number<R>(call, "lr", 1e-3)),
        decay(number<R>(call, "weight_decay", 0)),
        kept(static_cast<R>(1 - call.attributes().number("lr", 1e-3) * call.attributes().number("weight_decay", 0))),
        decoupled(call.attributes().number("decoupled", 0) != 0) {}
  REHEARSAL_BODY auto prepare(const Team&) const { return moments.corrections(); }
  REHEARSAL_BODY R operator()(const typename Moments<R>::Corrections& by, R p, R g, R* state) const {
    if (!decoupled) return p - lr * moments.direction(by, g + decay * p, state);
    return p * kept - lr * moments.direction(by, g, state);
  }
};

/// Dozat's schedule of the momentum: its value at a step, and the product of all values so far, found by the whole team.
struct NesterovMomentum {
  double beta1, decay;
  REHEARSAL_BODY double at(std::int64_t t) const { return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * decay)); }
  REHEARSAL_BODY double product(const Team& team, std::int64_t step) const {
    constexpr double kVanished = 1e-18;  // 1 - product is 1 from here on
    double product = 1;
    for (std::int64_t first = 1; first <= step && product > kVanished; first += team.size()) {
      const std::int64_t t = first + team.rank();
      product *= team.reduce(t <= step ? at(t) : 1.0, ProductOf{});
    }
    return product;
  }
};

template <class R>
struct Nadam {
  static constexpr int kStates = 2;
  static constexpr std::size_t kFirstState = 3;
  Moments<R> moments;
  NesterovMomentum mu;
  double lr;
  R decay;
  struct Shared {
    R of_gradient, of_average, correction;
  };
  explicit Nadam(const Call& call)
      : moments(call),
        mu{moments.beta1, call.attributes().number("momentum_decay", 4e-3)},
        lr(call.attributes().number("lr", 2e-3)),
        decay(number<R>(call, "weight_decay", 0)) {}
  REHEARSAL_BODY Shared prepare(const Team& team) const {
    const std::int64_t step = *moments.step;
    const double product = mu.product(team, step), next = mu.at(step + 1);
    return {static_cast<R>(lr * (1 - mu.at(step)) / (1 - product)), static_cast<R>(lr * next / (1 - product * next)),
            moments.corrections().two};
  }
  REHEARSAL_BODY R operator()(const Shared& s, R p, R g, R* state) const {
    g += decay * p;
    moments.advance(g, state);
    return p - (s.of_gradient * g + s.of_average * state[0]) / (std::sqrt(state[1] * s.correction) + moments.eps);
  }
};

template <class R>
struct Rmsprop {
  static constexpr int kStates = 2;
  static constexpr std::size_t kFirstState = 3;
  R lr, alpha, take, eps, momentum, decay;
  explicit Rmsprop(const Call& call)
      : lr(number<R>(call, "lr", 1e-2)),
        alpha(number<R>(call, "alpha", 0.99)),
        take(static_cast<R>(1 - call.attributes().number("alpha", 0.99))),
        eps(number<R>(call, "eps", 1e-8)),
        momentum(number<R>(call, "momentum", 0)),
        decay(number<R>(call, "weight_decay", 0)) {}
  REHEARSAL_BODY Nothing prepare(const Team&) const { return {}; }
  REHEARSAL_BODY R operator()(Nothing, R p, R g, R* state) const {
    g += decay * p;
    state[0] = alpha * state[0] + take * g * g;
    state[1] = momentum * state[1] + g / (std::sqrt(state[0]) + eps);
    return p - lr * state[1];
  }
};

template <class R>
struct Adagrad {
  static constexpr int kStates = 1;
  static constexpr std::size_t kFirstState = 3;
  R lr, eps, decay;
  explicit Adagrad(const Call& call)
      : lr(number<R>(call, "lr", 1e-2)), eps(number<R>(call, "eps", 1e-10)), decay(number<R>(call, "weight_decay", 0)) {}
  REHEARSAL_BODY Nothing prepare(const Team&) const { return {}; }
  REHEARSAL_BODY R operator()(Nothing, R p, R g, R* state) const {
    g += decay * p;
    state[0] += g * g;
    return p - lr * g / (std::sqrt(state[0]) + eps);
  }
};

/// Operands: parameter, gradient, their squared norms, momentum.
template <class R>
struct Lars {
  static constexpr int kStates = 1;
  static constexpr std::size_t kFirstState = 4;
  const double *p_square, *g_square;
  double lr, trust, decay;
  R momentum;
  explicit Lars(const Call& call)
      : p_square(call.in<double>(2)),
        g_square(call.in<double>(3)),
        lr(call.attributes().number("lr", 1e-3)),
        trust(call.attributes().number("trust", 1e-3)),
        decay(call.attributes().number("weight_decay", 0)),
        momentum(number<R>(call, "momentum", 0)) {}
  REHEARSAL_BODY R prepare(const Team&) const {
    const double p_norm = std::sqrt(*p_square), g_norm = std::sqrt(*g_square);
    const double local = p_norm > 0 && g_norm > 0 ? trust * p_norm / (g_norm + decay * p_norm) : 1.0;
    return static_cast<R>(lr * local);
  }
  REHEARSAL_BODY R operator()(R rate, R p, R g, R* state) const {
    state[0] = momentum * state[0] + rate * (g + static_cast<R>(decay) * p);
    return p - state[0];
  }
};

template <class R>
struct LambDirection {
  static constexpr int kStates = 2;
  static constexpr std::size_t kFirstState = 3;
  Moments<R> moments;
  R decay;
  explicit LambDirection(const Call& call) : moments(call), decay(number<R>(call, "weight_decay", 0)) {}
  REHEARSAL_BODY auto prepare(const Team&) const { return moments.corrections(); }
  REHEARSAL_BODY R operator()(const typename Moments<R>::Corrections& by, R p, R g, R* state) const {
    return moments.direction(by, g, state) + decay * p;
  }
};

/// alpha x + beta y.
template <class R>
struct LinearCombination {
  static constexpr int kStates = 0;
  static constexpr std::size_t kFirstState = 2;
  R alpha, beta;
  explicit LinearCombination(const Call& call) : alpha(number<R>(call, "alpha", 1)), beta(number<R>(call, "beta", 1)) {}
  REHEARSAL_BODY Nothing prepare(const Team&) const { return {}; }
  REHEARSAL_BODY R operator()(Nothing, R x, R y, R*) const { return alpha * x + beta * y; }
};

/// Operands: parameter, direction, their squared norms.
template <class R>
struct LambUpdate {
  static constexpr int kStates = 0;
  static constexpr std::size_t kFirstState = 4;
  const double *p_square, *u_square;
  double lr;
  explicit LambUpdate(const Call& call)
      : p_square(call.in<double>(2)), u_square(call.in<double>(3)), lr(call.attributes().number("lr", 1e-3)) {}
  REHEARSAL_BODY R prepare(const Team&) const {
    const double p_norm = std::sqrt(*p_square), u_norm = std::sqrt(*u_square);
    return static_cast<R>(p_norm > 0 && u_norm > 0 ? lr * p_norm / u_norm : lr);
  }
  REHEARSAL_BODY R operator()(R rate, R p, R u, R*) const { return p - rate * u; }
};

/// Operands: parameter, gradient, step, squared norm of the gradient, first and second moment.
template <class R>
struct Novograd {
  static constexpr int kStates = 2;
  static constexpr std::size_t kFirstState = 4;
  const std::int64_t* step;
  const double* g_square;
  R lr, beta1, beta2, take2, eps, decay;
  struct Shared {
    R square;
    bool first;
  };
  explicit Novograd(const Call& call)
      : step(call.in<std::int64_t>(2)),
        g_square(call.in<double>(3)),
        lr(number<R>(call, "lr", 1e-3)),
        beta1(number<R>(call, "beta1", 0.95)),
        beta2(number<R>(call, "beta2", 0.98)),
        take2(static_cast<R>(1 - call.attributes().number("beta2", 0.98))),
        eps(number<R>(call, "eps", 1e-8)),
        decay(number<R>(call, "weight_decay", 0)) {}
  REHEARSAL_BODY Shared prepare(const Team&) const { return {static_cast<R>(*g_square), *step == 1}; }
  REHEARSAL_BODY R operator()(const Shared& s, R p, R g, R* state) const {
    state[1] = s.first ? s.square : beta2 * state[1] + take2 * s.square;
    state[0] = beta1 * state[0] + (g / (std::sqrt(state[1]) + eps) + decay * p);
    return p - lr * state[0];
  }
};

constexpr std::string_view kName = "cuda:optimizer";
const KernelRow kRows[] = {
    {"SgdUpdate", kName, make_update<Sgd>},
    {"AdamUpdate", kName, make_update<Adam>},
    {"NadamUpdate", kName, make_update<Nadam>},
    {"RmspropUpdate", kName, make_update<Rmsprop>},
    {"AdagradUpdate", kName, make_update<Adagrad>},
    {"LarsUpdate", kName, make_by_output<Optimizer<Lars>, Floats>},
    {"LambDirection", kName, make_by_output<Optimizer<LambDirection>, Floats>},
    {"LinearCombination", kName, make_by_output<Optimizer<LinearCombination>, Floats>},
    {"LambUpdate", kName, make_by_output<Optimizer<LambUpdate>, Floats>},
    {"NovogradUpdate", kName, make_by_output<Optimizer<Novograd>, Floats>},
};

}  // namespace

std::span<const KernelRow> optimizer_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
