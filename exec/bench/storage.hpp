#pragma once
// How quickly files of a folder are read and decoded.

#include <optional>
#include <string>

#include "base/progress.hpp"
#include "base/units.hpp"

namespace rehearsal::exec::bench {

struct StorageLimits {
  std::int64_t files = 0;  ///< that were read
  BytesPerSecond
      bandwidth;    ///< of 16 threads (or as many as cores) together, each reading whole files, which the kernel was told to forget before
  Seconds latency;  ///< of one file: opening it, and its first bytes
  /// Bytes of pixels, 3 a pixel, that one core makes of JPEG in a second while the others do the same: decoded, cut to the middle and made
  /// 224 x 224, as `run` does. Nothing where the folder has no JPEG.
  std::optional<BytesPerSecond> decoding;
};

/// Within about `seconds`. The kernel keeps what it likes to keep: a folder in memory is measured as such. Throws BadInput when `folder` is
/// none, or has no files that can be read.
[[nodiscard]] StorageLimits measure_storage(const std::string& folder, double seconds, Progress& progress);

}  // namespace rehearsal::exec::bench
