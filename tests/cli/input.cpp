// When steps wait for their samples, as a user asks it: estimate, search, simulate, explain.
#include <filesystem>
#include <fstream>

#include "tests/cli/rehearse.hpp"
#include "tests/exec/data/stored.hpp"

namespace {

constexpr const char* kPictures = " --dataset samples=1M,bytes=1.28MB ";

std::string resnet(const std::string& options) {
  return "estimate zoo:resnet50 --format json --platform dgx-a100 --nodes 2 --batch 2048 --dtype bf16 --plan dp=16 " + options;
}
nlohmann::json estimate(const std::string& options) { return result_of(rehearse(resnet(options))); }
nlohmann::json estimate_on(int nodes, const std::string& options) {
  return result_of(rehearse("estimate zoo:resnet50 --format json --platform dgx-a100 --nodes " + std::to_string(nodes) +
                            " --batch 2048 --dtype bf16 " + options));
}
double value(const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); }

/// A machine of the catalogue with storage of 100 MB/s and cores that decode 100 MB/s.
std::string with_storage(const std::string& name, const std::string& file) {
  auto platform = result_of(rehearse("platform show " + name + " --format json"));
  for (auto& group : platform["nodes"]) group["storage"] = {{"bandwidth", "100 MB/s"}, {"decoding", "100 MB/s"}, {"cache", "8 GB"}};
  std::ofstream(file) << platform;
  return file;
}

}  // namespace

TEST_CASE("estimate says that a step waits for the storage, for how long, and what follows") {
  const auto alone = estimate("");
  const auto bound = estimate(kPictures);
  // A node wants 1024 samples of 1.28 MB, and has 8 GB/s while two of 32 read: 0.16384 s.
  const double pace = 1024 * 1.28e6 / 8e9, computing = value(alone, "step_seconds");
  REQUIRE(computing < 0.9 * pace);
  CHECK_FALSE(alone.contains("input"));
  CHECK(value(bound, "step_seconds") == Approx(pace));
  CHECK(value(bound, "samples_per_second") == Approx(2048 / pace));
  const auto& input = bound.at("input");
  CHECK(value(input, "seconds") == Approx(pace));
  CHECK(value(input, "computing_seconds") == Approx(computing));
  CHECK(input.at("waiting_seconds") == Approx(pace - computing));
  CHECK(input.at("bound") == true);
  CHECK(input.at("bound_by") == "storage");
  CHECK(input.at("bytes") == Approx(2048 * 1.28e6));
  CHECK(bound.at("breakdown").at("io") == Approx(pace - computing));
  CHECK_THAT(input.at("says").get<std::string>(), contains("bound by storage"));
  CHECK_THAT(input.at("rests_on").get<std::string>(), contains("SuperPOD"));
  // A tenth of the bytes hides behind computing.
  const auto hidden = estimate("--dataset samples=1M,bytes=128kB");
  CHECK(value(hidden, "step_seconds") == Approx(computing));
  CHECK(hidden.at("input").at("bound") == false);
  CHECK_FALSE(hidden.at("input").contains("bound_by"));
}

