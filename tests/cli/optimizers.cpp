// Optimizers from the command line: what they take, what is evaluated, how they go on, and what is measured of gradients.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "exec/checkpoint/checkpoint.hpp"
#include "tests/cli/rehearse.hpp"

namespace {

std::string run_of(const std::string& more) { return std::string("run ") + kGpt + " --batch 4 --format json " + more; }

/// Whose weights have one use each.
constexpr const char* kUntied = "'zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=11&tied=0'";

/// The lines of a metrics file.
std::vector<nlohmann::json> steps_of(const std::string& file) {
  std::vector<nlohmann::json> steps;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) steps.push_back(nlohmann::json::parse(line));
  return steps;
}

}  // namespace

TEST_CASE("what an optimizer takes stands behind its name") {
  const auto plain = losses_of(rehearse(run_of("--steps 3 --dtype f64 --optimizer muon --lr 0.02")));
  CHECK(losses_of(rehearse(run_of("--steps 3 --dtype f64 --optimizer muon:lr=0.02,rms=0.2"))) == plain);
  CHECK(losses_of(rehearse(run_of("--steps 3 --dtype f64 --optimizer Muon:rms=0 --lr 0.02"))) != plain);
  check_failure(rehearse(run_of("--steps 1 --optimizer shampoo:interval=1.5")), 1,
                {"optimizer shampoo", "interval is 1.5", "whole number"});
  check_failure(rehearse(run_of("--steps 1 --optimizer shampoo:interval=0")), 1, {"interval is 0", "from 1 to a million"});
  check_failure(rehearse(run_of("--steps 1 --optimizer shampoo:root_eps=0")), 1, {"root_eps is 0", "above 0"});
  check_failure(rehearse(run_of("--steps 1 --optimizer soap:basis_eps=0")), 1, {"basis_eps is 0", "above 0"});
  check_failure(rehearse(run_of("--steps 1 --optimizer adadelta:rho=1")), 1, {"rho is 1", "in [0, 1)"});
  check_failure(rehearse(run_of("--steps 1 --optimizer rprop:eta_plus=0.5")), 1, {"eta_plus is 0.5", "at least 1"});
  check_failure(rehearse(run_of("--steps 1 --optimizer rprop:step_min=0")), 1, {"step_min is 0", "above 0"});
  check_failure(rehearse(run_of("--steps 1 --optimizer rprop --schedule cosine")), 3, {"rprop", "follow no --schedule"});
  check_failure(rehearse(run_of("--steps 1 --optimizer rprop --warmup 5")), 3, {"rprop", "follow no --warmup"});
  check_failure(rehearse(run_of("--steps 1 --optimizer kfac:damping=0")), 1, {"damping is 0", "above 0"});
  check_failure(rehearse(run_of("--steps 1 --optimizer kfac:factor_interval=0")), 1, {"factor_interval is 0", "from 1 to a million"});
  check_failure(rehearse(run_of("--steps 1 --dtype f16 --optimizer kfac")), 3, {"kfac", "loss scale", "bf16"});
  check_failure(rehearse(run_of("--steps 1 --optimizer muon:rank=3")), 1, {"optimizer muon", "'rank'", "adam_rate"});
  check_failure(rehearse(run_of("--steps 1 --optimizer lion:beta1=high")), 1, {"--optimizer lion:beta1=high", "KEY=NUMBER"});
  check_failure(rehearse(run_of("--steps 1 --optimizer schedule-free-sgd --momentum 0.0")), 1, {"schedule-free-sgd", "between 0 and 1"});
  check_failure(rehearse(run_of("--steps 1 --optimizer lionn")), 1, {"lionn", "lion"});
}

