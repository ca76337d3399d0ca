#include "exec/bench/compression.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/random.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/host/compressors/compressor.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec::bench {
namespace {

/// Least of several repetitions, or of those before it is told to stop.
template <class Work>
double least_seconds(int repetitions, const std::function<bool()>& stop, const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int n = 0; n < repetitions && (n == 0 || !stop()); ++n) {
    const double begin = now_seconds();
    work();
    least = std::min(least, now_seconds() - begin);
  }
  return least;
}

/// Elements whose sizes differ as those of gradients do, by orders of magnitude.
std::vector<float> sample_gradient(std::int64_t elements) {
  std::vector<float> gradient(static_cast<std::size_t>(elements));
  for (std::size_t e = 0; e < gradient.size(); ++e) {
    const double u = random_uniform(1, 0, e) - 0.5;
    gradient[e] = static_cast<float>(u * u * u);
  }
  return gradient;
}

}  // namespace

std::vector<CompressorSpeed> speeds_of_compressors(const CompressionBench& bench, const std::function<bool()>& stop) {
  omp_set_num_threads(bench.threads);
  const auto original = sample_gradient(bench.elements);
  auto gradient = original;
  std::vector<float> sum(original.size()), kept(original.size());
  const auto least = [&](const auto& work) { return least_seconds(bench.repetitions, stop, work); };
  const double copying = least([&] { std::memcpy(sum.data(), original.data(), sizeof(float) * original.size()); });
  std::vector<CompressorSpeed> speeds;
  for (const auto& row : plan::compressors()) {
    if (stop()) break;
    CompressorSpeed speed{{row.rule}, 0, 0, 0, copying};
    speed.how.setting = row.usual;
    speed.sent_bytes = plan::compressed_bytes(speed.how, bench.elements, DType::F32);
    std::vector<std::byte> sent(static_cast<std::size_t>(speed.sent_bytes));
    const CompressorTask task{row.usual, bench.elements, 1, 2, 3};
    speed.compressing = least([&] {
      if (row.remembers)
        compress_with_memory(row.rule, DType::F32, task, {gradient.data(), kept.data()}, sent.data());
      else
        compress(row.rule, DType::F32, task, original.data(), sent.data());
    });
    const std::vector<const std::byte*> all(static_cast<std::size_t>(bench.ranks), sent.data());
    speed.decoding = least([&] { decompress(row.rule, DType::F32, task, all, sum.data()); }) / bench.ranks;
    speeds.push_back(speed);
  }
  return speeds;
}

}  // namespace rehearsal::exec::bench
