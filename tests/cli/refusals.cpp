// Values that no command can use: what is said, and with which status.
#include <filesystem>
#include <fstream>

#include "tests/cli/rehearse.hpp"

namespace {

struct Refused {
  const char* arguments;
  int status;
  const char* word;
};

const std::string kOnA100 = " --platform dgx-a100 --devices 2 --batch 8 ";

}  // namespace

TEST_CASE("values that mean nothing are refused by name") {
  const std::string gpt = std::string(kGpt) + " ";
  for (const auto& [arguments, status, word] : {Refused{"estimate GPT --tokens -5", 1, "--tokens"},
                                                {"estimate GPT --tokens nan", 1, "--tokens"},
                                                {"estimate GPT --epochs 0 --dataset 10", 1, "--epochs"},
                                                {"estimate 'zoo:resnet18?image=32' --tokens 100", 1, "no sequence"},
                                                {"estimate GPT --seed -1", 2, "seed"},
                                                {"estimate GPT --bind seq=8", 1, "names no sizes"},
                                                {"estimate GPT --bind seq", 1, "NAME=VALUE"},
                                                {"explain dp=2 --model GPT --bind seq=8", 1, "names no sizes"},
                                                {"estimate GPT --bind seq=many", 1, "whole number"},
                                                {"estimate 'zoo:gpt?layers=1&layers=2'", 1, "given twice"},
                                                {"search GPT --budget 10parsecs", 1, "30s"},
                                                {"search GPT --limit total=1h", 1, "--tokens"},
                                                {"estimate GPT --steps 9e15", 2, "beyond the largest count, 9e15"},
                                                {"search GPT --limit cost=1", 1, "--tokens"},
                                                {"search GPT --limit energy=1MWh", 1, "--tokens"},
                                                {"search GPT --budget 1 -o /nowhere/at/all.json", 1, "does not exist"},
                                                {"simulate GPT --trace /nowhere/at/all.json", 1, "does not exist"}}) {
    std::string command = arguments;
    if (const auto at = command.find("GPT"); at != std::string::npos) command.replace(at, 3, kGpt);
    INFO(command);
    check_failure(rehearse(command + kOnA100), status, {word});
  }
  check_failure(rehearse("collective --platform dgx-h100 --ranks 0"), 1, {"--ranks 0", "at least 2"});
  check_failure(rehearse("collective --platform dgx-h100 --ranks 8 --release 9.9"), 1, {"--release 9.9", "2.0 to 2."});
  for (const std::string platform : {"xeon-2s-10gbe", "tpu-v4-pod"})
    check_failure(rehearse("collective --platform " + platform + " --ranks 8 --sizes 1MB --release 2.3"), 3,
                  {"--release 2.3", "NCCL or RCCL", "leave it out"});
  check_failure(rehearse("zoo mpl"), 1, {"zoo:mpl", "there is no such model"});
  check_failure(rehearse("estimate llama3-70b" + kOnA100), 1, {"llama3-70b: there is no such file", "zoo:llama3-70b"});
  check_failure(rehearse("estimate lama3-70b" + kOnA100), 1, {"lama3-70b: there is no such file", "did you mean \"llama3-70b\""});
  check_failure(rehearse("estimate none.onnx" + kOnA100), 1, {"none.onnx", "cannot be opened"});
  check_failure(rehearse("estimate " + gpt + kOnA100 + "--tokens 1X"), 2, {"--tokens 1X", "number"});
  check_failure(rehearse("estimate " + gpt + "--platform dgx-a100 --devices 2 --batch 1.5"), 2, {"--batch 1.5", "whole number"});
  check_failure(rehearse("estimate " + gpt + "--platform dgx-a100 --nodes 1 --devices 32 --batch 64"), 1,
                {"--devices 32", "8 of --nodes 1"});
  check_failure(rehearse("inspekt zoo:resnet18"), 2, {"inspekt", "--help"});
  check_failure(rehearse("evaluate " + gpt + "--data synthetic"), 1, {"--data synthetic", "name files"});
  check_failure(rehearse("run " + gpt + "--batch 4 --base-batch 8"), 1, {"--base-batch 8", "--lr-scaling linear"});
  check_failure(rehearse("inspect zoo:resnet18 --loss hinge"), 1, {"hinge", "cross-entropy"});
  check_failure(rehearse("run " + gpt + "--batch 4 --shuffle perhaps"), 1, {"--shuffle", "on or off"});
  check_failure(rehearse("run " + gpt + "--batch 4 --dtype fp8"), 3, {"--dtype fp8", "bf16"});
}

