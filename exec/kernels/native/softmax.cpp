// Softmax along the last axis, and cross entropy of scores whose classes lie one after another.

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::native {
namespace {

struct Softmax {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.out_shape().back(), rows = graph::element_count(call.out_shape()) / length;
    parallel_items(call.threads(), rows, kElementsWorthAThread / (8 * length) + 1, [&](std::int64_t row) {
      loops_over<T>().softmax_row(call.out<T>() + row * length, call.in<T>(0) + row * length, length);
    });
  }
};

/// dY, Y -> dX.
struct SoftmaxGradient {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.out_shape().back(), rows = graph::element_count(call.out_shape()) / length;
    parallel_items(call.threads(), rows, kElementsWorthAThread / length + 1, [&](std::int64_t row) {
      const std::int64_t at = row * length;
      const T *dy = call.in<T>(0) + at, *y = call.in<T>(1) + at;
      // a hidden row whose results were replaced (reference/softmax.cpp)
      if (std::isnan(number(y[0])) && std::all_of(dy, dy + length, [](T g) { return number(g) == 0; }))
        return void(std::fill_n(call.out<T>() + at, length, T{}));
      loops_over<T>().softmax_gradient_row(call.out<T>() + at, dy, y, length);
    });
  }
};

template <class B>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  if (graph::axis_of(request.view(), -1) + 1 != request.view().output().shape.size()) {
    reason = "only along the last axis";
    return nullptr;
  }
  return make_kernel(request, body_of<B>(request));
}

struct SoftmaxLogSumExp {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t classes = call.in_shape(0).back(), rows = graph::element_count(call.in_shape(0)) / classes;
    parallel_items(call.threads(), rows, kElementsWorthAThread / (8 * classes) + 1,
                   [&](std::int64_t i) { call.out<double>()[i] = loops_over<T>().log_sum_exp(call.in<T>(0) + i * classes, classes); });
  }
};

/// One score row per label: of all classes, or of a block of them that begins at `first`.
template <class T>
struct SoftmaxScores {
  SoftmaxScores(const Call& call, std::size_t total)
      : wide(size_of(call.problem.inputs[1]->dtype) == 8),
        labels(call.inputs[1].data),
        classes(call.in_shape(0).back()),
        first(call.in_origin(0, call.in_shape(0).size() - 1)),
        rows(graph::element_count(call.in_shape(0)) / classes),
        ignored(call.attributes().integer("ignore_index", -100)),
        x(call.in<T>(0)),
        totals(call.in<double>(total)) {
    for (std::int64_t i = 0; i < rows; ++i) check(label(i), call.in_global(0).back());
  }
  [[nodiscard]] std::int64_t label(std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(labels)[i] : static_cast<const std::int32_t*>(labels)[i];
  }
  [[nodiscard]] bool holds(std::int64_t t) const { return t >= first && t < first + classes; }
  [[nodiscard]] const T* row(std::int64_t i) const { return x + i * classes; }

  bool wide;
  const void* labels;
  std::int64_t classes, first, rows, ignored;
  const T* x;
  const double* totals;

 private:
  void check(std::int64_t l, std::int64_t all) const {
    if (l == ignored || (l >= 0 && l < all)) return;
    throw BadInput("label " + std::to_string(l) + " of the target is not one of " + std::to_string(all) + " classes, nor " +
                   std::to_string(ignored) + ", which is ignored");
  }
};

/// The first block of classes counts the totals.
struct Loss {
  template <class T>
  static void run(const Call& call) {
    const SoftmaxScores<T> s(call, 3);
    double sum = 0;
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const std::int64_t t = s.label(i);
      if (t == s.ignored) continue;
      sum += (s.first == 0 ? s.totals[i] : 0.0) - (s.holds(t) ? static_cast<double>(number(s.row(i)[t - s.first])) : 0.0);
    }
    *call.out<double>() = sum;
  }
};

/// scale (softmax(x) - one-hot).
struct LossGradient {
  template <class T>
  static void run(const Call& call) {
    const SoftmaxScores<T> s(call, 4);
    const auto scale = static_cast<float>(*call.in<double>(2));
    parallel_items(call.threads(), s.rows, kElementsWorthAThread / (8 * s.classes) + 1, [&](std::int64_t i) {
      T* out = call.out<T>() + i * s.classes;
      const std::int64_t t = s.label(i);
      if (t == s.ignored) return void(std::fill_n(out, s.classes, T{}));
      const float target = s.holds(t) ? number(s.row(i)[t - s.first]) : 0.0F;
      loops_over<T>().scaled_exp(out, s.row(i), s.classes, static_cast<float>(s.totals[i]), scale);
      if (s.holds(t)) out[t - s.first] = rounded<T>(scale * static_cast<float>(std::expm1(static_cast<double>(target) - s.totals[i])));
    });
  }
};

bool classes_last(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return false;
  const auto& shape = request.view().input(0).shape;
  if (static_cast<std::size_t>(graph::normalize_axis(request.attributes.integer("axis", 1), shape.size())) + 1 == shape.size()) return true;
  reason = "only with classes last";
  return false;
}

std::unique_ptr<Kernel> make_log_sum_exp(const KernelRequest& request, std::string& reason) {
  return classes_last(request, reason) ? make_kernel(request, body_of<SoftmaxLogSumExp>(request)) : nullptr;
}

template <class B, std::size_t kWeights>
std::unique_ptr<Kernel> make_loss(const KernelRequest& request, std::string& reason) {
  if (!classes_last(request, reason)) return nullptr;
  const auto view = request.view();
  if (!view.has_input(kWeights) && view.has_input(kWeights + 1) && request.attributes.number("label_smoothing", 0.0) == 0.0)
    return make_kernel(request, body_of<B>(request));
  reason = "only without weights and smoothing, on scores with their totals";
  return nullptr;
}

constexpr KernelRow kSoftmaxRows[] = {
    {"Softmax", "native:softmax", make_softmax<Softmax>},
    {"SoftmaxGrad", "native:softmax", make_softmax<SoftmaxGradient>},
    {"LogSumExp", "native:softmax", make_log_sum_exp},
    {"CrossEntropySum", "native:cross-entropy", make_loss<Loss, 2>},
    {"CrossEntropyGrad", "native:cross-entropy", make_loss<LossGradient, 3>},
};

}  // namespace

std::span<const KernelRow> softmax_kernels() { return kSoftmaxRows; }

}  // namespace rehearsal::exec::native
