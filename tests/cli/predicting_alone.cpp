// A build without execution (REHEARSAL_EXECUTION=OFF): the same answers about devices that are not here, and one line where it cannot.
#include "tests/cli/rehearse.hpp"

namespace {

constexpr const char* kLacking = "this build of Rehearsal predicts only";

/// The whole program, with the same words.
Ended whole(const std::string& arguments) { return run_shell(std::string(REHEARSAL_WHOLE_COMMAND) + " " + arguments); }

}  // namespace

TEST_CASE("devices that are not here are predicted as by the whole program, to the last digit") {
  for (const auto* arguments : {"estimate zoo:resnet50 --platform dgx-a100 --batch 2048 --format json",
                                "estimate zoo:resnet18 --platform dgx-a100 --framework rehearse --batch 64 --plan dp=8 --format json",
                                "explain dp=8 --model zoo:resnet18 --platform dgx-a100 --batch 64 --layers --format json",
                                "collective --platform dgx-a100 --sizes 1MB,64MB --format json",
                                "validate --family collective --format json", "inspect zoo:resnet18 --batch 4 --format json"}) {
    INFO(arguments);
    const auto alone = rehearse(arguments);
    CHECK(alone.status == 0);
    CHECK(alone.out == whole(arguments).out);
  }
}

TEST_CASE("a CPU is predicted without its layouts, which is said, and close to what the whole program says") {
  const std::string arguments = "estimate zoo:resnet18 --platform xeon-2s-10gbe --batch 32 --plan dp=2 --format json";
  const auto alone = rehearse(arguments);
  CHECK_THAT(alone.err, contains("does not know the kernels of CPUs"));
  const auto step = [](const Ended& ended) { return result_of(ended).at("step_seconds").at("value").get<double>(); };
  // Copies between layouts are left out: they take time, half a per cent of this step.
  CHECK(step(alone) <= step(whole(arguments)));
  CHECK(step(alone) > 0.99 * step(whole(arguments)));
}

TEST_CASE("what computes, reads samples or knows kernels is refused in one line") {
  for (const auto* arguments : {"run zoo:resnet18 --steps 3 --lr 1", "calibrate --quick", "evaluate model.onnx --data x.npz",
                                "bench collectives", "conformance folder --gradients", "inspect zoo:resnet18 --kernels",
                                "estimate zoo:resnet18 --platform xeon-2s-10gbe --batch 32 --machine x.json",
                                "estimate zoo:resnet18 --platform xeon-2s-10gbe --batch 32 --data x.npz"})
    check_failure(rehearse(arguments), 4, {kLacking, "scripts/build"});
  check_failure(rehearse("estimate zoo:resnet18 --platform dgx-a100 --batch 32 --dataset samples=9k,bytes=9kB --data-threads 999"), 1,
                {"--data-threads 999", "0 to 256"});
}

TEST_CASE("doctor says that such a build trains nothing, which breaks nothing") {
  const std::string whole = REHEARSAL_WHOLE_COMMAND;  // beside which the simulator is
  const auto ended =
      rehearse("doctor --format json", 0, "REHEARSAL_SIM_MODULE=" + whole.substr(0, whole.rfind('/')) + "/librehearsal_sim.so ");
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, contains(kLacking));
  CHECK(ended.out.find("two ranks") == std::string::npos);
}