TEST_CASE("an epoch that fills the cache is counted apart from those that use it") {
  // 500 steps of 2048 are an epoch of 1,024,000 samples: 1.31 TB at 1.28 MB each, 164 ms of reading a step.
  const auto dataset = std::string("--dataset samples=1024k,bytes=1.28MB --epochs 10 --cache ");
  const auto whole = estimate(dataset + "global=1.28TB");  // two nodes hold all
  const auto& input = whole.at("input");
  const double first = 0.16384, later = value(input, "computing_seconds");
  CHECK(value(input, "step_seconds") == Approx(later));
  CHECK(input.at("first_epoch").at("steps") == 500);
  CHECK(value(input.at("first_epoch"), "step_seconds") == Approx(first));
  CHECK(value(whole, "total_seconds") == Approx(500 * first + 4500 * later));
  CHECK(value(whole, "cost_dollars") == Approx(2 * 40.97 / 3600 * (500 * first + 4500 * later)));
  CHECK(input.at("from").at("storage") == 0);
  // A quarter of the samples: that much less is read.
  const auto quarter = estimate(dataset + "node=327.68GB");
  CHECK(value(quarter.at("input"), "step_seconds") == Approx(0.75 * first));
  CHECK(quarter.at("input").at("from").at("own_cache") == Approx(0.25));
  const auto clairvoyant = estimate(dataset + "node:clairvoyant=327.68GB");
  CHECK(clairvoyant.at("input").at("from").at("own_cache") > 0.25);
  CHECK(value(clairvoyant, "total_seconds") < value(quarter, "total_seconds"));
  const auto page_cache = estimate(dataset + "node:lru=327.68GB");
  CHECK(value(page_cache, "total_seconds") > value(quarter, "total_seconds"));
  // The end of a training that may fail is no earlier than that.
  CHECK(value(quarter.at("goodput"), "finished_seconds") >= value(quarter, "total_seconds"));
}

TEST_CASE("with a cache an answer is about one step: the mean of the training, or one behind the first epoch where no length is given") {
  const auto dataset = std::string("--dataset samples=1024k,bytes=1.28MB --cache global=1.28TB ");
  const double first = 0.16384;  // as above
  struct Case {
    const char* length;
    double steps, of_first;
    const char* says;
  };
  for (const auto& [length, steps, of_first, says] :
       {Case{"", 1, 0, "a step behind the first epoch"}, Case{"--steps 1", 1, 1, "one step, of the first epoch"},
        Case{"--epochs 1", 500, 500, "the mean of 500 steps, all of them in the first epoch"},
        Case{"--epochs 10", 5000, 500, "the mean of 5000 steps, 500 of them in the first epoch"}}) {
    INFO(length);
    const auto answer = estimate(dataset + length);
    const auto& input = answer.at("input");
    const double computing = value(input, "computing_seconds"), later = value(input, "step_seconds"), step = value(answer, "step_seconds");
    REQUIRE(later < 0.9 * first);
    CHECK(step == Approx((of_first * first + (steps - of_first) * later) / steps));
    CHECK(answer.at("steps") == steps);
    CHECK(value(answer, "total_seconds") == Approx(steps * step));
    CHECK(value(answer, "samples_per_second") == Approx(2048 / step));
    CHECK(answer.at("breakdown").at("io") == Approx(step - computing).margin(1e-9));
    CHECK(value(answer, "cost_dollars") == Approx(2 * 40.97 / 3600 * steps * step));  // two nodes
    CHECK(value(input.at("first_epoch"), "step_seconds") == Approx(first));
    CHECK_THAT(input.at("says").get<std::string>(), contains(says));
  }
}

TEST_CASE("other figures of storage are tried with --vary") {
  const auto answer = estimate(std::string(kPictures) + "--vary node.storage.bandwidth=x0.5,x2 --vary nodes=2,4,8");
  const auto& rows = answer.at("vary");
  CHECK(value(rows.at(0), "step_seconds") == Approx(2 * 0.16384));
  CHECK(value(rows.at(1), "step_seconds") < 0.16384);
  // More nodes of the cluster that this plan does not use leave it what it is.
  for (std::size_t n = 2; n < 5; ++n) CHECK(value(rows.at(n), "step_seconds") == Approx(0.16384));
  // 32 nodes read 40 GB/s together: 8 that all read have 5 each, and a quarter of the samples.
  const auto eight = estimate_on(8, std::string("--plan dp=64,zero=1") + kPictures);
  CHECK(eight.at("input").at("storage_seconds").get<double>() == Approx(256 * 1.28e6 / 5e9));
}

