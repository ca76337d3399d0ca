// Any text is flags of Megatron-LM, or is refused.

#include "exchange/frameworks/plan_import.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(rehearsal::fuzz::text_of(data, size));
  return rehearsal::fuzz::taken_or_refused([&] {
    const auto imported = rehearsal::exchange::imported_megatron(text, "any.sh", 8);
    if (imported.job.plan.ranks() != 8) std::abort();
  });
}
