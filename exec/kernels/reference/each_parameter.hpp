#pragma once
// An update of every element of a parameter and of its state, in f64.

#include "exec/kernels/reference/mixed_update.hpp"

namespace rehearsal::exec::reference {

inline constexpr std::int64_t kOptimizerGrain = 4096;
inline constexpr std::size_t kFirstState = 3;  ///< operands: parameter, gradient, step, state...

/// Runs update(parameter, gradient, state of element i) -> new parameter, for every element; `state` is updated in place.
template <class T, std::size_t kStates, class F>
void each_parameter(const Call& call, std::size_t first_state, F&& update) {
  const T* p = call.in<T>(0);
  T* out = call.out<T>(0);
  const std::size_t kept = call.outputs.size() - (rounds_parameter(call) ? 1 : 0);  // parameter and states
  each_block<T>(call, kOptimizerGrain, [&](std::int64_t first, std::int64_t last, const T* g) {
    for (std::int64_t i = first; i < last; ++i) {
      double state[kStates + 1] = {};
      for (std::size_t s = 0; s < kStates; ++s)
        state[s] = call.has_input(first_state + s) ? static_cast<double>(call.in<T>(first_state + s)[i]) : 0.0;
      out[i] = static_cast<T>(update(static_cast<double>(p[i]), static_cast<double>(g[i - first]), state));
      for (std::size_t s = 0; s < kStates && s + 1 < kept; ++s)
        if (call.has_output(s + 1)) call.out<T>(s + 1)[i] = static_cast<T>(state[s]);
    }
  });
}

}  // namespace rehearsal::exec::reference