TEST_CASE("a step that is played is no shorter than its samples take to come") {
  // 2048 pictures of 30 ms on 8 nodes of 128 cores: 60 ms.
  const std::string job = "--dataset samples=1281167,bytes=110kB,decode=30ms --plan dp=64,zero=1 --fidelity ";
  for (const auto* fidelity : {"closed", "folded"}) {
    const auto answer =
        result_of(rehearse("estimate zoo:resnet50 --platform dgx-a100 --batch 2048 --dtype bf16 --format json " + job + fidelity));
    INFO(fidelity);
    CHECK(value(answer, "step_seconds") == Approx(0.060));
  }
}

TEST_CASE("search ranks plans by steps that wait, and explain says that they do") {
  const auto found =
      result_of(rehearse(std::string("search zoo:resnet50 --format json --platform dgx-a100 --nodes 2 --batch 2048 --dtype bf16 --budget "
                                     "50plans --confirm 1") +
                         kPictures));
  for (const auto& plan : found.at("plans")) {
    REQUIRE(plan.contains("input"));
    CHECK(value(plan, "step_seconds") >= value(plan.at("input"), "seconds") * (1 - 1e-9));
  }
  // Plans that have no place are refused as ever.
  const TemporaryFolder folder;
  write_text(folder / "plans", "dp=16\ndp=64\ndp=3,ep=2\n");
  const auto ranked =
      result_of(rehearse("search zoo:resnet50 --format json --platform dgx-a100 --nodes 2 --batch 2048 --dtype bf16 --confirm 0 --plans " +
                         (folder / "plans") + kPictures));
  CHECK(ranked.at("plans").size() == 1);
  CHECK(ranked.at("refused").size() == 2);
  const auto explained =
      rehearse(std::string("explain dp=16 --model zoo:resnet50 --platform dgx-a100 --nodes 2 --batch 2048 --dtype bf16") + kPictures);
  CHECK(explained.status == 0);
  CHECK_THAT(explained.out, contains("input   steps are bound by storage"));
}

TEST_CASE("steps that wait are played as they are reckoned") {
  const TemporaryFolder folder;
  const auto cpu = with_storage("xeon-2s-10gbe", folder / "cpu.json"), gpu = with_storage("dgx-a100", folder / "gpu.json");
  const std::string model = "simulate 'zoo:gpt?layers=4&hidden=256&heads=4&seq=128&vocab=1000' --format json --batch 64 --nodes 2 ";
  const std::string slow = " --dataset samples=1M,bytes=1MB", decoded = " --dataset samples=1M,bytes=1kB,decode=300ms";
  for (const auto& question : {
           model + "--plan dp=4 --platform " + cpu + decoded,
           model + "--plan dp=2,pp=2,micro_batch=8 --platform " + cpu + slow,
           model + "--plan dp=4,pp=2,micro_batch=4 --framework rehearse --platform " + gpu + slow,
           model + "--plan dp=4,tp=2,pp=2,micro_batch=4 --platform " + gpu + slow,
           model + "--plan pp=2,micro_batch=16,schedule=pipedream-2bw --framework rehearse --platform " + gpu + slow,
       }) {
    INFO(question);
    const auto closed = result_of(rehearse("estimate " + question.substr(question.find(' '))));
    REQUIRE(closed.at("input").at("bound") == true);
    for (const char* fidelity : {"closed", "folded", "full"}) {
      INFO(fidelity);
      const auto played = result_of(rehearse(question + " --fidelity " + fidelity));
      CHECK(value(played, "step_seconds") == Approx(value(closed, "step_seconds")).epsilon(0.03));
      CHECK(played.at("breakdown").at("io") > 0.5 * closed.at("input").at("waiting_seconds").get<double>());
    }
  }
}