TEST_CASE("tokens are counted by the positions of a sample") {
  // batches of 8 samples of 4 positions: 320 tokens are 10 steps
  CHECK(result_of(rehearse(std::string("estimate ") + kGpt + kOnA100 + "--tokens 320 --format json")).at("steps") == 10);
}

TEST_CASE("counts may have an exponent, or thousands, millions, billions and trillions as a letter") {
  const auto answer = [](const std::string& counts) {
    const auto result = result_of(rehearse(std::string("estimate ") + kGpt + " --platform dgx-a100 --devices 2 --format json " + counts));
    return std::pair{result.at("batch").get<double>(), result.at("steps").get<double>()};
  };
  CHECK(answer("--batch 1e3 --steps 2k") == std::pair{1000.0, 2000.0});
  CHECK(answer("--batch 0.5K --steps 1.5M") == std::pair{500.0, 1.5e6});
  CHECK(answer("--batch 8 --tokens 3.2B") == std::pair{8.0, 1e8});  // 32 tokens a step
  CHECK(answer("--batch 8 --tokens 0.0032T") == std::pair{8.0, 1e8});
}

TEST_CASE("a platform with a figure that no machine has is checked, and predicted on, with a warning") {
  auto platform = nlohmann::json::parse(rehearse("platform show dgx-h100").out);
  platform["nodes"][0]["nic"]["latency"] = "3 s";
  const TemporaryFolder folder;
  const auto path = folder / "mine.json";
  write_text(path, platform.dump());
  for (const std::string& command :
       {"platform check " + path, std::string("estimate ") + kGpt + " --devices 1 --batch 8 --platform " + path}) {
    const auto ended = rehearse(command);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.err, contains("nic.latency: 3 s; machines have 100 ns to 100 ms"));
  }
}

TEST_CASE("what no profile of a framework and no law knows is refused") {
  const std::string gpt = std::string("estimate ") + kGpt + kOnA100;
  check_failure(rehearse(gpt + "--dtype f64"), 3, {"--dtype f64", "--framework rehearse"});
  for (const char* all : {"--freeze '*'", "--lora 4 --freeze '*'"})
    check_failure(rehearse(gpt + all), 3, {"nothing in this model can be trained"});
  for (const char* part : {"--lora 4", "--freeze '*bias*'"}) {
    const std::string option(part, std::string_view(part).find(' '));
    check_failure(rehearse(gpt + "--budget 1e18FLOP " + part), 1, {option, "--budget", "--tokens"});
    check_failure(rehearse(gpt + "--to-loss 3.2 " + part), 1, {option, "--to-loss"});
  }
}

TEST_CASE("a forward pass is predicted with a warning, and no command trains it") {
  const TemporaryFolder folder;
  const std::string pass = std::string(kGpt) + " --batch 4 --loss none ", plan = folder / "plan.json";
  for (const char* on_nan : {"stop", "skip", "go"})
    check_failure(rehearse("run " + pass + "--steps 2 --checkpoint " + (folder / "c") + " --on-nan " + on_nan), 3,
                  {"--loss none", "nothing is trainable"});
  CHECK_FALSE(std::filesystem::exists(folder / "c"));
  const std::string own = "--platform xeon-2s-10gbe --devices 2 --format json ";
  const auto forward = rehearse("estimate " + pass + own);
  CHECK_THAT(forward.err, contains("--loss none: a step is a forward pass alone"));
  const auto seconds = [](const Ended& ended) { return result_of(ended).at("step_seconds").at("value").get<double>(); };
  CHECK(seconds(forward) < seconds(rehearse(std::string("estimate ") + kGpt + " --batch 4 " + own)));
  const auto searched = rehearse("search " + pass + own + "--budget 20plans -o " + plan);
  CHECK(searched.status == 0);
  CHECK_THAT(searched.err, contains("forward pass alone"));
  check_failure(rehearse("launch mpirun " + plan + " --steps 2"), 3, {"--loss none", "nothing is trainable"});
}

