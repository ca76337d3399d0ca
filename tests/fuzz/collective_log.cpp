// Any text is a log of collectives, or is refused.

#include "exchange/logs/collective_log.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(rehearsal::fuzz::text_of(data, size));
  (void)rehearsal::exchange::is_collective_log(text);
  return rehearsal::fuzz::taken_or_refused([&] {
    (void)rehearsal::exchange::read_collective_log(text, "any.log", {rehearsal::costmodel::CollectiveKind::AllReduce, 4});
  });
}
