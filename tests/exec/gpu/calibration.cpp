// Measuring the kernels of a GPU, on an emulated one: its times are the host's, everything else is what happens on a real one.
#include <map>

#include "base/error.hpp"
#include "costmodel/cost_model.hpp"
#include "exec/bench/cases.hpp"
#include "exec/bench/measured.hpp"
#include "exec/calibrate.hpp"
#include "tests/catch.hpp"
#include "tests/exec/gpu/emulated_backend.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

const graph::TensorType kRows{DType::F32, {8, 64}};

}  // namespace

TEST_CASE("a kernel is measured on the device that runs it, and identified as in a plan for a device that is not here") {
  const EmulatedBackend backend;
  const DeviceMemory other(backend.device(), 1 << 20);
  bench::Measured measured({"Relu", {}, {kRows}}, backend, 1);
  CHECK(measured.kernel().implementation == "cuda:elementwise");
  CHECK(measured.kernel().signature == "|f32[8,64]>|f32[8,64]>");
  for (int run = 0; run < 3; ++run) measured.run_behind(other);
  REQUIRE(measured.runs().size() == 3);
  for (const auto& run : measured.runs()) {
    CHECK(run.wall > 0);
    CHECK(run.cpu == run.wall);
    CHECK(run.issue > 0);
  }
}

TEST_CASE("images are measured in the order in which convolutions leave them: channels-last in 16 bits") {
  const EmulatedBackend backend;
  const graph::TensorType image{DType::BF16, {2, 8, 6, 6}};
  const bench::Measured last({"Relu", {}, {image}, true}, backend, 1), plain({"Relu", {}, {image}, false}, backend, 1);
  CHECK(last.kernel().signature == "|bf16[2,8,6,6]channels-last>|bf16[2,8,6,6]channels-last>");
  CHECK(plain.kernel().signature == "|bf16[2,8,6,6]>|bf16[2,8,6,6]>");
  std::size_t in_last = 0;
  for (const auto& c : bench::sweep_of_gpus(false)) {
    CHECK((!c.channels_last || c.inputs[0]->dtype == DType::BF16));
    in_last += c.channels_last ? 1 : 0;
  }
  CHECK(in_last > 5);
}

TEST_CASE("what the executor copies for the host alone is not measured on a GPU") {
  const EmulatedBackend backend;
  CHECK_THROWS_AS(bench::Measured({"reorder", {}, {graph::TensorType{DType::F32, {1, 2, 3, 4}}}}, backend, 1), Refusal);
}

TEST_CASE("a GPU that the catalogue does not have is refused, and what would be missing is said") {
  const EmulatedBackend backend;
  Progress progress;
  CHECK_THROWS_WITH(calibrate_gpu({backend}, {1, false}, progress), contains("an emulated GPU") && contains("catalogue"));
}

TEST_CASE("the sweep for GPUs has every family of kernels, in f32 and in bf16") {
  std::size_t narrow = 0;
  std::map<std::string, std::size_t> ops;
  const auto cases = bench::sweep_of_gpus(false);
  for (const auto& c : cases) {
    ++ops[c.op];
    narrow += c.inputs[0]->dtype == DType::BF16 ? 1 : 0;
  }
  CHECK(narrow > cases.size() / 3);
  for (const auto* op : {"Conv", "ConvGradWeight", "MatMul", "Attention", "AttentionGrad", "LayerNormalization", "BatchNormSums",
                         "AdamUpdate", "CrossEntropyGrad", "Transpose", "Gather", "Cast"})
    CHECK(ops[op] > 0);
  CHECK(bench::sweep_of_gpus(true).size() > cases.size());
}
