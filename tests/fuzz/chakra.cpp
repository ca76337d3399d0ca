// Any bytes are a Chakra execution trace, or are refused.

#include "exchange/chakra/chakra.hpp"

#include <sstream>

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(rehearsal::fuzz::text_of(data, size));
  std::istringstream in(text);
  return rehearsal::fuzz::taken_or_refused([&] {
    (void)rehearsal::exchange::is_chakra(text);
    const auto profile = rehearsal::exchange::read_chakra(in, "any.et");
    if (rehearsal::exchange::work_sums(profile).compute < 0) std::abort();
    if (profile.has_begins && rehearsal::exchange::breakdown(profile).overlap < 0) std::abort();
    (void)rehearsal::exchange::collectives(profile);
  });
}