TEST_CASE("every newer optimizer goes on from a checkpoint as if nothing had been, under another plan") {
  for (const std::string optimizer : {"adadelta", "adamax", "radam", "rprop", "asgd", "lion", "adafactor", "schedule-free-sgd",
                                      "schedule-free-adamw", "muon", "shampoo", "soap", "kfac"})
    for (const std::string dtype : {"f64", "bf16"}) {
      INFO(optimizer << " " << dtype);
      const TemporaryFolder folder;
      const auto base = "--dtype " + dtype + " --optimizer " + optimizer + " --lr 0.02";
      const auto whole = losses_of(rehearse(run_of(base + " --steps 4")));
      CHECK(whole[3] != whole[0]);
      (void)result_of(rehearse(run_of(base + " --steps 2 --checkpoint " + (folder / "c"))));
      const auto rest = losses_of(rehearse(run_of(base + " --steps 2 --plan dp=2,zero=1 --resume " + (folder / "c")), 2));
      REQUIRE(rest.size() == 2);
      for (std::size_t n = 0; n < 2; ++n) CHECK(std::abs(rest[n] - whole[n + 2]) <= (dtype == "f64" ? 1e-12 : 3e-2));
    }
}

TEST_CASE("replicas that share out matrices to decompose go on from a checkpoint between two decompositions, under either plan") {
  const TemporaryFolder folder;
  const std::string base = "--dtype f64 --optimizer shampoo:interval=3 --lr 0.02";
  const auto whole = losses_of(rehearse(run_of(base + " --steps 6")));
  const auto spread = [&](const std::string& more) {
    return losses_of(rehearse(run_of(base + " --plan dp=2,decompositions=spread " + more), 2));
  };
  const auto close = [&](const std::vector<double>& losses, std::size_t first) {
    for (std::size_t n = 0; n < losses.size(); ++n) CHECK(std::abs(losses[n] - whole[first + n]) <= 1e-12);
  };
  close(spread("--steps 2 --checkpoint " + (folder / "c")), 0);
  close(spread("--steps 4 --resume " + (folder / "c")), 2);
  close(losses_of(rehearse(run_of(base + " --steps 4 --plan dp=2 --resume " + (folder / "c")), 2)), 2);
  check_failure(rehearse(run_of("--steps 1 --optimizer adam --plan dp=2,decompositions=spread"), 2), 3,
                {"decompositions", "shampoo, soap and kfac", "decompositions=everywhere"});
  check_failure(rehearse(run_of("--steps 1 --optimizer soap --plan dp=2,decompositions=some"), 2), 1, {"decompositions=some", "spread"});
}

TEST_CASE("what a checkpoint of schedule-free training stands for is the average of its weights") {
  const TemporaryFolder folder;
  const auto [plan, ranks] = GENERATE(std::pair{"dp=1", 0}, std::pair{"dp=2,zero=3", 2}, std::pair{"pp=2", 2});
  INFO(plan);
  const std::string checkpoint = folder / "c";
  (void)result_of(
      rehearse(std::string("run ") + kUntied +
                   " --batch 4 --format json --dtype f64 --optimizer schedule-free-sgd:momentum=0.6 --lr 0.1 --steps 3 --plan " +
                   std::string(plan) + " --checkpoint " + checkpoint,
               ranks));
  const auto place = std::filesystem::path(checkpoint) / "step-3";
  const auto manifest = nlohmann::json::parse(std::ifstream(place / "manifest.json"));
  CHECK(manifest.at("average_share") == 0.6);
  // Blocks as they lie in the parts, in order.
  std::map<std::string, std::vector<double>> stored;
  for (const auto& part : manifest.at("parts")) {
    std::ifstream in(place / part.at("file").get<std::string>(), std::ios::binary);
    for (const auto& t : part.at("tensors")) {
      auto& values = stored[t.at("name")];
      std::vector<double> block(t.at("bytes").get<std::size_t>() / sizeof(double));
      in.seekg(t.at("offset").get<std::int64_t>());
      in.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(block.size() * sizeof(double)));
      values.insert(values.end(), block.begin(), block.end());
    }
  }
  double moved = 0, average = 0, sum = 0;
  for (const auto& [name, value] : rehearsal::exec::read_checkpoint(checkpoint)) {
    const auto z = stored.find(name + ".schedule_free.z");
    REQUIRE(z != stored.end());
    const auto& y = stored.at(name);
    // y = 0.4 z + 0.6 x. Sums do not see in which order ranks hold their blocks.
    const auto* x = reinterpret_cast<const double*>(value.bytes.data());
    REQUIRE(value.bytes.size() == y.size() * sizeof(double));
    for (std::size_t i = 0; i < y.size(); ++i) {
      average += x[i] * x[i];
      const double expected = (y[i] - 0.4 * z->second[i]) / 0.6;
      sum += expected * expected;
      moved += std::abs(y[i] - z->second[i]);
    }
  }
  CHECK(average == Approx(sum).epsilon(1e-12));
  CHECK(moved > 1e-3);
}

