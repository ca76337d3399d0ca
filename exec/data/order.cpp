#include "exec/data/order.hpp"

#include "base/random.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::uint64_t kStream = 0x5A0FF1EULL;
constexpr unsigned kRounds = 6;

}  // namespace

SampleOrder::SampleOrder(std::int64_t samples, std::uint64_t seed, bool shuffled) : samples_(samples), seed_(seed), shuffled_(shuffled) {
  while (2 * half_bits_ < 62 && (std::int64_t{1} << (2 * half_bits_)) < samples) ++half_bits_;
}

std::uint64_t SampleOrder::mixed(std::uint64_t at, std::uint64_t epoch) const {
  const auto mask = (std::uint64_t{1} << half_bits_) - 1;
  auto left = at >> half_bits_, right = at & mask;
  for (unsigned round = 0; round < kRounds; ++round) {
    const auto next = left ^ (random_bits(seed_, kStream + epoch * kRounds + round, right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::int64_t SampleOrder::row(std::int64_t n) const {
  const auto epoch = n / samples_, at = n % samples_;
  if (!shuffled_) return at;
  auto place = static_cast<std::uint64_t>(at);
  do place = mixed(place, static_cast<std::uint64_t>(epoch));
  while (place >= static_cast<std::uint64_t>(samples_));
  return static_cast<std::int64_t>(place);
}

}  // namespace rehearsal::exec
