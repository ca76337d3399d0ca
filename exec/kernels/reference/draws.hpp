#pragma once
#include "base/random.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {

/// The seed of one step's random numbers, the same for all operators: each draws from a stream of its own.
[[nodiscard]] inline std::uint64_t seed_of(const Call& call) {
  constexpr std::uint64_t kSteps = 0x64726F706F7574;  // the stream of the numbers that turn (seed, step) into seeds
  return random_bits(call.context.seed, kSteps, static_cast<std::uint64_t>(call.context.step));
}

}  // namespace rehearsal::exec::reference