TEST_CASE("facts of the data are read from files") {
  const TemporaryFolder folder;
  const auto platform = with_storage("xeon-2s-10gbe", folder / "cpu.json");
  std::vector<std::uint16_t> tokens(100 * 64 + 1, 7);
  write_text(folder / "t.bin", stored::bytes_of(tokens));
  const auto answer =
      result_of(rehearse("estimate 'zoo:gpt?layers=1&hidden=8&heads=2&seq=64&vocab=11' --format json --batch 20 --epochs 3 --platform " +
                         platform + " --data 'tokens:" + (folder / "t.bin?dtype=uint16'")));
  CHECK(answer.at("steps") == 15);  // 100 samples by 20, three times
  // 64 tokens of 2 bytes; what stands behind the last one is read as the first of the next, so 65 of them are at most read.
  const double bytes = answer.at("input").at("bytes").get<double>() / 20;
  CHECK(bytes >= 128);
  CHECK(bytes <= 260);
  CHECK_THAT(answer.at("input").at("rests_on").get<std::string>(), contains("measured on this machine"));
}

TEST_CASE("run and predictions count the same steps of epochs: whole batches") {
  const TemporaryFolder folder;
  write_text(folder / "t.bin", std::string(16 * 4 + 1, '\1'));  // 16 samples of 4 tokens
  const auto files = " --data 'tokens:" + (folder / "t.bin?dtype=uint8'");
  const auto predicted = std::string("estimate ") + kGpt + " --format json --platform xeon-2s-10gbe --devices 1 ";
  struct Course {
    const char* options;
    std::size_t steps;
  };
  for (const auto& [options, steps] :
       {Course{"--batch 3 --epochs 1", 5}, Course{"--batch 3 --epochs 2", 10}, Course{"--batch 6 --epochs 2", 5},
        Course{"--batch 4 --epochs 0.3", 1}, Course{"--batch 4 --epochs 0.01", 1}}) {
    INFO(options);
    CHECK(losses_of(rehearse(std::string("run ") + kGpt + " --format json " + options + files)).size() == steps);
    CHECK(result_of(rehearse(predicted + options + " --dataset 16")).at("steps") == steps);
    CHECK(result_of(rehearse(predicted + options + files)).at("steps") == steps);
  }
  // 0.29 times 100 is 28.999999999999996 in numbers of 64 bits.
  CHECK(result_of(rehearse(predicted + "--batch 1 --epochs 0.29 --dataset 100")).at("steps") == 29);
  check_failure(rehearse(predicted + "--batch 32 --epochs 1 --dataset 16"), 1, {"16 samples", "the batch of 32", "--batch 16"});
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 32 --epochs 1" + files), 1,
                {"16 samples", "the batch of 32", "--batch 16"});
  check_failure(rehearse(predicted + "--batch 1 --epochs 1e300 --dataset 16"), 1, {"--epochs", "9e15"});
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 4 --epochs inf" + files), 1, {"--epochs", "finite"});
}