TEST_CASE("values that no training can have are refused where they change no time, too") {
  const std::string gpt = std::string("estimate ") + kGpt + kOnA100;
  check_failure(rehearse(gpt + "--optimizer adamw --clip-norm -1"), 1, {"--clip-norm", "above 0"});
  check_failure(rehearse(gpt + "--lr-scaling cubic --base-batch 8"), 1, {"--lr-scaling cubic", "linear or sqrt"});
  check_failure(rehearse(gpt + "--lr-scaling linear"), 1, {"--lr-scaling linear", "--base-batch"});
  check_failure(rehearse(gpt + "--base-batch 8"), 1, {"--base-batch 8", "--lr-scaling"});
}

TEST_CASE("what changes nothing is refused") {
  const std::string gpt = std::string("estimate ") + kGpt + kOnA100, pictures = std::string("estimate zoo:resnet18 ") + kOnA100;
  check_failure(rehearse(pictures + "--recipe packed=128"), 3, {"packed", "no attention"});
  check_failure(rehearse(pictures + "--recipe parallel_blocks=on"), 3, {"parallel_blocks", "no attention"});
  check_failure(rehearse(gpt + "--recipe packed=128"), 3, {"packed", "128 tokens", "sequences of 4"});
  check_failure(rehearse(gpt + "--recipe packed=nosuch.txt"), 1, {"packed=nosuch.txt", "file"});
  check_failure(rehearse(gpt + "--recipe power=10"), 3, {"power", "A100", "between"});
  check_failure(rehearse(gpt + "--recipe power=4000"), 3, {"power", "A100", "between"});
  CHECK(rehearse(gpt + "--recipe power=400").status == 0);  // what it draws at most
  check_failure(rehearse(gpt + "--input x=y"), 1, {"--input", "--data"});
  check_failure(rehearse(gpt + "--normalize imagenet"), 1, {"--normalize", "--data"});
  for (const char* option : {"--dtype bf16", "--optimizer adam", "--backend onednn"})
    check_failure(rehearse(std::string("inspect ") + kGpt + " " + option), 2, {"--kernels"});
  const TemporaryFolder folder;
  write_text(folder / "lengths.txt", "3\n2\nmany\n");
  check_failure(rehearse(gpt + "--recipe packed=" + (folder / "lengths.txt")), 1, {"lengths.txt", "line 3", "many"});
}

TEST_CASE("a model too large for every plan is refused with what is missing") {
  check_failure(rehearse("search 'zoo:gpt?layers=96&hidden=12288&heads=96&seq=2048&vocab=51200' --platform dgx-a100 --devices 1 --batch 8"),
                3, {"the nearest is", "more than", "GB"});
}

TEST_CASE("a plan that does not fit is answered with what it lacks, and ends with 3") {
  const auto ended = rehearse("estimate zoo:llama3-70b --platform dgx-h100 --devices 8 --batch 8 --dtype bf16 --plan dp=8 --format json");
  CHECK(ended.status == 3);
  const auto answer = nlohmann::json::parse(ended.out);
  CHECK(answer.at("fits") == false);
  CHECK(answer.at("memory_bytes").at("value") > answer.at("memory_bytes").at("capacity"));
  CHECK_THAT(answer.at("shortage").get<std::string>(), contains("more than the 85.9 GB that its device has"));
}

TEST_CASE("a plan that may run out of memory is answered with the chance that it does, and one that hardly can but is refused") {
  // Of 141 GiB 158 and 206 by prediction, of which one in twenty needs 1.44 times as much: 0.515 and 1.70 standard deviations of
  // ln 1.44 / 1.6449 too much, below which 70 and 96 % of a normal distribution lie.
  const std::string ask =
      "estimate zoo:llama3-8b --platform dgx-h200 --devices 8 --batch 96 --dtype bf16 --framework torchtitan --format json --plan "
      "dp=8,zero=3,micro_batch=";
  const auto may = rehearse(ask + "3");
  REQUIRE(may.status == 0);
  const auto answer = nlohmann::json::parse(may.out);
  CHECK(answer.at("memory_bytes").at("value") > answer.at("memory_bytes").at("capacity"));
  CHECK(answer.at("memory_bytes").at("low") < answer.at("memory_bytes").at("capacity"));
  CHECK_THAT(answer.at("may_not_fit").get<std::string>(), contains("it runs out of memory with a chance of 70 %"));
  CHECK_FALSE(answer.contains("fits"));
  const auto never = rehearse(ask + "4");
  CHECK(never.status == 3);
  CHECK(nlohmann::json::parse(never.out).at("fits") == false);
}

