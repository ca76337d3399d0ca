// Softmax along the last axis, and cross entropy of scores whose classes lie one after another.

#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::native {
namespace {

void run_softmax(const Call& call) {
  const std::int64_t length = call.out_shape().back(), rows = graph::element_count(call.out_shape()) / length;
  parallel_items(call.threads(), rows, kElementsWorthAThread / (8 * length) + 1, [&](std::int64_t row) {
    loops().softmax_row(call.out<float>() + row * length, call.in<float>(0) + row * length, length);
  });
}

/// dY, Y -> dX.
void run_softmax_gradient(const Call& call) {
  const std::int64_t length = call.out_shape().back(), rows = graph::element_count(call.out_shape()) / length;
  parallel_items(call.threads(), rows, kElementsWorthAThread / length + 1, [&](std::int64_t row) {
    const std::int64_t at = row * length;
    loops().softmax_gradient_row(call.out<float>() + at, call.in<float>(0) + at, call.in<float>(1) + at, length);
  });
}

template <Body kBody>
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  if (graph::axis_of(request.view(), -1) + 1 != request.view().output().shape.size()) {
    reason = "only along the last axis";
    return nullptr;
  }
  return make_kernel(request, kBody);
}

/// One score row per label.
struct Scores {
  explicit Scores(const Call& call)
      : wide(size_of(call.problem.inputs[1]->dtype) == 8),
        labels(call.inputs[1].data),
        classes(call.in_shape(0).back()),
        rows(graph::element_count(call.in_shape(0)) / classes),
        ignored(call.attributes().integer("ignore_index", -100)),
        x(call.in<float>(0)) {
    for (std::int64_t i = 0; i < rows; ++i) check(label(i));
  }
  [[nodiscard]] std::int64_t label(std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(labels)[i] : static_cast<const std::int32_t*>(labels)[i];
  }
  [[nodiscard]] const float* row(std::int64_t i) const { return x + i * classes; }

  bool wide;
  const void* labels;
  std::int64_t classes, rows, ignored;
  const float* x;

 private:
  void check(std::int64_t l) const {
    if (l == ignored || (l >= 0 && l < classes)) return;
    throw BadInput("label " + std::to_string(l) + " of the target is not one of " + std::to_string(classes) + " classes, nor " +
                   std::to_string(ignored) + ", which is ignored");
  }
};

void run_loss(const Call& call) {
  const Scores s(call);
  auto* losses = static_cast<double*>(call.context.workspace);
  parallel_items(call.threads(), s.rows, kElementsWorthAThread / (8 * s.classes) + 1, [&](std::int64_t i) {
    const std::int64_t t = s.label(i);
    losses[i] = t == s.ignored ? 0.0 : loops().log_sum_exp(s.row(i), s.classes) - static_cast<double>(s.row(i)[t]);
  });
  *call.out<double>() = std::accumulate(losses, losses + s.rows, 0.0);
}

/// scale (softmax(x) - one-hot).
void run_loss_gradient(const Call& call) {
  const Scores s(call);
  const auto scale = static_cast<float>(*call.in<double>(2));
  parallel_items(call.threads(), s.rows, kElementsWorthAThread / (8 * s.classes) + 1, [&](std::int64_t i) {
    float* out = call.out<float>() + i * s.classes;
    const std::int64_t t = s.label(i);
    if (t == s.ignored) return void(std::fill_n(out, s.classes, 0.0F));
    loops().scaled_exp(out, s.row(i), s.classes, static_cast<float>(loops().log_sum_exp(s.row(i), s.classes)), scale);
    out[t] -= scale;
  });
}

template <Body kBody, std::size_t kWeights>
std::unique_ptr<Kernel> make_loss(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const auto view = request.view();
  const auto& shape = view.input(0).shape;
  const auto axis = static_cast<std::size_t>(graph::normalize_axis(request.attributes.integer("axis", 1), shape.size()));
  if (axis + 1 != shape.size())
    reason = "only with classes last";
  else if (view.has_input(kWeights) || request.attributes.number("label_smoothing", 0.0) != 0.0 ||
           request.attributes.integer("log_probabilities", 0) != 0)
    reason = "only without weights and smoothing, on scores";
  else
    return make_kernel(request, kBody, graph::element_count(shape) / shape.back() * static_cast<std::int64_t>(sizeof(double)));
  return nullptr;
}

constexpr KernelRow kRows[] = {
    {"Softmax", "native:softmax", make_softmax<run_softmax>},
    {"SoftmaxGrad", "native:softmax", make_softmax<run_softmax_gradient>},
    {"CrossEntropySum", "native:cross-entropy", make_loss<run_loss, 2>},
    {"CrossEntropyGrad", "native:cross-entropy", make_loss<run_loss_gradient, 3>},
};

}  // namespace

std::span<const KernelRow> softmax_kernels() { return kRows; }

}  // namespace rehearsal::exec::native