TEST_CASE("calibrate --storage adds what it measures to a machine.json, and estimate uses it") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  const auto platform = result_of(rehearse("platform show xeon-2s-10gbe --format json"));
  std::ofstream(machine) << nlohmann::json{{"schema", 1}, {"platform", platform}, {"published", {{"runs", nlohmann::json::array()}}}};
  std::filesystem::create_directories(folder / "d");
  for (int n = 0; n < 20; ++n) write_text(folder / ("d/" + std::to_string(n)), std::string(50'000, 'x'));
  const auto add = "calibrate --quick --format json --into " + machine + " --storage ";
  const auto measured = result_of(rehearse(add + (folder / "d"))).at("storage");
  CHECK_FALSE(measured.contains("decoding_bytes_per_second"));  // nothing there is a picture
  const auto written = nlohmann::json::parse(std::ifstream(machine));
  CHECK(written.at("published") == nlohmann::json{{"runs", nlohmann::json::array()}});
  auto others = written.at("platform");
  auto& storage = others["nodes"][0]["storage"];
  // The catalogue's machine has several nodes: what they read is shared.
  CHECK_THAT(storage.at("sources").at("bandwidth").get<std::string>(), contains("20 files of") && contains("rehearse calibrate"));
  CHECK(others.at("storage").contains("latency"));
  others.erase("storage");
  others["nodes"][0].erase("storage");
  CHECK(others == platform);
  const auto answer = result_of(
      rehearse("estimate zoo:resnet18 --batch 8 --devices 1 --format json --dataset samples=1000,bytes=50kB --platform " + machine));
  CHECK(answer.at("input").at("storage_seconds") >= 8 * 50e3 / measured.at("bytes_per_second").get<double>() * (1 - 1e-9));

  check_failure(rehearse(add + (folder / "none")), 1, {"--storage", "none", "is no folder"});
  std::filesystem::create_directories(folder / "empty");
  check_failure(rehearse(add + (folder / "empty")), 1, {"--storage", "holds no files"});
  check_failure(rehearse("calibrate --into " + machine), 1, {"--into", "--storage"});
  write_text(folder / "other.json", "{}");
  check_failure(rehearse("calibrate --into " + (folder / "other.json") + " --storage " + (folder / "d")), 1,
                {"other.json", "machine.json"});
}

#ifdef REHEARSAL_MAKE_PICTURES
TEST_CASE("calibrate --storage measures what decoding takes, and a training on these pictures tells the same of itself") {
  const TemporaryFolder folder;
  REQUIRE(run_shell(std::string(REHEARSAL_MAKE_PICTURES) + " " + (folder / "p") + " 24 320x240").status == 0);
  auto platform = result_of(rehearse("platform show xeon-2s-10gbe --format json"));
  platform["nodes"][0]["count"] = 1;
  std::ofstream(folder / "machine.json") << nlohmann::json{{"schema", 1}, {"platform", platform}};
  const auto add = "calibrate --quick --format json --into " + (folder / "machine.json") + " --storage " + (folder / "p");
  const auto measured = result_of(rehearse(add)).at("storage");
  const double one = 320 * 240 * 3 / measured.at("decoding_bytes_per_second").get<double>();
  const auto question = "estimate 'zoo:resnet18?classes=2' --batch 24 --devices 1 --format json --platform " + (folder / "machine.json");
  const auto told = result_of(rehearse(question + " --dataset samples=24,bytes=20kB,decode=jpeg:320x240")).at("input");
  const double cores = platform["nodes"][0]["host_cores"];
  CHECK(told.at("decoding_seconds") == Approx(24 * one / cores));
  // Both are processor time of the same work; the first pictures that a process decodes cost more.
  const auto seen = result_of(rehearse(question + " --data " + (folder / "p"))).at("input");
  const double ratio = seen.at("decoding_seconds").get<double>() / told.at("decoding_seconds").get<double>();
  CHECK(ratio > 0.3);
  CHECK(ratio < 5);
  std::uintmax_t stored = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "p"))
    if (entry.is_regular_file()) stored += entry.file_size();
  CHECK(seen.at("bytes").get<double>() / 24 == Approx(static_cast<double>(stored) / 24).epsilon(0.1));
}
#endif

TEST_CASE("compare shows what was predicted and measured of input") {
  const TemporaryFolder folder;
  const auto platform = with_storage("xeon-2s-10gbe", folder / "cpu.json");
  const std::string question = std::string(kGpt) + " --batch 8 --plan dp=1 --format json --trace ";
  (void)result_of(rehearse("run " + question + (folder / "measured.json") + " --steps 4"));
  const auto simulated = result_of(rehearse("simulate " + question + (folder / "simulated.json") +
                                            " --devices 1 --dataset samples=1M,bytes=1MB --platform " + platform));
  const auto compared = result_of(rehearse("compare --format json " + (folder / "simulated.json") + " " + (folder / "measured.json")));
  // 8 MB at 100 MB/s: the step waits for all of it that computing leaves. Synthetic data is there at once.
  CHECK(compared.at("input").at("predicted_seconds") >= simulated.at("input").at("waiting_seconds").get<double>() * 0.99);
  CHECK(compared.at("step").at("predicted_seconds") == Approx(0.08).epsilon(0.03));
  CHECK(compared.at("input").at("measured_seconds") < compared.at("step").at("measured_seconds"));
  CHECK(compared.at("input").contains("error_seconds"));
}

