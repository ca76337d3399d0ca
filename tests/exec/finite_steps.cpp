// Which steps end a training, and what is said of them.
#include "exec/finite_steps.hpp"

#include <cmath>

#include "base/error.hpp"
#include "exec/host/cpu_backend.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"
#include "tests/exec/comm/session.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

/// A step of a layer whose loss is said to be no number is judged, as one that was updated.
void judge_bad_step(const std::string& loss) {
  graph::GraphBuilder builder;
  const auto x = builder.add_input("input", {DType::F32, {2, 3}});
  const auto w = builder.add_stored("w", {DType::F32, {3, 4}}, graph::TensorRole::Parameter, {DType::F32, graph::Fill{0.5}});
  builder.set_outputs({builder.add1("MatMul", {x, w})});
  graph::TrainingOptions options;
  options.loss = loss;
  const auto training = graph::build_training_graph(std::move(builder).build(), options);
  const CpuBackend backend("reference");
  const auto program = plan::lower(training, plan::Plan{}, backend, {});
  const Training job{program, training, world()};
  Executor executor(job, backend, {1, 7});
  const auto data = synthetic_data(training, 3);
  StepReport report;
  report.step = 1;
  report.loss = NAN;
  FiniteSteps(executor, job, *data, OnNan::Stop).judge(report, true);
}

}  // namespace

TEST_CASE("a loss that is no number ends a training by its tensor's name, and a step without a loss is not judged") {
  CHECK_THROWS_WITH(judge_bad_step("mse"), contains("step 1: the loss is not finite. Its tensor is 'loss'"));
  CHECK_NOTHROW(judge_bad_step("none"));
}
