#include <cmath>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/mixed_update.hpp"
#include "exec/kernels/reference/moments.hpp"

namespace rehearsal::exec::native {
namespace {

/// Operands: parameter, gradient, step, momentum?
void run_sgd(const Call& call) {
  const auto& a = call.attributes();
  const SgdStep step{static_cast<float>(a.number("lr", 1e-3)), static_cast<float>(a.number("momentum", 0)),
                     static_cast<float>(a.number("weight_decay", 0)), a.number("nesterov", 0) != 0};
  const bool momentum = call.has_input(3);
  reference::each_block<float>(call, kElementsWorthAThread, [&](std::int64_t first, std::int64_t last, const float* gradients) {
    loops().sgd(call.out<float>(0) + first, call.in<float>(0) + first, gradients, momentum ? call.out<float>(1) + first : nullptr,
                momentum ? call.in<float>(3) + first : nullptr, last - first, step);
  });
}

/// Operands: parameter, gradient, step, first and second moment.
void run_adam(const Call& call) {
  const auto& a = call.attributes();
  const reference::MomentWeights weights(call);
  const auto t = *call.in<std::int64_t>(2);
  const AdamStep step{static_cast<float>(a.number("lr", 1e-3)),
                      static_cast<float>(weights.keep1),
                      static_cast<float>(weights.take1),
                      static_cast<float>(weights.keep2),
                      static_cast<float>(weights.take2),
                      static_cast<float>(a.number("eps", 1e-8)),
                      static_cast<float>(a.number("weight_decay", 0)),
                      static_cast<float>(1 - std::pow(weights.beta1, static_cast<double>(t))),
                      static_cast<float>(1 - std::pow(weights.beta2, static_cast<double>(weights.seen_by_second(t)))),
                      static_cast<float>(weights.most() * (1 - std::pow(weights.beta1, static_cast<double>(t)))),
                      weights.holds(),
                      a.number("decoupled", 0) != 0};
  reference::each_block<float>(call, kElementsWorthAThread, [&](std::int64_t first, std::int64_t last, const float* gradients) {
    float* moments[] = {call.out<float>(1) + first, call.out<float>(2) + first};
    const float* old[] = {call.in<float>(3) + first, call.in<float>(4) + first};
    loops().adam(call.out<float>(0) + first, call.in<float>(0) + first, gradients, moments, old, last - first, step);
  });
}

/// Parameter and states in f32; only the gradient, and the parameter's rounding, may be of 16 bits.
bool takes_update(const KernelRequest& request, std::string& reason) {
  std::vector<std::optional<graph::TensorType>> inputs(request.inputs.begin(), request.inputs.end()),
      outputs(request.outputs.begin(), request.outputs.end());
  if (inputs[1] && is_narrow(inputs[1]->dtype)) inputs[1]->dtype = DType::F32;
  if (request.attributes.has(graph::kRoundedTo)) outputs.pop_back();
  return takes_f32({request.schema, request.attributes, inputs, outputs, request.input_formats, request.output_formats}, reason);
}

std::unique_ptr<Kernel> make_sgd(const KernelRequest& request, std::string& reason) {
  if (!takes_update(request, reason)) return nullptr;
  const auto view = request.view();
  const bool state = view.has_input(3), momentum = request.attributes.number("momentum", 0) != 0;
  if (state != momentum) {
    reason = "momentum needs its state, and only it";
    return nullptr;
  }
  return make_kernel(request, run_sgd);
}

std::unique_ptr<Kernel> make_adam(const KernelRequest& request, std::string& reason) {
  if (!takes_update(request, reason)) return nullptr;
  const auto view = request.view();
  if (!view.has_input(3) || !view.has_input(4) || !view.has_output(1) || !view.has_output(2)) {
    reason = "needs both moments";
    return nullptr;
  }
  return make_kernel(request, run_adam);
}

constexpr KernelRow kOptimizerRows[] = {
    {"SgdUpdate", "native:optimizer", make_sgd},
    {"AdamUpdate", "native:optimizer", make_adam},
};

}  // namespace

std::span<const KernelRow> optimizer_kernels() { return kOptimizerRows; }

}  // namespace rehearsal::exec::native
