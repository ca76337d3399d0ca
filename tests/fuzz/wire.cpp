// Any bytes are a message: the walk checks every length, tag and nesting, and what it leaves is no longer than what it was given by more
// than the numbers that stand for payloads.

#include "formats/onnx/wire.hpp"

#include <span>

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return rehearsal::fuzz::taken_or_refused([&] {
    const std::string small = rehearsal::formats::without_payloads(std::as_bytes(std::span(data, size)), "input");
    if (small.size() > 2 * size) std::abort();
  });
}
