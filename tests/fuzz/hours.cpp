// Any text is a file of hourly figures, and says when a training is best, or is refused.

#include <sstream>

#include "predict/hours/starts.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream text{std::string(rehearsal::fuzz::text_of(data, size))};
  return rehearsal::fuzz::taken_or_refused([&] {
    using namespace rehearsal;
    const predict::MovableTraining training{Seconds(1e4), Watts(1e4), 8, 1, Dollars(10), Seconds(600)};
    (void)predict::timed_starts(predict::read_hours(text, "any.csv"), training);
  });
}
