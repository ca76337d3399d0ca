// Replicas that meet in part, as users start them.
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/rehearse.hpp"

namespace {

constexpr const char* kModel = "'zoo:vit?image=16&patch=8&layers=1&hidden=32&heads=2&classes=5'";

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(text_of(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

Ended train(const std::string& plan, int ranks, const std::string& more) {
  return rehearse(std::string("run ") + kModel + " --batch 8 --dtype f64 --lr 0.05 --format json --plan " + plan + " " + more, ranks);
}

}  // namespace

TEST_CASE("without staleness a parameter server trains as summed gradients do") {
  const auto summed = result_of(train("dp=2", 2, "--optimizer sgd --steps 5")).at("losses");
  for (const std::string plan : {"dp=2,local_steps=1,staleness=0", "dp=2,local_steps=1,staleness=0,servers=1"}) {
    INFO(plan);
    const auto result = result_of(train(plan, 2, "--optimizer sgd --steps 5"));
    for (std::size_t s = 0; s < 5; ++s) CHECK(result.at("losses")[s].get<double>() == Approx(summed[s].get<double>()).epsilon(1e-9));
    for (const auto& rank : result.at("memory_bytes").at("per_rank")) CHECK(rank.at("allocated_bytes") == rank.at("predicted_bytes"));
  }
}

TEST_CASE("metrics say by how many meetings replicas were behind each other") {
  const TemporaryFolder folder;
  const auto staleness_of = [&](const std::string& plan, int ranks) {
    const auto file = folder / "m.jsonl";
    static_cast<void>(result_of(train(plan, ranks, "--steps 40 --metrics " + file)));
    std::vector<nlohmann::json> found;
    for (const auto& line : lines_of(file)) found.push_back(line.value("staleness", nlohmann::json()));
    REQUIRE(found.size() == 40);
    return found;
  };
  for (const auto& none : staleness_of("dp=2,local_steps=1", 2)) CHECK(none.is_null());
  for (const auto& all : staleness_of("dp=2,local_steps=1,staleness=0", 2)) CHECK(all == 0);
  for (const auto& some : staleness_of("dp=4,local_steps=1,staleness=3", 4)) CHECK(some.get<int>() <= 3);
  for (const auto& any : staleness_of("dp=4,local_steps=2,staleness=any", 4)) CHECK(any.get<int>() <= 25);  // a row of 50 steps
}

TEST_CASE("a training of replicas that meet in part goes on from its checkpoint, where all have the same weights") {
  for (const std::string plan :
       {"dp=2,local_steps=2,staleness=0", "dp=2,local_steps=2,staleness=0,servers=1", "dp=2,local_steps=2,outer=adasum"}) {
    INFO(plan);
    const TemporaryFolder folder;
    const auto whole = result_of(train(plan, 2, "--optimizer adam --steps 6")).at("losses");
    static_cast<void>(result_of(train(plan, 2, "--optimizer adam --steps 4 --checkpoint " + (folder / "c"))));
    const auto rest = result_of(train(plan, 2, "--optimizer adam --steps 2 --resume " + (folder / "c"))).at("losses");
    for (const std::size_t s : {0, 1}) CHECK(rest[s].get<double>() == Approx(whole[s + 4].get<double>()).epsilon(1e-9));
  }
  // These differ between meetings and behind them: what is saved is what they agree on, for any number of replicas.
  for (const std::string keys : {"local_steps=2,staleness=0,outer=elastic", "local_steps=2,outer=gossip", "local_steps=2,staleness=2"}) {
    INFO(keys);
    const TemporaryFolder folder;
    static_cast<void>(result_of(train("dp=4," + keys, 4, "--optimizer sgd --steps 5 --checkpoint " + (folder / "c"))));
    const auto alone = result_of(train("dp=1", 1, "--optimizer sgd --steps 1 --resume " + (folder / "c"))).at("losses");
    const auto again = result_of(train("dp=4," + keys, 4, "--optimizer sgd --steps 1 --resume " + (folder / "c"))).at("losses");
    CHECK(again[0].get<double>() == Approx(alone[0].get<double>()).epsilon(1e-9));
  }
}

TEST_CASE("a plan of replicas that meet in part is written as it is read") {
  for (const std::string keys : {"local_steps=2,staleness=3,servers=1", "local_steps=1,staleness=any,outer=elastic",
                                 "local_steps=2,outer=gossip", "local_steps=2,outer=adasum"}) {
    INFO(keys);
    const TemporaryFolder folder;
    const auto file = folder / "p.json";
    const std::string job = std::string(kModel) + " --batch 8 --platform xeon-2s-10gbe --devices 4 --framework rehearse --dtype f32 ";
    static_cast<void>(result_of(rehearse("search " + job + "--plan dp=4,micro_batch=auto," + keys + " --format json -o " + file)));
    const auto read = result_of(rehearse("estimate " + job + "--format json --plan " + file));
    CHECK_THAT(read.at("plan").get<std::string>(), contains(keys.substr(0, keys.find(','))));
  }
}

TEST_CASE("what replicas that meet one by one cannot do is refused") {
  check_failure(train("dp=2,local_steps=1,staleness=1", 2, "--on-nan skip --steps 1"), 3, {"--on-nan skip", "staleness=1"});
  check_failure(train("dp=2,local_steps=1,staleness=often", 2, "--steps 1"), 1, {"staleness=often", "any, or none"});
  check_failure(train("dp=2,local_steps=1,staleness=1,outer=adasum", 2, "--steps 1"), 3,
                {"staleness", "adasum", "of all replicas at once"});
  check_failure(rehearse(std::string("estimate ") + kModel + " --batch 6 --platform xeon-2s-10gbe --devices 3 --framework rehearse " +
                         "--dtype f32 --plan dp=3,local_steps=1,outer=adasum"),
                3, {"adasum", "dp=3 is no power of two"});
  check_failure(train("dp=2,local_steps=1", 2, "--optimizer kfac --steps 1"), 3, {"local_steps", "kfac", "all samples in every step"});
  check_failure(rehearse("estimate zoo:gpt2 --platform dgx-a100 --batch 8 --plan dp=8,local_steps=1,staleness=1"), 3,
                {"staleness", "rehearse"});
  check_failure(rehearse("estimate zoo:gpt2 --platform dgx-a100 --batch 8 --plan dp=8 --jitter 7"), 1, {"--jitter", "from 0 to 5"});
}

TEST_CASE("jitter makes synchronous steps longer than those of replicas that do not wait") {
  const auto step = [](const std::string& more) {
    return result_of(rehearse(
        "estimate zoo:gpt2 --platform xeon-2s-100gbe --nodes 4 --batch 32 --framework rehearse --dtype f32 --format json " + more));
  };
  const auto seconds = [&](const std::string& more) { return step(more).at("step_seconds").at("value").get<double>(); };
  const double even = seconds("--plan dp=8");
  CHECK(!step("--plan dp=8").contains("waiting_for_stragglers_seconds"));
  const auto odd = step("--plan dp=8 --jitter 0.3");
  CHECK(odd.at("step_seconds").at("value").get<double>() ==
        Approx(even + odd.at("waiting_for_stragglers_seconds").get<double>()).epsilon(1e-9));
  const double summed = seconds("--plan dp=8 --jitter 0.3"), stale = seconds("--plan dp=8,local_steps=1,staleness=2 --jitter 0.3"),
               free = seconds("--plan dp=8,local_steps=1,staleness=any --jitter 0.3");
  CHECK(stale < summed);
  CHECK(free < stale);
  // Played steps wait as long.
  const auto played =
      result_of(rehearse("simulate zoo:gpt2 --platform xeon-2s-100gbe --nodes 4 --batch 32 --framework rehearse --dtype f32 --format json "
                         "--fidelity folded --plan dp=8 --jitter 0.3"));
  CHECK(played.at("waiting_for_stragglers_seconds").get<double>() ==
        Approx(odd.at("waiting_for_stragglers_seconds").get<double>()).epsilon(0.05));
}
