// Top-k (Stich et al., NeurIPS 2018, with memory; Aji and Heafield 2017): of n elements the k largest, by their absolute value, are sent
// with their indices. Of elements as large as the smallest of them the first are taken.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "exec/host/compressors/compressor.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec {
namespace {

using Index = std::uint32_t;

/// The k-th largest of the absolute values, and how many are larger.
template <class T>
std::pair<T, std::int64_t> least_sent(const T* gradient, std::int64_t elements, std::int64_t k) {
  std::vector<T> sizes(static_cast<std::size_t>(elements));
  std::transform(gradient, gradient + elements, sizes.begin(), [](T x) { return std::abs(x); });
  const auto kth = sizes.begin() + (k - 1);
  std::nth_element(sizes.begin(), kth, sizes.end(), std::greater());
  return {*kth, std::count_if(sizes.begin(), kth, [&](T x) { return x > *kth; })};
}

template <class T>
void send_largest(const CompressorTask& task, const T* gradient, std::byte* sent) {
  const auto k = plan::sent_elements(task.elements, task.setting);
  const auto [least, larger] = least_sent(gradient, task.elements, k);
  auto* values = sent + k * static_cast<std::int64_t>(sizeof(Index));
  std::int64_t at = 0, equal = k - larger;
  for (std::int64_t e = 0; e < task.elements && at < k; ++e) {
    const T size = std::abs(gradient[e]);
    if (size < least || (size == least && equal-- <= 0)) continue;
    const auto index = static_cast<Index>(e);
    std::memcpy(sent + at * static_cast<std::int64_t>(sizeof index), &index, sizeof index);
    std::memcpy(values + at * static_cast<std::int64_t>(sizeof(T)), gradient + e, sizeof(T));
    ++at;
  }
}

template <class T>
void add_largest(const CompressorTask& task, std::span<const std::byte* const> sent, T* sum) {
  std::fill(sum, sum + task.elements, T(0));
  const auto k = plan::sent_elements(task.elements, task.setting);
  for (const auto* from : sent)
    for (std::int64_t at = 0; at < k; ++at) {
      Index index = 0;
      T value;
      std::memcpy(&index, from + at * static_cast<std::int64_t>(sizeof index), sizeof index);
      std::memcpy(&value, from + k * static_cast<std::int64_t>(sizeof index) + at * static_cast<std::int64_t>(sizeof value), sizeof value);
      sum[index] += value;
    }
}

}  // namespace

CompressorCodes top_k_code() {
  return {plan::CompressionRule::TopK, {send_largest<float>, add_largest<float>}, {send_largest<double>, add_largest<double>}};
}

}  // namespace rehearsal::exec
