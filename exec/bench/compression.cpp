#include "exec/bench/compression.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/host/compressors/compressor.hpp"
#include "exec/host/compressors/power_sgd.hpp"
#include "exec/host/compressors/shared_sums.hpp"
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

/// Of a gradient that is a square matrix, or nearly so: projected twice, and multiplied. False where its factors are no smaller.
template <class Least>
bool measure_factors(CompressorSpeed& speed, std::vector<float>& gradient, const Least& least) {
  const auto rows = std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(gradient.size()))));
  const auto columns = static_cast<std::int64_t>(gradient.size()) / rows;
  const FactorTask task{plan::factors_of({rows, columns}, speed.how.setting), 1, 2};
  const auto of = [](std::int64_t elements) { return std::vector<float>(static_cast<std::size_t>(elements)); };
  auto kept = of(task.size.kept()), first = of(task.size.first()), second = of(task.size.second());
  if (!task.size.any()) return false;
  speed.sent_bytes = static_cast<std::int64_t>(sizeof(float)) * (task.size.first() + task.size.second());
  speed.compressing = least([&] {
    first_factor(DType::F32, task, gradient.data(), kept.data(), first.data());
    second_factor(DType::F32, task, gradient.data(), first.data(), second.data());
  });
  speed.decoding = least([&] { from_factors(DType::F32, task, {first.data(), second.data(), 1}, gradient.data(), kept.data()); });
  return true;
}

/// Of a rank that writes its gradient, and that decodes its share from each of so many ranks.
template <class Least>
void measure_shares(CompressorSpeed& speed, int ranks, std::vector<float>& gradient, const Least& least) {
  const std::array elements{static_cast<std::int64_t>(gradient.size())};
  const auto blocks = plan::shared_blocks(speed.how, elements, DType::F32, ranks);
  const SharedTask task{speed.how.rule, DType::F32, {speed.how.setting, ranks}, blocks};
  speed.sent_bytes = ranks * blocks.piece_bytes() + blocks.share_bytes();
  std::vector<std::byte> sent(static_cast<std::size_t>(ranks * blocks.piece_bytes())),
      gathered(static_cast<std::size_t>(ranks * blocks.share_bytes()));
  std::vector<float> kept(gradient.size()), sum(gradient.size());
  const PartOfBlocks part{0, elements.front()};
  const auto lengths = lengths_of_blocks(elements);
  speed.compressing = least([&] { write_blocks(task, part, {gradient.data(), kept.data()}, sent.data()); });
  for (int rank = 0; rank < ranks; ++rank)
    sum_share(task, lengths, {rank, sent.data(), nullptr}, gathered.data() + rank * blocks.share_bytes());
  speed.decoding = least([&] { read_sum(task, part, gathered.data(), sum.data()); });
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
    if (row.sum == plan::CompressedSum::Factors) {
      if (measure_factors(speed, gradient, least)) speeds.push_back(speed);
      continue;
    }
    if (row.sum == plan::CompressedSum::Shares) {
      measure_shares(speed, bench.ranks, gradient, least);
      speeds.push_back(speed);
      continue;
    }
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