TEST_CASE("the rate follows the batch by a rule") {
  const auto losses = [](const std::string& more) { return losses_of(rehearse(run_of("--steps 3 --dtype f64 " + more))); };
  CHECK(losses("--lr 0.1 --lr-scaling linear --base-batch 2") == losses("--lr 0.2"));
  CHECK(losses("--lr 0.1 --lr-scaling sqrt --base-batch 1") == losses("--lr 0.2"));
  CHECK(losses("--lr-scaling linear --base-batch 8") == losses("--lr 0.0005"));  // of the optimizer's own 0.001
  // The linear rule's warm-up begins at the base batch's rate: 0.1 + 0.1 n / 2, so that its second step is the whole rate's first.
  const auto warm = losses("--lr 0.1 --lr-scaling linear --base-batch 2 --warmup 2");
  CHECK(warm[1] == Approx(losses("--lr 0.15")[1]).epsilon(1e-12));  // 0.2 (0.5 + 0.25) is 0.15 but for its last bit
  check_failure(rehearse(run_of("--lr-scaling cubic --base-batch 2")), 1, {"--lr-scaling cubic", "linear or sqrt"});
  check_failure(rehearse(run_of("--lr-scaling sqrt")), 1, {"--base-batch"});
  check_failure(rehearse(run_of("--base-batch 4")), 1, {"--lr-scaling"});
}

namespace {

/// Of a training in which nothing is learned; metrics go to `file`.
nlohmann::json measured_noise(const std::string& file, const std::string& more, int ranks) {
  const auto run = std::string("run ") + kUntied + " --format json --dtype f64 --lr 0 --noise-scale --metrics " + file + " " + more;
  return result_of(rehearse(run, ranks)).at("noise_scale");
}

struct PlanOnRanks {
  const char* text;
  int ranks;
};

}  // namespace

TEST_CASE("squares of gradients are those of the parts that a plan makes") {
  const TemporaryFolder folder;
  const auto measured = [&](const std::string& more, int ranks) {
    const auto file = folder / "m.jsonl";
    const auto noise = measured_noise(file, more, ranks);
    CHECK(noise.at("steps") == steps_of(file).size());
    CHECK(noise.at("sample_norm") ==
          Approx(std::sqrt(noise.at("gradient_square").get<double>() + noise.at("gradient_variance").get<double>())));
    return steps_of(file);
  };
  const auto number = [](const nlohmann::json& step, const char* key) { return step.at(key).get<double>(); };
  // Halves of a batch of four, as batches of two of their own: their whole gradient is what a half's is of the batch.
  const auto halves = measured("--batch 2 --steps 2 --plan micro_batch=1", 0);
  double expected = 0;
  for (const auto& half : halves) expected += (number(half, "gradient_square") + number(half, "gradient_variance") / 2) / 4;
  for (const auto& plan : {PlanOnRanks{"micro_batch=2", 0},
                           {"dp=2", 2},
                           {"dp=2,zero=1", 2},
                           {"dp=2,zero=3", 2},
                           {"tp=2,micro_batch=2", 2},
                           {"tp=2,sequence_parallel=on,micro_batch=2", 2},
                           {"pp=2,micro_batch=2", 2},
                           {"dp=2,overlap=off", 2}}) {
    INFO(plan.text);
    const auto step = measured(std::string("--batch 4 --steps 1 --plan ") + plan.text, plan.ranks)[0];
    CHECK(number(step, "gradient_square") / 2 + number(step, "gradient_variance") / 4 == Approx(expected).epsilon(3e-5));
  }
  // Figures have six digits. Quarters, on two ranks and on one.
  const auto one = measured("--batch 4 --steps 1 --plan micro_batch=1", 0)[0],
             two = measured("--batch 4 --steps 1 --plan dp=2,micro_batch=1", 2)[0];
  CHECK(number(one, "gradient_square") == Approx(number(two, "gradient_square")).epsilon(3e-5));
  CHECK(number(one, "gradient_variance") == Approx(number(two, "gradient_variance")).epsilon(3e-5));
}

