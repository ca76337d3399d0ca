// Which kernels run, by rules and by what a machine's file says: inspect, run and calibrate.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>
#include <tuple>

#include "tests/cli/rehearse.hpp"

namespace {

using Json = nlohmann::json;

constexpr const char *kTiles = "native:winograd", *kTaps = "onednn:convolution";
const std::string kModel = "'zoo:unet2d?image=32&channels=16&depth=1' --batch 2";
const std::string kTraining = kModel + " --lr 0.001 --format json";

/// A server as its datasheet has it, of which nothing was measured.
void write_server(const std::string& path) {
  const Json nothing{{"latency_seconds", 1e-6}, {"bytes_per_second", 1e9}, {"reduction_bytes_per_second", 1e9}, {"log_error", 0.3}};
  Json calibration{{"schema", 1}, {"context", Json::object()}, {"link", nothing}};
  for (const auto* list : {"link_samples", "corrections", "fits", "samples"}) calibration[list] = Json::array();
  const Json server{{"schema", 1}, {"platform", Json::parse(rehearse("platform show xeon-2s-10gbe").out)}, {"calibration", calibration}};
  write_text(path, server.dump());
}

Json read(const std::string& path) { return Json::parse(std::ifstream(path)); }

/// Every node of the file by the kernel of this name, where that was timed; returns how many.
int prefer(const std::string& path, const std::string& implementation) {
  auto file = read(path);
  int nodes = 0;
  for (auto& node : file["calibration"]["choices"]["nodes"])
    for (const auto& kernel : node["kernels"])
      if (kernel["implementation"] == implementation) node["chosen"] = implementation, ++nodes;
  write_text(path, file.dump());
  return nodes;
}

/// What runs convolutions that were chosen so.
std::set<std::string> convolutions_by(const Json& inspected, const std::string& grounds) {
  std::set<std::string> names;
  for (const auto& row : inspected.at("kernels"))
    if (row.at("op") == "Conv" && row.at("chosen_by").get<std::string>().starts_with(grounds))
      names.insert(row.at("implementation").get<std::string>());
  return names;
}

bool has_tiles() {
  const auto kernels = result_of(rehearse("inspect " + kModel + " --kernels --format json"));
  return convolutions_by(kernels, "rule").contains(kTiles);
}

/// Times of kernels are kept by builds that are optimised alone.
bool keeps_times() {
#ifdef NDEBUG
  return has_tiles();
#else
  return false;
#endif
}

}  // namespace

TEST_CASE("kernels are chosen by a machine's file in both directions, and losses agree") {
  if (!keeps_times()) return;  // without AVX2, or without oneDNN
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto by_rule = losses_of(rehearse("run " + kTraining + " --steps 2"));
  const auto measured = losses_of(rehearse("run " + kTraining + " --steps 2 --measure-kernels --machine " + machine));
  const auto inspect = "inspect " + kModel + " --kernels --format json --machine " + machine;
  std::vector<std::vector<double>> all{measured};
  for (const std::string wanted : {kTaps, kTiles}) {
    INFO(wanted);
    CHECK(prefer(machine, wanted) > 5);
    const auto kernels = result_of(rehearse(inspect));
    const auto chosen = convolutions_by(kernels, "time: ");
    CHECK(chosen.contains(wanted));
    CHECK_FALSE(chosen.contains(wanted == kTaps ? kTiles : kTaps));
    // Nodes with one kernel, such as those with strides, have no grounds.
    CHECK(convolutions_by(kernels, "").contains(kTaps));
    all.push_back(losses_of(rehearse("run " + kTraining + " --steps 2 --machine " + machine)));
    CHECK(losses_of(rehearse("run " + kTraining + " --steps 2 --machine " + machine)) == all.back());  // to the bit
  }
  CHECK(all[1] != all[2]);
  for (const auto& losses : all)
    for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == Approx(by_rule[i]).epsilon(1e-4));
}

