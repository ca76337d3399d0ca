// Random-k: k of n elements, drawn anew in every step and by all ranks alike, are sent as they are. One is drawn of each of k strata as
// large as n / k, so that drawing takes as long as there are elements to send (stratified sampling: Cochran, "Sampling techniques", 1977,
// chapter 5). Without memory (the random mask of Konecny et al. 2016) a sum is multiplied by the size of its stratum, so that it is right
// on average, and is 0 elsewhere; with memory (Stich et al., NeurIPS 2018) it is not.

#include <algorithm>
#include <cstring>

#include "base/random.hpp"
#include "exec/host/compressors/compressor.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec {
namespace {

struct Drawn {
  std::int64_t element, stratum;  ///< which, and of how many
};

Drawn drawn_of(const CompressorTask& task, std::int64_t k, std::int64_t at) {
  const auto begin = task.elements / k * at + std::min(at, task.elements % k);
  const auto size = task.elements / k + (at < task.elements % k ? 1 : 0);
  const double drawn = random_uniform(task.step_seed, task.shared_stream, static_cast<std::uint64_t>(at));
  return {begin + std::min(size - 1, static_cast<std::int64_t>(drawn * static_cast<double>(size))), size};
}

template <class T>
void send_drawn(const CompressorTask& task, const T* gradient, std::byte* sent) {
  const auto k = plan::sent_elements(task.elements, task.setting);
#pragma omp parallel for schedule(static)
  for (std::int64_t at = 0; at < k; ++at)
    std::memcpy(sent + at * static_cast<std::int64_t>(sizeof(T)), gradient + drawn_of(task, k, at).element, sizeof(T));
}

template <class T, bool scaled>
void add_drawn(const CompressorTask& task, std::span<const std::byte* const> sent, T* sum) {
  std::fill(sum, sum + task.elements, T(0));
  const auto k = plan::sent_elements(task.elements, task.setting);
#pragma omp parallel for schedule(static)
  for (std::int64_t at = 0; at < k; ++at) {
    T all = 0;
    for (const auto* from : sent) {
      T value;
      std::memcpy(&value, from + at * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      all += value;
    }
    const auto drawn = drawn_of(task, k, at);
    sum[drawn.element] = scaled ? all * static_cast<T>(drawn.stratum) : all;
  }
}

}  // namespace

CompressorCodes random_k_code() {
  return {plan::CompressionRule::RandomK, {send_drawn<float>, add_drawn<float, true>}, {send_drawn<double>, add_drawn<double, true>}};
}

CompressorCodes random_k_with_memory_code() {
  return {
      plan::CompressionRule::RandomKMemory, {send_drawn<float>, add_drawn<float, false>}, {send_drawn<double>, add_drawn<double, false>}};
}

}  // namespace rehearsal::exec