TEST_CASE("a key that measurements give twice is refused") {
  const auto file = std::filesystem::temp_directory_path() / "rehearsal_refusals.json";
  std::ofstream(file) << R"({"calibration": {"schema": 1, "schema": 1}})";
  check_failure(rehearse(std::string("estimate ") + kGpt + kOnA100 + "--machine " + file.string()), 1,
                {"rehearsal_refusals.json", "schema", "twice"});
  std::filesystem::remove(file);
}

TEST_CASE("an option without a value is not left out, and takes no other option for its value") {
  const std::string run = std::string("run ") + kGpt + " --batch 4 --steps 1 ";
  for (const auto* option : {"--checkpoint", "--resume", "--export", "--machine", "--lora", "--plan", "--trace", "--metrics"}) {
    check_failure(rehearse(run + option + "= --lr=0.9"), 2, {std::string(option) + "=", "has no value"});
    check_failure(rehearse(run + option + " ''"), 2, {option, "has an empty value"});
  }
  check_failure(rehearse(std::string("estimate ") + kGpt + kOnA100 + "--freeze= --dtype=bf16"), 2, {"--freeze="});
  check_failure(rehearse("platform show ''"), 2, {"empty"});
  CHECK(rehearse(std::string("estimate ") + kGpt + kOnA100 + "--plan=dp=2").status == 0);
}

TEST_CASE("an answer that cannot be written whole is no success") {
  const std::string estimate = std::string(REHEARSAL_COMMAND) + " estimate " + kGpt + kOnA100;
  for (const std::string end : {" >/dev/full", " >&-", " --format json >/dev/full"}) {
    INFO(end);
    const auto ended = run_shell(estimate + end);
    CHECK(ended.status == 4);
    CHECK_THAT(ended.err, contains("standard output"));
  }
  for (const std::string asked : {"--help", "--version", "estimate --help", "bench data --help"}) {
    INFO(asked);
    const auto ended = run_shell(std::string(REHEARSAL_COMMAND) + " " + asked + " >/dev/full");
    CHECK(ended.status == 4);
    CHECK_THAT(ended.err, contains("standard output"));
  }
}

TEST_CASE("a file larger than the shell allows is an error, and what was there stays") {
  const TemporaryFolder folder;
  const auto run = std::string(REHEARSAL_COMMAND) +
                   " run \"zoo:gpt?layers=1&hidden=64&heads=4&seq=8&vocab=500\" --batch 4 --steps 1 --checkpoint " + (folder / "c");
  const auto ended = run_shell("ulimit -f 8; " + run);
  CHECK(ended.status == 4);
  CHECK_THAT(ended.err, contains("error: "));
}

TEST_CASE("numbers of an optimizer that are said twice, or mean nothing together, are refused") {
  const std::string run = std::string("run ") + kGpt + " --batch 4 --steps 1 ";
  check_failure(rehearse(run + "--nesterov on"), 1, {"--nesterov", "--momentum"});
  check_failure(rehearse(run + "--optimizer sgd:nesterov=1"), 1, {"--nesterov", "--momentum"});
  check_failure(rehearse(run + "--optimizer sgd:momentum=0.9 --momentum 0.1"), 1, {"momentum", "leave one of them out"});
  check_failure(rehearse(run + "--optimizer sgd:lr=0.5,lr=0.1"), 1, {"lr twice"});
  CHECK(rehearse(run + "--optimizer sgd:nesterov=1 --momentum 0.9").status == 0);
  CHECK(rehearse(run + "--optimizer sgd:momentum=0.9 --momentum 0.9").status == 0);
}

