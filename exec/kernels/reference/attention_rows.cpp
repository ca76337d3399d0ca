#include "exec/kernels/reference/attention_rows.hpp"

#include "exec/kernels/reference/draws.hpp"

namespace rehearsal::exec::reference {

AttentionRows::AttentionRows(const Call& call, std::size_t queries)
    : call_(call),
      p_(graph::attention_problem(call.problem.view(), queries)),
      queries_(queries),
      seed_(seed_of(call)),
      factor_(p_.ratio < 1 ? 1 / (1 - p_.ratio) : 0) {
  for (std::size_t i = 0; i < 3; ++i) strides_.push_back(graph::attention_strides(p_, call.in_shape(queries + i), true));
  std::size_t result = 3;
  for (std::size_t s = 0; s < p_.steps.size(); ++s) {
    const bool reads = p_.steps[s].operand >= 0;
    steps_.push_back(reads ? graph::attention_strides(p_, call.in_shape(operand_of(s)), false) : graph::AttentionStrides{});
    gradients_.push_back(p_.steps[s].differentiated ? result++ : 0);
  }
}

std::int64_t AttentionRows::independent() const {
  std::int64_t found = p_.matrices();
  for (std::size_t s = 0; s < p_.steps.size(); ++s) {
    if (!p_.steps[s].differentiated) continue;
    // Leading dimensions along which the gradient is summed, and then only such along which it is not.
    std::int64_t own = 1;
    std::size_t d = p_.batch.size();
    for (; d > 0 && (steps_[s].batch[d - 1] != 0 || p_.batch[d - 1] == 1); --d) own *= p_.batch[d - 1];
    for (; d > 0; --d)
      if (steps_[s].batch[d - 1] != 0) return 1;
    found = std::min(found, own);
  }
  return found;
}

std::uint64_t AttentionRows::first_weight(std::int64_t number, std::int64_t row) const {
  const bool forward = queries_ == 0;
  const TensorView& view = forward ? call_.outputs[0] : call_.inputs[0];
  const graph::Shape& global = forward ? call_.out_global() : call_.in_global(0);
  const std::size_t rank = p_.batch.size();
  const auto origin = [&](std::size_t d) { return view.origin ? (*view.origin)[d] : 0; };
  std::int64_t index = (origin(rank) + row) * p_.keys, stride = global[rank] * p_.keys;
  for (std::size_t d = rank; d-- > 0; number /= p_.batch[d]) {
    index += (origin(d) + number % p_.batch[d]) * stride;
    stride *= global[d];
  }
  return static_cast<std::uint64_t>(index);
}

}  // namespace rehearsal::exec::reference
