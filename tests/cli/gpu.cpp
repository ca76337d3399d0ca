// rehearse run --backend cuda on an emulated GPU (tests/exec/gpu): its memory faults when the host touches it, its kernels are the bodies
// of those for NVIDIA GPUs, kernels of the host stand in for NVIDIA's libraries. Everything around the libraries is what runs on a real
// one.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/cli/rehearse.hpp"

namespace {

using Losses = std::vector<double>;

const std::string kEmulated = "REHEARSAL_CUDA_MODULE=\"" REHEARSAL_EMULATED_GPU "\" ";

/// Four steps, unless the options say more.
std::string run(const std::string& model, const std::string& options) {
  const auto or_else = [&](const std::string& option, const std::string& value) {
    return options.find(option + " ") == std::string::npos ? option + " " + value + " " : "";
  };
  return "run " + model + " --batch 4 --format json " + or_else("--optimizer", "adam") + or_else("--steps", "4") + or_else("--lr", "0.01") +
         options;
}

Losses on_gpu(const std::string& arguments, int ranks = 0) { return losses_of(rehearse(arguments + " --backend cuda", ranks, kEmulated)); }

/// Largest difference over the first loss.
double apart(const Losses& a, const Losses& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[0]));
  return largest;
}

}  // namespace

TEST_CASE("a GPU trains to the losses of the CPU, whatever the plan") {
  // A batch norm of two samples is nearly their sign and magnifies rounding some million times: in f64, where that is still nothing.
  const auto [model, ranks, plan] = GENERATE(
      std::tuple{kGpt, 0, ""}, std::tuple{kResnet, 0, ""}, std::tuple{kGpt, 2, "--plan dp=2,micro_batch=1"},
      std::tuple{kGpt, 2, "--plan dp=2,zero=3"}, std::tuple{kGpt, 2, "--plan pp=2,micro_batch=1"}, std::tuple{kGpt, 2, "--plan tp=2"},
      std::tuple{kGpt, 0, "--plan micro_batch=2,recompute=full"}, std::tuple{kGpt, 0, "--plan micro_batch=1,offload=activations"},
      std::tuple{kGpt, 2, "--plan dp=2,local_steps=2,outer=nesterov"}, std::tuple{kGpt, 2, "--plan dp=2,compression=sparcml:0.05"},
      std::tuple{kResnet, 2, "--plan dp=2"}, std::tuple{kResnet, 2, "--plan spatial=2"}, std::tuple{kResnet, 0, "--plan compression=gist"});
  INFO(model << " " << plan);
  const auto options = (model == kResnet ? "--optimizer sgd --dtype f64 " : "--optimizer adam ") + std::string(plan);
  const auto cpu = losses_of(rehearse(run(model, options), ranks));
  const auto gpu = on_gpu(run(model, options), ranks);
  CHECK(cpu.size() == 4);
  CHECK(cpu[3] != cpu[0]);
  CHECK(apart(gpu, cpu) < (model == kResnet ? 1e-8 : 2e-5));  // sums in another order, four steps
}

TEST_CASE("16-bit numbers on a GPU are those of the CPU within their rounding") {
  const auto dtype = GENERATE("bf16", "f16");
  INFO(dtype);
  const auto options = std::string("--dtype ") + dtype;
  CHECK(apart(on_gpu(run(kGpt, options)), losses_of(rehearse(run(kGpt, options)))) < 1e-2);
}

TEST_CASE("what a CPU has trained goes on on a GPU, and back") {
  const TemporaryFolder folder;
  const auto whole = losses_of(rehearse(run(kGpt, "--steps 6")));
  const auto part = [&](const std::string& more) { return run(kGpt, "--steps 2 --checkpoint " + (folder / "c") + " " + more); };
  auto together = losses_of(rehearse(part("")));
  for (const double loss : on_gpu(part("--resume " + (folder / "c")))) together.push_back(loss);
  for (const double loss : losses_of(rehearse(part("--resume " + (folder / "c"))))) together.push_back(loss);
  CHECK(apart(together, whole) < 2e-5);
}

TEST_CASE("instructions on a GPU have times of their own") {
  const TemporaryFolder folder;
  const auto trace = folder / "trace.json";
  CHECK(on_gpu(run(kGpt, "--trace " + trace)).size() == 4);
  std::ifstream file(trace);
  const auto read = nlohmann::json::parse(file);
  CHECK(read.at("ranks").at(0).at("events").size() > 100);
  CHECK(read.at("context").at("gpu").get<std::string>().starts_with("an emulated GPU"));  // what learns from it asks
}