TEST_CASE("a value of --vary that is refused is a row that says why, with and without a plan") {
  const std::string ask = std::string("estimate ") + kGpt + " --batch 8 --platform dgx-a100 --devices 4 --format json ";
  for (const std::string plan : {"", "--plan dp=4 "}) {
    INFO(plan);
    const auto rows = result_of(rehearse(ask + plan + "--vary link.bandwidth=-1GB/s,300GB/s --vary zero=9 --vary dp=3")).at("vary");
    REQUIRE(rows.size() == 4);
    CHECK_THAT(rows[0].at("refused").get<std::string>(), contains("must be from 1 kB/s"));
    CHECK(rows[1].contains("step_seconds"));
    CHECK_THAT(rows[2].at("refused").get<std::string>(), contains("must be a whole number from 0 to 3"));
    CHECK_THAT(rows[3].at("refused").get<std::string>(), contains("3 replicas do not divide"));
    const auto none = rehearse(ask + plan + "--vary link.bandwidth=-1GB/s --vary dp=3");  // the estimate itself is still there
    CHECK(none.status == 3);
    CHECK(nlohmann::json::parse(none.out).at("vary").size() == 2);
    CHECK_THAT(none.err, contains("every value of --vary is refused") && contains("dp=3: "));
    check_failure(rehearse(ask + plan + "--vary zero=9"), 1, {"zero=9", "from 0 to 3"});
  }
}

TEST_CASE("an estimate that is refused itself has the rows of other values") {
  const std::string large = "estimate 'zoo:llama2-70b?seq=4096' --batch 64 --platform dgx-a100 --devices 8 --dtype bf16 --format json ";
  const auto ended = rehearse(large + "--vary devices=8 --vary zero=3");
  const auto answer = result_of(ended);
  CHECK_THAT(answer.at("refused").get<std::string>(), contains("data parallelism over 8 devices needs"));
  CHECK_THAT(ended.err, contains("data parallelism over 8 devices needs"));
  CHECK_FALSE(answer.contains("step_seconds"));
  const auto& rows = answer.at("vary");
  REQUIRE(rows.size() == 2);
  CHECK_THAT(rows[0].at("refused").get<std::string>(), contains("data parallelism over 8 devices needs"));
  CHECK(rows[1].at("plan") == "dp=8,zero=3");
  check_failure(rehearse(large + "--vary devices=8,4"), 3, {"data parallelism over 8 devices needs"});
  check_failure(rehearse(large), 3, {"data parallelism over 8 devices needs"});
  const auto split = result_of(rehearse(std::string("estimate ") + kGpt +
                                        " --batch 6 --platform dgx-a100 --devices 4 --plan dp=4 --framework pytorch --format json "
                                        "--vary batch=6,8"));
  CHECK(split.at("vary")[0].contains("refused"));
  CHECK(split.at("vary")[1].at("plan") == "dp=4");
}

TEST_CASE("one kind of fault has one status, whichever command finds it") {
  const TemporaryFolder folder;
  const std::string job = std::string(" --model ") + kGpt + " --batch 8 ";
  // A plan that cannot run.
  check_failure(rehearse("explain dp=3" + job + "--platform dgx-a100 --devices 4"), 3, {"3 replicas do not divide"});
  check_failure(rehearse("export dp=3 --for deepspeed" + job), 3, {"3 replicas do not divide"});
  check_failure(rehearse("export dp=auto --for deepspeed" + job), 3, {"dp=auto", "rehearse search"});
  // What a command cannot do without.
  check_failure(rehearse("zoo -o " + (folder / "x.onnx")), 2, {"--output", "name one"});
  check_failure(rehearse("zoo --batch 3"), 2, {"--batch", "name one"});
  check_failure(rehearse("zoo resnet18"), 2, {"zoo resnet18", "-o model.onnx"});
  check_failure(rehearse("explain dp=2"), 2, {"--model"});
  check_failure(rehearse("export dp=2 --for deepspeed --model " + std::string(kGpt)), 2, {"--batch"});
  check_failure(rehearse("report"), 2, {"-o page.html"});
  check_failure(rehearse("jobs"), 2, {"JOBS"});
  // A folder where a file is read.
  const auto place = folder / "";
  for (const auto& command : {"report " + place + " -o " + (folder / "p.html"), "report -o " + (folder / "p.html") + " --search " + place,
                              "compare " + place + " " + place})
    check_failure(rehearse(command), 1, {place});
}
