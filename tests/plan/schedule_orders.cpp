// The order of every stage's passes under every schedule, written out: F3 is micro-batch 3's pass forward, B3 its gradients, I3 those of
// inputs alone, W3 those of weights, behind a chunk's number where there are several. REHEARSAL_WRITE_OUT=1 writes the file anew.
#include <sstream>

#include "plan/schedules/schedule.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

std::string pass_text(const PipelineSlot& slot, int chunks) {
  const char* kind = !slot.backward ? "F" : slot.part == GradientPart::Both ? "B" : slot.part == GradientPart::Input ? "I" : "W";
  return (chunks > 1 ? std::to_string(slot.chunk) : "") + kind + std::to_string(slot.micro_batch);
}

std::string orders_text(const ScheduleRow& row, const PipelineShape& s) {
  std::ostringstream text;
  text << row.name << ", " << s.stages << " stages, " << s.micro_batches << " micro-batches"
       << (s.chunks > 1 ? ", " + std::to_string(s.chunks) + " chunks" : "") << "\n";
  for (int stage = 0; stage < s.stages; ++stage) {
    text << "  in flight " << row.in_flight(stage, s) << ", held " << row.activations(stage, s) << ", versions "
         << row.weight_versions(stage, s) << ":";
    for (const auto& slot : row.order(stage, s)) text << " " << pass_text(slot, s.chunks);
    text << "\n";
  }
  return text.str();
}

}  // namespace

TEST_CASE("passes come in the order that is written out") {
  std::string text;
  for (const auto& row : schedule_table())
    for (const auto& [stages, micro_batches] : std::vector<std::pair<int, int>>{{2, 3}, {4, 7}, {6, 1}, {3, 5}}) {
      const PipelineShape s{stages, micro_batches, row.chunks == 0 ? 2 : row.chunks};
      if (row.refusal == nullptr || row.refusal(s).empty()) text += orders_text(row, s);
    }
  rehearsal::test::check_written_out(std::string(REHEARSAL_PLAN_WRITTEN_OUT) + "/schedules.txt", text);
}
