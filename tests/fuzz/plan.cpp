// Any text is a plan: as written on the command line, and as a file.

#include "plan/plan.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rehearsal::fuzz::Scratch scratch;
  const std::string text(rehearsal::fuzz::text_of(data, size));
  (void)rehearsal::fuzz::taken_or_refused([&] {
    const rehearsal::plan::Plan plan = rehearsal::plan::parse_plan(text);
    if (rehearsal::plan::to_text(rehearsal::plan::parse_plan(rehearsal::plan::to_text(plan))) != rehearsal::plan::to_text(plan))
      std::abort();
  });
  const std::string path = scratch.write("plan.json", text);
  return rehearsal::fuzz::taken_or_refused([&] { (void)rehearsal::plan::read_plan_file(path); });
}