TEST_CASE("predictions are of the kernels that a machine's file says") {
  if (!keeps_times()) return;  // without AVX2, or without oneDNN
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  REQUIRE(rehearse("run " + kTraining + " --steps 1 --measure-kernels --machine " + machine).status == 0);
  prefer(machine, kTaps);
  const auto program = "explain dp=1 --model " + kModel + " --framework rehearse --program --platform ";
  // Times are of as many threads as there are here; the server has others.
  CHECK_THAT(rehearse(program + machine).out, contains(kTiles));
  auto file = read(machine);
  auto& nodes = file["calibration"]["choices"]["nodes"];
  auto of_any_threads = Json::array();
  for (int threads = 1; threads <= 128; ++threads)
    for (auto node : nodes) {
      const auto key = node["node"].get<std::string>();
      node["node"] = key.substr(0, key.rfind('t') + 1) + std::to_string(threads);
      of_any_threads.push_back(node);
    }
  nodes = of_any_threads;
  write_text(machine, file.dump());
  const auto chosen = rehearse(program + machine);
  CHECK(chosen.status == 0);
  CHECK_THAT(chosen.out, contains(kTaps) && !contains(kTiles));
  file["calibration"]["choices"]["cpu"] = "another, which is the one that is predicted";
  write_text(machine, file.dump());
  CHECK(rehearse(program + machine).out == chosen.out);
}

TEST_CASE("all ranks compute by the file of rank 0") {
  if (!keeps_times()) return;  // without AVX2, or without oneDNN
  const TemporaryFolder folder, elsewhere;
  write_server(folder / "machine.json");
  const auto trace = folder / "trace.json";
  const auto started = [&](const std::string& options) {
    return run_shell("REHEARSAL_STALL_SECONDS=20 " REHEARSAL_MPIRUN
                     " -n 2 sh -c 'if [ \"${OMPI_COMM_WORLD_RANK:-${PMIX_RANK}}\" = 0 ]; then cd " +
                     (folder / ".") + "; else cd " + (elsewhere / ".") + "; fi; exec \"" REHEARSAL_COMMAND "\" \"$@\"' rank run " +
                     kTraining + " --machine machine.json " + options);
  };
  CHECK(result_of(started("--steps 1 --measure-kernels")).at("ranks") == 2);
  CHECK(prefer(folder / "machine.json", kTaps) > 5);
  CHECK(result_of(started("--steps 1 --trace " + trace)).at("ranks") == 2);
  const auto played = read(trace);
  REQUIRE(played.at("ranks").size() == 2);
  for (const auto& rank : played.at("ranks")) {
    int taps = 0, tiles = 0;
    for (const auto& kind : rank.at("kinds")) {
      taps += kind.dump().find(kTaps) == std::string::npos ? 0 : 1;
      tiles += kind.dump().find(kTiles) == std::string::npos ? 0 : 1;
    }
    CHECK(taps > 5);
    CHECK(tiles == 0);
  }
  CHECK(!std::filesystem::exists(elsewhere / "machine.json"));
}

TEST_CASE("choices of other machines and builds are left alone, and unknown kernels refused") {
  if (!keeps_times()) return;  // without AVX2, or without oneDNN
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto asked = kModel + " --format json --machine " + machine;
  const auto inspect = "inspect --kernels " + asked;
  const auto run = "run --lr 0.001 --steps 1 " + asked;
  REQUIRE(rehearse(run + " --measure-kernels").status == 0);
  prefer(machine, kTaps);
  const auto good = read(machine);
  for (const auto* part : {"cpu", "instructions", "libraries"}) {
    auto changed = good;
    changed["calibration"]["choices"][part] = "something else";
    write_text(machine, changed.dump());
    const auto kernels = result_of(rehearse(inspect));
    CHECK_THAT(kernels.at("warnings").dump(),
               contains("its kernels were chosen on") && contains("something else") && contains("by the rules"));
    CHECK(convolutions_by(kernels, "time").empty());
    // Its choices are not lost to those of this machine either.
    for (const auto& measuring : {run + " --measure-kernels", "calibrate --quick --into " + machine + " --kernels-of " + kModel})
      check_failure(rehearse(measuring), 1, {machine, "its kernels were chosen on", "something else", "rehearse calibrate"});
    CHECK(read(machine) == changed);
  }
  CHECK_THAT(rehearse(run + " --backend reference").err, !contains("chosen on"));  // which has none to choose from
  CHECK_THAT(rehearse(run).err, contains("its kernels were chosen on") && contains("something else"));
  auto changed = good;
  changed["calibration"]["choices"]["nodes"][0]["chosen"] = "native:magic";
  changed["calibration"]["choices"]["nodes"][0]["kernels"][0]["implementation"] = "native:magic";
  write_text(machine, changed.dump());
  for (const auto& command : {inspect, run})
    check_failure(rehearse(command), 1, {machine, "calibration.choices", "\"native:magic\" is no kernel of"});
  changed = good;
  changed["calibration"]["context"]["cpu"] = "Babbage Analytical Engine";
  write_text(machine, changed.dump());
  check_failure(rehearse(run + " --measure-kernels"), 1, {machine, "Babbage Analytical Engine", "rehearse calibrate"});
  changed["calibration"]["context"]["gpu"] = "NVIDIA H100";
  write_text(machine, changed.dump());
  check_failure(rehearse(run + " --measure-kernels"), 1, {machine, "NVIDIA H100", "rehearse calibrate"});
  check_failure(rehearse("inspect --machine " + machine + " " + kModel), 2, {"--kernels"});
}