TEST_CASE("a platform that does not know its storage leaves input out, and says so") {
  const auto said = rehearse("estimate zoo:resnet18 --format json --platform dgx1-v100 --batch 64" + std::string(kPictures));
  CHECK_THAT(said.err, contains("input is no part of the prediction") && contains("dgx1-v100"));
  CHECK_FALSE(result_of(said).contains("input"));
  CHECK_THAT(result_of(said).at("input_is").get<std::string>(), contains("calibrate --storage"));
  const auto unasked = rehearse("estimate zoo:resnet18 --format json --platform dgx1-v100 --batch 64 --dataset 1000000 --epochs 2");
  CHECK_FALSE(result_of(unasked).contains("input_is"));
  CHECK(result_of(unasked).at("steps") == 31250);
}

TEST_CASE("wrong words about input are refused by option, with what would be right") {
  struct Wrong {
    std::string options;
    std::vector<std::string> words;
  };
  for (const auto& [options, words] : {
           Wrong{"--cache node", {"--cache", "--dataset", "--data"}},
           Wrong{"--data-threads 4", {"--data-threads", "--dataset"}},
           Wrong{"--dataset samples=5", {"bytes is missing", "bytes=110kB"}},
           Wrong{"--dataset bytes=5kB", {"samples is missing"}},
           Wrong{"--dataset samples=5,bytes=-1kB", {"bytes=-1kB", "more than 0"}},
           Wrong{"--dataset samples=-5,bytes=1kB", {"samples=-5", "1.28M"}},
           Wrong{"--dataset samples=5,bytes=1kB,bites=2", {"'bites' is unknown", "bytes"}},
           Wrong{"--dataset samples=5,bytes=1kB,bytes=2kB", {"given twice"}},
           Wrong{"--dataset samples=5,bytes=1kB,decode=webp", {"decode=webp", "jpeg:"}},
           Wrong{"--dataset samples=5,bytes=1kB,decode=jpeg:0", {"jpeg:0", "500x375"}},
           Wrong{"--dataset samples=5,bytes=1kB,on=tape", {"on=tape", "disk"}},
           Wrong{"--dataset samples=5,bytes=1kB,on=disk", {"on=disk", "disk_bandwidth"}},
           Wrong{"--dataset lots", {"--dataset lots", "1281167"}},
           Wrong{"--dataset 1000", {"--dataset 1000", "--epochs", "samples=1.28M"}},
           Wrong{"--dataset 1000 --steps 5", {"--dataset 1000", "--epochs"}},
           Wrong{std::string(kPictures) + "--cache nod", {"did you mean \"node\""}},
           Wrong{std::string(kPictures) + "--cache node", {"dgx-a100", "node=64GB"}},
           Wrong{std::string(kPictures) + "--cache node=plenty", {"--cache node=plenty"}},
           Wrong{std::string(kPictures) + "--cache node=0GB", {"more than 0"}},
           Wrong{std::string(kPictures) + "--cache none=5GB", {"keeps nothing"}},
           Wrong{std::string(kPictures) + "--data-threads -1", {"--data-threads -1"}},
           Wrong{std::string(kPictures) + "--data nowhere.npz", {"--dataset and --data"}},
           Wrong{"--data nowhere.npz", {"nowhere.npz"}},
           Wrong{"--data synthetic", {"--data", "synthetic"}},
       }) {
    INFO(options);
    check_failure(rehearse(resnet(options)), 1, words);
  }
  check_failure(rehearse("estimate zoo:resnet18 --batch 64 --platform dgx1-v100 --cache node=5GB" + std::string(kPictures)), 1,
                {"--cache node=5GB", "dgx1-v100"});
}