TEST_CASE("every sample's gradient norm is measured where parts of a batch are single samples, and is the sample's own") {
  const TemporaryFolder folder;
  const auto file = folder / "m.jsonl";
  const auto norms_of = [&](const std::string& more, int ranks) {
    std::vector<double> norms;
    const auto noise = measured_noise(file, more, ranks);
    for (const auto& step : steps_of(file)) {
      CHECK(step.at("samples").size() == step.at("sample_norms").size());
      for (const double n : step.at("sample_norms")) norms.push_back(n);
    }
    double sum = 0, squares = 0;
    for (const double n : norms) sum += n, squares += n * n;
    const auto& all = noise.at("sample_norms");
    CHECK(all.at("count") == norms.size());
    CHECK(all.at("mean") == Approx(sum / static_cast<double>(norms.size())).epsilon(1e-5));
    CHECK(all.at("largest") == Approx(*std::ranges::max_element(norms)).epsilon(1e-5));
    CHECK(all.at("least") == Approx(*std::ranges::min_element(norms)).epsilon(1e-5));
    CHECK(noise.at("sample_norm") == Approx(std::sqrt(squares / static_cast<double>(norms.size()))).epsilon(1e-5));
    return norms;
  };
  // Nothing is learned, so that two steps of two samples see what one of four sees.
  const auto expected = norms_of("--batch 2 --steps 2 --plan micro_batch=1", 0);
  REQUIRE(expected.size() == 4);
  CHECK(expected[0] != Approx(expected[1]));
  for (const auto& plan : {PlanOnRanks{"micro_batch=1", 0},
                           {"dp=4", 4},
                           {"dp=2,micro_batch=1,zero=1", 2},
                           {"dp=2,micro_batch=1,zero=3", 2},
                           {"tp=2,micro_batch=1", 2},
                           {"pp=2,micro_batch=1", 2},
                           {"dp=2,pp=2,micro_batch=1", 4}}) {
    INFO(plan.text);
    const auto got = norms_of(std::string("--batch 4 --steps 1 --plan ") + plan.text, plan.ranks);
    REQUIRE(got.size() == expected.size());
    for (std::size_t s = 0; s < got.size(); ++s) CHECK(got[s] == Approx(expected[s]).epsilon(3e-5));
  }
  CHECK(!measured_noise(file, "--batch 4 --steps 1 --plan micro_batch=2", 0).contains("sample_norms"));
  CHECK(!steps_of(file)[0].contains("sample_norms"));
}

TEST_CASE("measuring gradients changes no loss, and is no other training") {
  const TemporaryFolder folder;
  const std::string base = "--steps 2 --dtype f64 --optimizer adamw --plan dp=2 ";
  const auto without = losses_of(rehearse(run_of(base + "--checkpoint " + (folder / "c")), 2));
  CHECK(losses_of(rehearse(run_of(base + "--noise-scale"), 2)) == without);
  CHECK(losses_of(rehearse(run_of(base + "--noise-scale --resume " + (folder / "c")), 2)) ==
        losses_of(rehearse(run_of(base + "--resume " + (folder / "c")), 2)));
}

TEST_CASE("where a batch has no parts of samples of their own the noise scale is refused") {
  check_failure(rehearse(run_of("--steps 1 --noise-scale")), 3, {"--noise-scale", "one part", "micro_batch"});
  check_failure(rehearse(run_of("--steps 1 --noise-scale --plan micro_batch=2")), 3, {"--noise-scale", "wte.weight", "several uses"});
  check_failure(rehearse(run_of("--steps 1 --noise-scale --plan cp=2"), 2), 3, {"--noise-scale", "cp=2", "use cp=1"});
  check_failure(rehearse(run_of("--steps 1 --noise-scale --plan dp=2 --loss-scale 8"), 2), 3, {"noise scale", "loss scale"});
}
