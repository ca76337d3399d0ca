#pragma once
// An update of every element of a parameter and of its state, in f64.

#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {

inline constexpr std::int64_t kOptimizerGrain = 4096;
inline constexpr std::size_t kFirstState = 3;  ///< operands: parameter, gradient, step, state...

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

}  // namespace rehearsal::exec::reference
