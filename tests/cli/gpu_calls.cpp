// What calls NVIDIA's libraries, as the program opens it. Asked about GPUs that are not here it is linked with the libraries themselves; to
// train, with doubles of them that compute what their documentation says, as late as it allows, and that let calls fail
// (tests/exec/gpu/double).
#include <algorithm>
#include <cmath>

#include "tests/cli/rehearse.hpp"

namespace {

using Losses = std::vector<double>;

const std::string kLibraries = "REHEARSAL_CUDA_MODULE=\"" REHEARSAL_GPU_LIBRARIES "\" ";
const std::string kDouble = "REHEARSAL_CUDA_MODULE=\"" REHEARSAL_GPU_DOUBLE "\" ";

std::string inspect(const std::string& model, const std::string& options) {
  return "inspect " + model + " --kernels --format json " + options;
}

std::string run(const std::string& model, const std::string& options) {
  const auto or_else = [&](const std::string& option, const std::string& value) {
    return options.find(option + " ") == std::string::npos ? option + " " + value + " " : "";
  };
  return "run " + model + " --format json " + or_else("--batch", "4") + or_else("--optimizer", "adam") + or_else("--steps", "3") +
         or_else("--lr", "0.01") + options;
}

Losses on_double(const std::string& arguments, int ranks = 0, const std::string& before = "") {
  return losses_of(rehearse(arguments + " --backend cuda", ranks, kDouble + before));
}

/// Largest difference over the first loss.
double apart(const Losses& a, const Losses& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[0]));
  return largest;
}

/// One error, in one line.
void check_one_message(const Ended& ended, const std::vector<std::string>& words) {
  check_failure(ended, 4, words);
  const std::string mark = "error: ";
  const auto first = ended.err.find(mark);
  CHECK(first != std::string::npos);
  CHECK(ended.err.find(mark, first + 1) == std::string::npos);
}

/// Few layers, every one of which calls cuDNN or cuBLASLt.
constexpr const char* kSmallNet = "'zoo:unet2d?image=16&channels=2'";

}  // namespace

TEST_CASE("inspect says what would run on a GPU that is not here") {
  for (const auto& [asked, name] :
       {std::pair{"h100", "H100-SXM5-80GB"}, {"'NVIDIA A100-SXM4-40GB'", ""}, {"T4", ""}, {"b200", ""}, {"V100", ""}}) {
    INFO(asked << name);
    const auto shown = result_of(rehearse(inspect("zoo:resnet18", "--batch 8 --device " + std::string(asked)), 0, kLibraries));
    std::int64_t convolutions = 0;
    bool products = false, norms = false;
    for (const auto& row : shown.at("kernels")) {
      const auto implementation = row.at("implementation").get<std::string>();
      CHECK_THAT(implementation, !contains("host:"));
      CHECK(row.at("workspace_bytes").get<double>() >= 0);
      products = products || (implementation == "cublaslt:product" && row.at("workspace_bytes") > 0);
      norms = norms || implementation == "cuda:normalization";
      if (!row.at("op").get<std::string>().starts_with("Conv")) continue;
      CHECK(implementation == "cudnn:convolution");
      CHECK(row.at("engine").get<std::string>().starts_with("eng"));
      convolutions += row.at("nodes").get<std::int64_t>();
    }
    CHECK(convolutions == 20 + 19 + 20);
    CHECK(products);
    CHECK(norms);
  }
  const auto text = rehearse("inspect zoo:resnet18 --batch 8 --kernels --device h100", 0, kLibraries);
  for (const auto* word : {"engine", "workspace", "cudnn:convolution", "eng"}) CHECK_THAT(text.out, contains(word));
}

TEST_CASE("types have engines of their own") {
  const auto engines = [](const std::string& dtype) {
    std::string all;
    const auto shown = result_of(rehearse(inspect("zoo:resnet18", "--batch 8 --device h100 --dtype " + dtype), 0, kLibraries));
    for (const auto& row : shown.at("kernels"))
      if (row.at("op") == "Conv") all += row.at("engine").get<std::string>() + " ";
    return all;
  };
  CHECK(engines("f32") != engines("tf32"));
  CHECK(engines("bf16") != engines("f32"));
}

TEST_CASE("what cuDNN has no plan for is shown with what would run instead, and why") {
  const auto shown = result_of(rehearse(inspect("zoo:resnet18", "--batch 8 --device V100 --dtype bf16"), 0, kLibraries));
  int refused = 0;
  for (const auto& row : shown.at("kernels")) {
    if (!row.at("op").get<std::string>().starts_with("Conv") || row.at("implementation") == "cudnn:convolution") continue;
    ++refused;
    CHECK(row.at("implementation").get<std::string>().starts_with("host:"));
    CHECK(row.at("engine") == "");
    CHECK_THAT(row.at("why").get<std::string>(), contains("cudnn:convolution: ") && contains("cuDNN"));
  }
  CHECK(refused > 0);
}

