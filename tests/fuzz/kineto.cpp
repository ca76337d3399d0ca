// Any text is a trace of the PyTorch profiler, or is refused.

#include "exchange/kineto/kineto.hpp"

#include <sstream>

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(rehearsal::fuzz::text_of(data, size));
  std::istringstream in(text);
  return rehearsal::fuzz::taken_or_refused([&] {
    const auto trace = rehearsal::exchange::read_kineto(in, "any.json");
    if (rehearsal::exchange::breakdown(trace).overlap < 0) std::abort();
    (void)rehearsal::exchange::collectives(trace);
  });
}
