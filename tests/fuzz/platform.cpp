// Any text is a platform.

#include "platforms/json.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return rehearsal::fuzz::taken_or_refused(
      [&] { (void)rehearsal::platforms::read_platform_text(std::string(rehearsal::fuzz::text_of(data, size)), "input"); });
}
