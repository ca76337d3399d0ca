// A simulator module that does what the environment variable REHEARSAL_BROKEN_MODULE says.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "predict/step_cost.hpp"

namespace {

class Broken final : public rehearsal::predict::StepEvaluator {
 public:
  [[nodiscard]] std::string_view name() const override { return "broken"; }
  [[nodiscard]] rehearsal::predict::StepCost evaluate(const rehearsal::predict::EvaluationRequest&) override {
    const std::string behaviour = std::getenv("REHEARSAL_BROKEN_MODULE");
    if (behaviour == "abort") {
      std::fputs("a first line\nthe sky is falling\n", stderr);
      std::abort();
    }
    if (behaviour == "exit") _exit(3);
    pause();
    return {};
  }
};

}  // namespace

extern "C" rehearsal::predict::StepEvaluator* rehearsal_make_simulator(const char*) {
  return std::string(std::getenv("REHEARSAL_BROKEN_MODULE")) == "none" ? nullptr : new Broken;
}
