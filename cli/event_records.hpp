#pragma once
// TensorBoard's files of events: TFRecords (tensorflow/core/lib/io/record_writer.h) of the message Event
// (tensorflow/core/util/event.proto).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearsal::cli {

/// CRC-32C (Castagnoli; RFC 3720, B.4).
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// What a file begins with. `time` in seconds since 1970.
[[nodiscard]] std::string first_event(double time);
struct Scalars {
  double time = 0;
  std::int64_t step = 0;
  std::vector<std::pair<std::string, float>> values;  ///< by what they are called
};
[[nodiscard]] std::string scalars_event(const Scalars&);

/// The records of a file's begin up to this step: whole ones that are what they were when they were written.
[[nodiscard]] std::string events_up_to(std::string_view file, std::int64_t step);

}  // namespace rehearsal::cli