TEST_CASE("what cannot be said of a GPU that is not here is refused with its reason") {
  check_failure(rehearse(inspect(kResnet, "--device h1000"), 0, kLibraries), 1, {"device \"h1000\"", "did you mean \"H100\"?"});
  check_failure(rehearse(inspect(kResnet, "--device TPUv4"), 0, kLibraries), 3,
                {"TPUv4-32GB", "no NVIDIA GPU of a known compute capability"});
  check_failure(rehearse(inspect(kResnet, "--device P100"), 0, kLibraries), 3, {"P100", "Volta (7.0)"});
  check_failure(rehearse(inspect(kResnet, "--device h100 --backend onednn"), 0, kLibraries), 3, {"H100-SXM5-80GB", "--backend cuda"});
  check_failure(rehearse(std::string("inspect ") + kResnet + " --format json --device h100", 0, kLibraries), 2,
                {"--device requires --kernels"});
  check_one_message(rehearse(inspect(kResnet, "--device h100"), 0, "REHEARSAL_CUDA_MODULE=/nowhere/librehearsal_cuda.so "),
                    {"the backend for NVIDIA GPUs is not installed", "/nowhere/librehearsal_cuda.so"});
  check_one_message(rehearse(inspect(kResnet, "--device h100"), 0, kDouble + "REHEARSAL_DOUBLE_CUDNN=90701 "),
                    {"cuDNN 9.8 or later", "9.7.1"});
}

TEST_CASE("without a driver a GPU of this machine is refused in one sentence") {
  check_one_message(rehearse(run(kGpt, "--backend cuda"), 0, kLibraries), {"shows no NVIDIA GPU", "CUDA driver"});
}

TEST_CASE("the calls of NVIDIA's libraries train to the losses of the CPU, whatever the plan") {
  const auto [model, ranks, plan] = GENERATE(
      std::tuple{kGpt, 0, ""}, std::tuple{kSmallNet, 0, ""}, std::tuple{kGpt, 2, "--plan dp=2,micro_batch=1"},
      std::tuple{kGpt, 2, "--plan dp=2,zero=3"}, std::tuple{kGpt, 2, "--plan pp=2,micro_batch=1"}, std::tuple{kGpt, 2, "--plan tp=2"},
      std::tuple{kGpt, 0, "--plan micro_batch=2,recompute=full"}, std::tuple{kGpt, 0, "--plan micro_batch=1,offload=activations"},
      std::tuple{kSmallNet, 2, "--plan dp=2"}, std::tuple{kSmallNet, 2, "--plan spatial=2"});
  INFO(model << " " << plan);
  const auto options = (model == kSmallNet ? "--optimizer sgd --dtype f64 " : "") + std::string(plan);
  const auto cpu = losses_of(rehearse(run(model, options), ranks));
  const auto gpu = on_double(run(model, options), ranks);
  CHECK(cpu[2] != cpu[0]);
  CHECK(apart(gpu, cpu) < (model == kSmallNet ? 1e-9 : 2e-5));  // sums in another order, three steps
}

TEST_CASE("in 16 bits, too, plans learn on GPUs what they learn on the CPU") {
  const std::string dtype = GENERATE("bf16", "f16");
  const std::string plan = GENERATE("cp=2,attention=ring", "cp=2,attention=gather", "tp=2,sequence_parallel=on", "dp=2,zero=3");
  INFO(dtype << " " << plan);
  // steps so large that a wrong gradient shows in the next losses
  const auto arguments = run("'zoo:gpt?layers=1&hidden=32&heads=2&seq=16&vocab=50'",
                             "--optimizer sgd --lr 0.5 --steps 10 --dtype " + dtype + " --plan " + plan);
  CHECK(apart(on_double(arguments, 2), losses_of(rehearse(arguments, 2))) < 0.03);
}