#ifdef REHEARSAL_SECOND_ONEDNN
TEST_CASE("a second oneDNN runs what its times say, and nothing where it is left out") {
  const std::string with = "REHEARSAL_ONEDNN_MODULE=" REHEARSAL_SECOND_ONEDNN " ";
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json", trace = folder / "trace.json";
  write_server(machine);
  const auto run = "run " + kTraining + " --steps 2 --machine " + machine;
  const auto by_rule = losses_of(rehearse(run));
  CHECK(losses_of(rehearse(run, 0, with)) == by_rule);  // nothing was timed
  const auto inspect = "inspect " + kModel + " --kernels --format json --machine " + machine;
  std::smatch name;
  const auto inspected = rehearse(inspect, 0, with).out;
  REQUIRE(std::regex_search(inspected, name, std::regex("onednn[0-9.]+:convolution")));
  CHECK(convolutions_by(Json::parse(inspected), "time").empty());
  REQUIRE(rehearse(run + " --measure-kernels", 0, with).status == 0);
  CHECK(prefer(machine, name.str()) > 5);
  CHECK(convolutions_by(result_of(rehearse(inspect, 0, with)), "time: ").contains(name.str()));
  const auto losses = losses_of(rehearse(run + " --trace " + trace, 0, with));
  CHECK_THAT(read(trace).dump(), contains(name.str()));
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == Approx(by_rule[i]).epsilon(1e-4));
  const auto without = rehearse(run);
  CHECK(losses_of(without) == by_rule);
  CHECK_THAT(without.err, contains("its kernels were chosen on") && contains(" and this is "));
}
#endif

TEST_CASE("a second oneDNN that cannot be opened is reported, and the program computes without it") {
  const std::string nowhere = "REHEARSAL_ONEDNN_MODULE=/nowhere/librehearsal_onednn.so ";
  const auto inspected = rehearse("inspect " + kModel + " --kernels", 0, nowhere);
  CHECK(inspected.status == 0);
  CHECK_THAT(inspected.err, contains("the second oneDNN is not installed: /nowhere/librehearsal_onednn.so") && contains("--second-onednn"));
  CHECK_THAT(rehearse("doctor --alone", 0, nowhere).out, contains("good") && contains("the second oneDNN is not installed"));
  CHECK_THAT(rehearse("run " + kTraining + " --steps 1", 0, nowhere).err, !contains("oneDNN"));
}

TEST_CASE("a run that measures kernels without a file says that the next may choose others") {
  const auto ended = rehearse("run " + std::string(kGpt) + " --batch 4 --steps 1 --measure-kernels --format json");
  CHECK(ended.status == 0);  // where nothing is to be chosen, nothing is said
  CHECK_THAT(ended.err, !contains("--measure-kernels"));
  if (!has_tiles()) return;  // without AVX2, or without oneDNN
  CHECK_THAT(rehearse("run " + kTraining + " --steps 1 --measure-kernels").err,
             contains("may be others in the next run") && contains("--machine"));
}

