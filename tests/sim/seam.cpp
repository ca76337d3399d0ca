// How the module is opened: predict/simulation.hpp, with the real module and with ones that misbehave.
#include <cstdlib>

#include "base/error.hpp"
#include "predict/simulation.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim::sample;

namespace {

/// Names a module, and what the broken one is to do, as long as it lives.
class Module {
 public:
  explicit Module(const char* path, const char* behaviour = "") {
    setenv("REHEARSAL_SIM_MODULE", path, 1);
    setenv("REHEARSAL_BROKEN_MODULE", behaviour, 1);
  }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() { unsetenv("REHEARSAL_SIM_MODULE"); }
};

Job job() { return pipeline({"1f1b", 2, 3, 1e-3, 2e-3, 1000}); }

void check_failure(const char* behaviour, const std::string& sentence, Seconds limit = Seconds(60)) {
  const Module module(REHEARSAL_BROKEN_MODULE_FILE, behaviour);
  const auto simulator = predict::open_simulator("full", limit);
  try {
    (void)job().play(*simulator, chain(2));
    FAIL("the broken module gave an answer");
  } catch (const EnvironmentFailure& failure) {
    CHECK_THAT(failure.what(), contains(sentence));
  }
}

}  // namespace

TEST_CASE("the simulator in its own process answers, and the same again") {
  const Module module(REHEARSAL_SIM_MODULE_FILE);
  const auto closed = job().play(*predict::closed_form_evaluator(), chain(2), true);
  for (const auto* fidelity : {"full", "folded"}) {
    INFO(fidelity);
    const auto simulator = predict::open_simulator(fidelity);
    CHECK(simulator->name() == fidelity);
    const auto once = job().play(*simulator, chain(2), true), again = job().play(*simulator, chain(2), true);
    CHECK(once.step == again.step);
    CHECK(once.step.value() == Approx(closed.step.value()).epsilon(1e-9));
    CHECK(once.total.interval().high == Approx(closed.total.interval().high).epsilon(1e-9));
    CHECK(once.breakdown.bubble.value() == Approx(closed.breakdown.bubble.value()).epsilon(1e-9));
    CHECK(once.busy_seconds == closed.busy_seconds);
    CHECK(once.devices_energy.value() == Approx(closed.devices_energy.value()).epsilon(1e-9));
    CHECK(once.events > 0);
    REQUIRE(once.timeline.size() == closed.timeline.size());
    for (std::size_t rank = 0; rank < closed.timeline.size(); ++rank) {
      REQUIRE(once.timeline[rank].size() == closed.timeline[rank].size());
      for (std::size_t n = 0; n < closed.timeline[rank].size(); ++n) {
        CHECK(once.timeline[rank][n].end == Approx(closed.timeline[rank][n].end).margin(1e-12));
        CHECK(once.timeline[rank][n].end == again.timeline[rank][n].end);
      }
    }
  }
}

TEST_CASE("errors of a simulation keep their kind and sentence") {
  const Module module(REHEARSAL_SIM_MODULE_FILE);
  auto broken = job();
  broken.role(1).bodies[0].instructions.front().message = 1;  // receives on the other channel, which nobody sends on forward
  CHECK_THROWS_AS(broken.play(*predict::open_simulator(), chain(2)), InternalError);
}

TEST_CASE("a module that is missing or no module is the environment's fault") {
  {
    const Module module("/nowhere/librehearsal_sim.so");
    CHECK_THROWS_AS(job().play(*predict::open_simulator(), chain(2)), EnvironmentFailure);
    CHECK_THROWS_WITH(job().play(*predict::open_simulator(), chain(2)),
                      contains("/nowhere/librehearsal_sim.so does not exist") && contains("--fidelity closed"));
  }
  const Module module("tests/sim/seam.cpp");  // tests run in the source folder
  CHECK_THROWS_WITH(job().play(*predict::open_simulator(), chain(2)), contains("cannot be opened"));
}

TEST_CASE("a worker that dies, hangs or breaks off is told from its last words") {
  check_failure("abort", "its last line: the sky is falling");
  check_failure("exit", "ended early");
  check_failure("hang", "did not end within", Seconds(0.3));
  check_failure("none", "belongs to another version");
}

TEST_CASE("only known fidelities are opened") { CHECK_THROWS_AS(predict::open_simulator("exact"), BadInput); }
