// Unit triangular systems, and states handed from chunk to chunk (graph/ops/delta_rule.cpp).

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

struct TriangularSolve {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t q = call.in_shape(0).back(), columns = call.out_shape().back();
    const std::int64_t count = graph::element_count(call.in_shape(0)) / std::max<std::int64_t>(1, q * q);
    const bool transposed = call.attributes().integer("transposed", 0) != 0;
    parallel_items(call.threads(), count, 1, [&](std::int64_t i) {
      const T* l = call.in<T>(0) + i * q * q;
      T* x = call.out<T>() + i * q * columns;
      std::copy_n(call.in<T>(1) + i * q * columns, q * columns, x);
      for (std::int64_t step = 0; step < q; ++step) {
        const std::int64_t row = transposed ? q - 1 - step : step;
        const std::int64_t first = transposed ? row + 1 : 0, last = transposed ? q : row;
        for (std::int64_t other = first; other < last; ++other) {
          const T factor = transposed ? l[other * q + row] : l[row * q + other];
          for (std::int64_t c = 0; c < columns; ++c) x[row * columns + c] -= factor * x[other * columns + c];
        }
      }
    });
  }
};

/// One chunk's operands: tokens q, features n of a state, columns p.
template <class T>
struct Chunk {
  std::int64_t q, n, p;
  const T *w, *k, *u, *decay, *given;
  std::int64_t decay_step;  ///< 0: one number for all features

  /// v = u - sign w s
  void read(const T* s, T sign, T* v) const {
    std::copy_n(u, q * p, v);
    for (std::int64_t token = 0; token < q; ++token)
      for (std::int64_t feature = 0; feature < n; ++feature) {
        const T factor = sign * w[token * n + feature];
        for (std::int64_t c = 0; c < p; ++c) v[token * p + c] -= factor * s[feature * p + c];
      }
  }
  /// s = decay s + sign k^T v + given
  void write(const T* v, T sign, T* s) const {
    for (std::int64_t feature = 0; feature < n; ++feature)
      for (std::int64_t c = 0; c < p; ++c) {
        T& state = s[feature * p + c];
        state *= decay[feature * decay_step];
        if (given != nullptr) state += given[feature * p + c];
      }
    for (std::int64_t token = 0; token < q; ++token)
      for (std::int64_t feature = 0; feature < n; ++feature) {
        const T factor = sign * k[token * n + feature];
        for (std::int64_t c = 0; c < p; ++c) s[feature * p + c] += factor * v[token * p + c];
      }
  }
};

struct DeltaScan {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape &w = call.in_shape(0), &u = call.in_shape(2);
    const std::size_t rank = w.size();
    const std::int64_t chunks = w[rank - 3], q = w[rank - 2], n = w[rank - 1], p = u[rank - 1];
    const std::int64_t decays = call.in_shape(3)[rank - 2];
    const T sign = static_cast<T>(call.attributes().integer("sign", 1));
    const bool reverse = call.attributes().integer("reverse", 0) != 0;
    const std::int64_t count = graph::element_count(w) / std::max<std::int64_t>(1, chunks * q * n);
    parallel_items(call.threads(), count, 1, [&](std::int64_t i) {
      std::vector<T> state(static_cast<std::size_t>(n * p), T{0}), fresh(static_cast<std::size_t>(q * p));
      for (std::int64_t step = 0; step < chunks; ++step) {
        const std::int64_t at = i * chunks + (reverse ? chunks - 1 - step : step);
        const Chunk<T> chunk{q,
                             n,
                             p,
                             call.in<T>(0) + at * q * n,
                             call.in<T>(1) + at * q * n,
                             call.in<T>(2) + at * q * p,
                             call.in<T>(3) + at * decays,
                             call.has_input(4) ? call.in<T>(4) + at * n * p : nullptr,
                             decays == 1 ? 0 : 1};
        if (call.has_output(1)) std::copy_n(state.data(), n * p, call.out<T>(1) + at * n * p);
        T* v = call.has_output(0) ? call.out<T>(0) + at * q * p : fresh.data();
        chunk.read(state.data(), sign, v);
        chunk.write(v, sign, state.data());
      }
    });
  }
};

constexpr KernelRow kDeltaRuleRows[] = {
    {"TriangularSolve", "reference:any", make_by_output<TriangularSolve, Floats>},
    {"DeltaScan", "reference:any", make_by_input<DeltaScan, Floats>},
};

}  // namespace

std::span<const KernelRow> delta_rule_kernels() { return kDeltaRuleRows; }

}  // namespace rehearsal::exec::reference