TEST_CASE("times of several nodes are said to be of them together") {
  if (!keeps_times()) return;  // without AVX2, or without oneDNN
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  REQUIRE(rehearse("run " + kTraining + " --steps 1 --measure-kernels --machine " + machine).status == 0);
  CHECK(prefer(machine, kTaps) > 5);
  const auto rows = result_of(rehearse("inspect " + kModel + " --kernels --format json --machine " + machine)).at("kernels");
  int several = 0;
  for (const auto& row : rows)
    if (const auto by = row.at("chosen_by").get<std::string>(); by.starts_with("time: ")) {
      const auto nodes = row.at("nodes").get<int>();
      several += nodes > 1 ? 1 : 0;
      CHECK(by.ends_with(", " + std::to_string(nodes) + " nodes together") == (nodes > 1));
    }
  CHECK(several > 0);
}

TEST_CASE("what is wrong with a plan is said before kernels are measured, and alike") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto before = read(machine);
  const auto run = "run " + kTraining + " --steps 1 --plan dp=1,micro_batch=7 --machine " + machine;
  const auto as_it_is = rehearse(run);
  check_failure(as_it_is, 3, {"micro_batch", "7 samples"});
  CHECK(rehearse(run + " --measure-kernels").err == as_it_is.err);
  const auto calibrate = "calibrate --quick --into " + machine + " --kernels-of ";
  for (const auto& [job, status, words] :
       {std::tuple{kModel + " --plan dp=1,micro_batch=7", 3, "7 samples"}, std::tuple{kModel + " --plan sp=2", 1, "'sp' is no key"},
        std::tuple{std::string("/nowhere/model.onnx"), 1, "/nowhere/model.onnx"}}) {
    const auto ended = rehearse(calibrate + job);
    check_failure(ended, status, {words});
    CHECK_THAT(ended.err, !contains("mpirun"));
  }
  CHECK(read(machine) == before);
}

TEST_CASE("a plan that is found before the training is the one that search finds on the same machine") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto run = rehearse("run " + kTraining + " --steps 1 --plan auto --machine " + machine);
  CHECK_THAT(run.err, contains("the quickest that was found for 1 rank in ") && !contains("ordinary"));
  const auto searched = result_of(rehearse("search " + kModel + " --framework rehearse --devices 1 --confirm 0 --format json --platform " +
                                           machine + " --machine " + machine));
  CHECK(result_of(run)["plan"] == searched["plans"][0]["plan"]);
}

TEST_CASE("who asks for 16 bits hears where that is computed in f32") {
  const auto run = "run " + kTraining + " --steps 1 --dtype ";
  const auto narrow = rehearse(run + "f16");  // no library here has products in f16
  CHECK_THAT(narrow.err, contains("f16: ") && contains("% of the FLOPs are computed in f32, on widened copies"));
  CHECK_THAT(rehearse(run + "f32").err, !contains("widened"));
}

TEST_CASE("kernels are not measured for what has one for each node") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  for (const std::string one : {" --backend reference", " --dtype f64", " --backend cuda"}) {
    const auto device = one == " --dtype f64" ? "reference" : one.substr(one.rfind(' ') + 1);
    check_failure(rehearse("run " + kTraining + " --steps 1 --measure-kernels" + one), 1, {"--measure-kernels", device});
    check_failure(rehearse("inspect --kernels " + kModel + " --machine " + machine + one), 1, {"--machine", device});
  }
  for (const std::string type : {"f64", "tf32"})
    check_failure(rehearse("calibrate --quick --into " + machine + " --kernels-of " + kModel + " --dtype " + type), 1, {"--dtype " + type});
}

TEST_CASE("builds that are not optimised keep no times of kernels") {
#ifndef NDEBUG
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto before = read(machine);
  for (const auto& measuring : {"run " + kTraining + " --steps 1 --measure-kernels --machine " + machine,
                                "calibrate --into " + machine + " --kernels-of " + kModel})
    check_failure(rehearse(measuring), 3, {"not optimised"});
  CHECK(read(machine) == before);
#endif
}

