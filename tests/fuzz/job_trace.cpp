// Any text is a trace of jobs, or is refused.

#include <sstream>

#include "jobs/trace_csv.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream text{std::string(rehearsal::fuzz::text_of(data, size))};
  return rehearsal::fuzz::taken_or_refused([&] { (void)rehearsal::jobs::read_job_trace(text, "any.csv"); });
}