TEST_CASE("GPUs of their own do collectives among themselves, to the losses of the CPU, whatever the plan") {
  struct Case {
    const char* model;
    int ranks;
    const char *options, *by;
  };
  const std::string gpus = "REHEARSAL_DOUBLE_GPUS=4 ";
  const auto c = GENERATE(
      Case{kGpt, 2, "--plan dp=2,micro_batch=1", "NCCL"}, Case{kGpt, 2, "--plan dp=2,zero=1", "NCCL"},
      Case{kGpt, 2, "--plan dp=2,zero=3", "NCCL"}, Case{kGpt, 2, "--plan tp=2", "NCCL"},
      Case{kGpt, 2, "--plan tp=2,sequence_parallel=on", "NCCL"}, Case{kGpt, 2, "--plan cp=2,attention=all-to-all", "NCCL"},
      Case{kGpt, 2, "--plan cp=2,attention=ring", "NCCL"}, Case{kGpt, 4, "--plan dp=2,pp=2,micro_batch=1", "NCCL"},
      Case{kGpt, 4, "--plan dp=2,tp=2,zero=1", "NCCL"}, Case{kGpt, 3, "--plan dp=3,zero=2 --batch 6", "NCCL"},
      Case{kSmallNet, 2, "--plan spatial=2 --optimizer sgd --dtype f64", "NCCL"},
      Case{kGpt, 2, "--plan dp=2,allreduce=halving-doubling", "host"}, Case{kGpt, 2, "--plan pp=2,micro_batch=1,allreduce=ring", "host"});
  INFO(c.model << " " << c.options);
  const auto cpu = losses_of(rehearse(run(c.model, c.options), c.ranks));
  const auto gpu = result_of(rehearse(run(c.model, c.options) + " --backend cuda", c.ranks, kDouble + gpus));
  CHECK(gpu.at("device") == "a double of a GPU (cuda:0)");
  CHECK(gpu.at("collectives_by").get<std::string>().starts_with(c.by));
  const auto losses = gpu.at("losses").get<Losses>();
  CHECK(cpu[2] != cpu[0]);
  CHECK(apart(losses, cpu) < 2e-5);
  CHECK(on_double(run(c.model, c.options), c.ranks, gpus + "REHEARSAL_DOUBLE_ORDER=eager ") == losses);
}

TEST_CASE("ranks that share a GPU send through memory of the host, and say so") {
  const auto shared = result_of(rehearse(run(kGpt, "--plan dp=2 --backend cuda"), 2, kDouble + "REHEARSAL_DOUBLE_GPUS=1 "));
  CHECK(shared.at("collectives_by") == "host");
}

TEST_CASE("NCCL that fails, and ranks that are lost in a collective, end in one sentence and status 4") {
  const std::string gpus = "REHEARSAL_DOUBLE_GPUS=2 ";
  struct Failing {
    const char* failure;
    std::vector<std::string> words;
  };
  for (const auto& c : {Failing{"ncclGetUniqueId:1:2", {"NCCL: naming a group of GPUs", "unhandled system error"}},
                        Failing{"ncclCommInitRankConfig:1:2", {"NCCL: joining a group of GPUs"}},
                        Failing{"ncclAllReduce:3:1", {"NCCL: an all-reduce", "unhandled cuda error"}},
                        Failing{"ncclCommGetAsyncError:9:6", {"NCCL: ", "remote process exited or there was a network error"}}}) {
    INFO(c.failure);
    const TemporaryFolder left;  // what a rank that ends leaves behind
    const auto settings = gpus + "TMPDIR=" + (left / "") + " REHEARSAL_DOUBLE_FAILURE=" + c.failure + " ";
    check_one_message(rehearse(run(kGpt, "--plan dp=2 --backend cuda"), 2, kDouble + settings), c.words);
  }
}

TEST_CASE("work is in order whether it is done at once or as late as it may be: the same bits") {
  for (const auto* options : {"", "--plan micro_batch=1,offload=activations"}) {
    INFO(options);
    CHECK(on_double(run(kGpt, options)) == on_double(run(kGpt, options), 0, "REHEARSAL_DOUBLE_ORDER=eager "));
  }
}

TEST_CASE("16-bit numbers and tf32 reach the libraries") {
  for (const auto* dtype : {"bf16", "f16"}) {
    INFO(dtype);
    const auto options = std::string("--dtype ") + dtype;
    CHECK(apart(on_double(run(kGpt, options)), losses_of(rehearse(run(kGpt, options)))) < 1e-2);
  }
  // The double rounds nothing in tensor cores.
  CHECK(apart(on_double(run(kGpt, "--dtype tf32")), losses_of(rehearse(run(kGpt, "")))) < 2e-5);
}