TEST_CASE("calibrate says which nodes of a model it has not timed") {
  if (!keeps_times()) return;  // without AVX2, or without oneDNN
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto before = read(machine);
  const auto calibrate = "calibrate --quick --format json --into " + machine + " --kernels-of ";
  const auto none = rehearse(calibrate + kGpt);
  CHECK_THAT(none.err, contains("nothing to time"));
  CHECK_FALSE(result_of(none).contains("written"));
  // 2 images of 256 channels and 8192 x 8192 pixels in f32 are 137 GB: four times that, and as much of results, are more than a quarter of
  // 4 TB.
  const auto large = result_of(rehearse(calibrate + "'zoo:unet2d?image=8192&channels=256&depth=1' --batch 2"));
  CHECK(large.at("choices").at("nodes") == 0);
  CHECK(large.at("choices").at("left_out") > 5);
  CHECK_FALSE(large.contains("written"));
  CHECK(read(machine) == before);
}

TEST_CASE("calibrate into a file that is there keeps choices that were made here, and says which are lost") {
  if (!keeps_times()) return;  // without AVX2, or without oneDNN
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  REQUIRE(rehearse("run " + kTraining + " --steps 1 --measure-kernels --machine " + machine).status == 0);
  const auto good = read(machine);
  const auto calibrate = "calibrate --quick --format json -o " + machine;
  auto elsewhere = good;
  elsewhere["calibration"]["choices"]["libraries"] = "something else";
  write_text(machine, elsewhere.dump());
  CHECK_THAT(run_shell("timeout -s INT 3 \"" REHEARSAL_COMMAND "\" " + calibrate).err,
             contains("holds choices of kernels for") && contains("something else") && contains("they are lost"));
  CHECK(read(machine) == elsewhere);
  write_text(machine, good.dump());
  const auto anew = rehearse(calibrate);
  CHECK_THAT(anew.err, !contains("lost"));
  const auto count = result_of(anew).at("choices").at("nodes").get<std::size_t>();
  std::set<std::string> nodes;
  const auto after = read(machine);
  for (const auto& node : after["calibration"]["choices"]["nodes"]) nodes.insert(node.at("node"));
  CHECK(nodes.size() == count);
  const auto& before = good["calibration"]["choices"]["nodes"];
  CHECK(before.size() > 5);
  CHECK(count > before.size());
  for (const auto& node : before) CHECK(nodes.contains(node.at("node").get<std::string>()));
}

TEST_CASE("calibrate times the kernels of a model's nodes, and leaves the rest of the file as it is") {
#ifdef NDEBUG  // else it refuses: kernels would be measured wrongly
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto before = read(machine);
  const auto calibrate = "calibrate --quick --format json --into " + machine + " --kernels-of " + kModel;
  const auto answer = result_of(rehearse(calibrate));
  auto after = read(machine);
  if (has_tiles()) {
    const auto& choices = answer.at("choices");
    CHECK(choices.at("nodes") == after.at("calibration").at("choices").at("nodes").size());
    CHECK(choices.at("other_than_by_rule") <= choices.at("nodes"));
    CHECK(choices.at("chosen_seconds").get<double>() <= choices.at("by_rule_seconds").get<double>());
    CHECK(convolutions_by(result_of(rehearse("inspect " + kModel + " --kernels --format json --machine " + machine)), "rule").empty());
    after["calibration"].erase("choices");
  }
  CHECK(after == before);
  check_failure(rehearse("calibrate --kernels-of zoo:resnet18 --into /nowhere/machine.json"), 1, {"/nowhere"});
  if (std::thread::hardware_concurrency() > 1)
    CHECK_THAT(rehearse(calibrate + " --plan tp=2").err, contains("warning: ") && contains("every coordinate of tp"));
#endif
  check_failure(rehearse("calibrate --batch 4"), 2, {"--kernels-of"});
  check_failure(rehearse("calibrate --kernels-of zoo:resnet18 --plan dp=4096 --into /nowhere/machine.json"), 1,
                {"--plan dp=4096", "cores"});
  check_failure(rehearse("calibrate --kernels-of zoo:resnet18 --backend cuda"), 1, {"--kernels-of", "--backend"});
  check_failure(rehearse("calibrate --into machine.json"), 1, {"--storage", "--kernels-of"});
}
