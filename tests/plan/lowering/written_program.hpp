#pragma once
// A small model under a plan, written out line by line: what the cases of written_out.cpp and their like compare with stored files.

#include <string>

#include "graph/training.hpp"
#include "plan/backend.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::plan::test {

struct WrittenPlan {
  const char *file, *model, *plan;
  const char* how = "";  ///< words: an optimizer's name, "clipped", "fused" (attention as one kernel), "choosy" (ChoosyBackend), "alone"
                         ///< (one role), "buckets" (of 400 bytes), "stateless" (SGD without momentum)
};

/// Throws BadInput where there is no model of that name.
[[nodiscard]] graph::TrainingGraph written_training(const std::string& model, const std::string& plan, const std::string& how);

/// Convolutions with channels last and a weight that only they understand, products that need scratch memory, sums between ranks in memory
/// of the plan.
class ChoosyBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "choosy"; }
  [[nodiscard]] KernelOffer offer(const LocalNode&) const override;
  [[nodiscard]] bool reorders(const graph::TensorType&, Format, Format) const override { return true; }
  [[nodiscard]] bool plans_arrivals() const override { return true; }
};

/// The first and the last role of every stage, with their bodies, timetables, messages and memory; then what the Program warns of.
[[nodiscard]] std::string text_of(const Program&, const graph::Graph&);

/// Of tests/plan/lowering/written_out/.
void check_written_program(const WrittenPlan&);

}  // namespace rehearsal::plan::test
