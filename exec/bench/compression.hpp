#pragma once
// How fast compressors of gradients are on this machine (plan/compressors.hpp).

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/choices.hpp"

namespace rehearsal::exec::bench {

struct CompressorSpeed {
  plan::Compression how;
  std::int64_t sent_bytes = 0;
  double compressing = 0, decoding = 0;  ///< seconds, least of all repetitions: of one gradient, and of what one rank sent of it
  double copying = 0;                    ///< the same elements
};

struct CompressionBench {
  std::int64_t elements = 1;  ///< of a gradient, f32
  int ranks = 1;              ///< whose messages are decoded together
  int repetitions = 1, threads = 1;
};
/// Every compressor, with its usual setting. Memory: about 4 x 4 bytes an element. Stops early, with fewer rows, when told to.
[[nodiscard]] std::vector<CompressorSpeed> speeds_of_compressors(const CompressionBench&, const std::function<bool()>& stop);

}  // namespace rehearsal::exec::bench