TEST_CASE("numbers that are none are found in a GPU's memory") {
  const auto ended = rehearse(run(kGpt, "--lr 1e30 --backend cuda"), 0, kEmulated);
  CHECK(ended.status != 0);
  CHECK_THAT(ended.err, contains("not finite"));
}

TEST_CASE("a GPU that cannot be had is named, and what is missing") {
  check_failure(rehearse(run(kGpt, "--backend cuda"), 0, "REHEARSAL_CUDA_MODULE=/nowhere/librehearsal_cuda.so "), 4,
                {"the backend for NVIDIA GPUs is not installed", "/nowhere/librehearsal_cuda.so"});
  check_failure(rehearse(run(kGpt, "--dtype tf32")), 3, {"tf32", "--backend cuda"});
  check_failure(rehearse(run(kGpt, "--backend gpu")), 1, {"auto, onednn, reference or cuda"});
}

TEST_CASE("a device that is no NVIDIA GPU is refused as that, whether the backend for NVIDIA GPUs is here or not") {
  const std::string nowhere = "REHEARSAL_CUDA_MODULE=/nowhere/librehearsal_cuda.so ";
  const auto asked = [&](const std::string& device) {
    return rehearse(std::string("inspect ") + kGpt + " --batch 4 --kernels --device " + device, 0, nowhere);
  };
  for (const std::string device : {"MI300X", "Xeon-Gold-6248", "TPUv4"})
    check_failure(asked(device), 3, {"--device " + device, "no NVIDIA GPU", "such as h100"});
  check_failure(asked("h100"), 4, {"the backend for NVIDIA GPUs is not installed"});
}

TEST_CASE("calibrate of a GPU says what it cannot do") {
  const TemporaryFolder folder;
  const auto calibrate = "calibrate --quick -o " + (folder / "machine.json") + " --backend ";
  check_failure(rehearse(calibrate + "cuda", 0, kEmulated), 3, {"an emulated GPU", "catalogue"});
  check_failure(rehearse(calibrate + "cuda", 2, kEmulated), 1, {"--backend cuda", "without mpirun"});
  check_failure(rehearse(calibrate + "onednn"), 1, {"--backend onednn", "cuda"});
  check_failure(rehearse(calibrate + "cuda", 0, "REHEARSAL_CUDA_MODULE=/nowhere/librehearsal_cuda.so "), 4, {"not installed"});
  check_failure(rehearse("calibrate --storage /tmp --into " + (folder / "machine.json") + " --backend cuda", 0, kEmulated), 1,
                {"--backend cuda", "--into", "leave one of them out"});
  CHECK(!std::filesystem::exists(folder / "machine.json"));
}

TEST_CASE("steps that an H100 took lie in the intervals of what was measured on it") {
  // h100_machine.json: `rehearse calibrate --backend cuda --quick` on that GPU; the steps: docs/gpu.md, bf16, AdamW. They were of a program
  // that cast gradients and parameters by kernels of their own, which by the same file took 1.3, 1.6 and 2.0 ms: without those.
  const auto [model, batch, measured, least] =
      GENERATE(std::tuple{"zoo:resnet50", 64, 0.0285 - 0.0013, 0.9}, std::tuple{"zoo:gpt2", 8, 0.0478 - 0.0016, 0.7},
               std::tuple{"'zoo:bert?layers=12&hidden=768&heads=12&seq=512'", 16, 0.0327 - 0.0020, 0.9});
  const auto said =
      result_of(rehearse(std::string("estimate ") + model + " --batch " + std::to_string(batch) +
                         " --framework rehearse --dtype bf16 --optimizer adamw --dropout off --format json --platform " REHEARSAL_H100
                         " --machine " REHEARSAL_H100));
  const auto& step = said.at("step_seconds");
  INFO(model << " " << step);
  CHECK(step.at("low") < measured);
  CHECK(step.at("high") > measured);
  // How far it is off today: GPT-2 by 28 %.
  CHECK(step.at("value") > least * measured);
  CHECK(step.at("value") < measured * 1.1);
}

TEST_CASE("inspect shows the kernels of a GPU") {
  const auto shown =
      result_of(rehearse(std::string("inspect ") + kResnet + " --batch 4 --kernels --backend cuda --format json", 0, kEmulated));
  bool products = false, norms = false;
  for (const auto& row : shown.at("kernels")) {
    products = products || row.at("implementation") == "stand-in:convolution";
    norms = norms || row.at("implementation") == "cuda:normalization";
    CHECK_THAT(row.at("implementation").get<std::string>(), !contains("host:"));
  }
  CHECK(products);
  CHECK(norms);
}