TEST_CASE("a GPU that fails ends in one sentence and status 4") {
  struct Failing {
    const char* failure;  ///< call, which one of them, error
    std::vector<std::string> words;
  };
  const std::vector<Failing> cases{
      {"cudaGetDeviceCount:1:35", {"no NVIDIA GPU", "CUDA driver version is insufficient", "a driver for CUDA 13 or later is needed"}},
      {"cudaGetDeviceCount:1:100", {"no NVIDIA GPU", "no CUDA-capable device"}},
      {"cudaGetDeviceCount:1:803", {"unsupported display driver", "cudaErrorSystemDriverMismatch"}},
      {"cudaMalloc:1:2", {"memory: ", "for the arena of this rank", "use a plan that needs less"}},
      {"cudaHostAlloc:1:2", {"out of memory"}},
      {"cudnnCreate:1:1006", {"cuDNN could not be started"}},
      {"cublasLtCreate:1:1", {"cuBLASLt could not be started"}},
      // A GPU that is lost while it trains: every later call says the same.
      {"cublasLtMatmul:4:719", {"a product of", "by cuBLASLt failed", "CUBLAS_STATUS_EXECUTION_FAILED"}},
      {"cudaStreamSynchronize:9:719", {"unspecified launch failure", "cudaErrorLaunchFailure"}},
      {"cudaMemcpyAsync:12:214", {"uncorrectable ECC error", "cudaErrorECCUncorrectable"}}};
  for (const auto& c : cases) {
    INFO(c.failure);
    check_one_message(rehearse(run(kGpt, "--backend cuda"), 0, kDouble + "REHEARSAL_DOUBLE_FAILURE=" + c.failure + " "), c.words);
  }
  INFO("cudnnBackendExecute");
  check_one_message(
      rehearse(run(kSmallNet, "--optimizer sgd --backend cuda"), 0, kDouble + "REHEARSAL_DOUBLE_FAILURE=cudnnBackendExecute:2:719 "),
      {"cuDNN: running a plan", "CUDNN_STATUS_EXECUTION_FAILED"});
}

TEST_CASE("an arena that the GPU has no room for is refused with what there is") {
  check_one_message(rehearse(run("'zoo:gpt?layers=2&hidden=128&heads=2&seq=16&vocab=1000'", "--backend cuda"), 0,
                             kDouble + "REHEARSAL_DOUBLE_MEGABYTES=1 "),
                    {"memory: ", "could not be had on the GPU", "free of 1.05 MB"});
}

TEST_CASE("gpu-check writes one file: what agrees, and what failed with its reason") {
  const TemporaryFolder folder;
  write_text(folder / "nvidia-smi",
             "#!/bin/sh\ncase \"$*\" in *query-gpu=name\\ *) echo 'NVIDIA H100 80GB HBM3';; *) echo 'GPU 0';; esac\n");
  std::filesystem::permissions(folder / "nvidia-smi", std::filesystem::perms::owner_all);
  const auto check = [&](const std::string& before) {
    return run_shell(kDouble + "REHEARSAL_DOUBLE_GPUS=2 PATH=" + (folder / "") + ":$PATH " + before +
                     " " REHEARSAL_GPU_CHECK " --quick --rehearse " REHEARSAL_COMMAND " --network " + kGpt + " -o " +
                     (folder / "report.json"));
  };
  const auto checked = check("");
  INFO(checked.out << checked.err);
  CHECK(checked.status == 0);
  const auto report = nlohmann::json::parse(text_of(folder / "report.json"));
  CHECK(report.at("losses").size() == 12);
  for (const auto& row : report.at("losses")) CHECK(row.at("agree") == true);
  CHECK(report.at("predictions").at("platform") == "dgx-h100");
  CHECK(report.at("predictions").at("median_error").is_number());
  CHECK(report.at("speed").at(0).at("ours").at("step_seconds") > 0);
  CHECK(report.at("kernels").at("f32").at("differ_from_description").is_array());  // the double's engines are its own
  CHECK_THAT(report.at("one_by_one").at("failed").get<std::string>(), contains("test_gpu was not built"));  // nor could it run on doubles
  CHECK_THAT(report.at("calibration").at("failed").get<std::string>(), contains("a double of a GPU") && contains("catalogue"));
  CHECK_THAT(report.at("machine").at("gpus").at(0).get<std::string>(), contains("GPU 0"));

  CHECK(check("REHEARSAL_DOUBLE_FAILURE=cublasLtMatmul:4:719").status == 1);
  const auto lost = nlohmann::json::parse(text_of(folder / "report.json"));
  CHECK_THAT(lost.at("losses").at(0).at("failed").get<std::string>(), contains("a product of") && contains("by cuBLASLt failed"));
}

TEST_CASE("a library that is not there is named") {
  check_one_message(rehearse(run(kGpt, "--backend cuda"), 0, "REHEARSAL_CUDA_MODULE=\"" REHEARSAL_GPU_WITHOUT_LIBRARY "\" "),
                    {"the backend for NVIDIA GPUs cannot be opened", "librehearsal_absent.so"});
}
