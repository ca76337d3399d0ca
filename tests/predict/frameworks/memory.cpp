// Bytes of one rank.

#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::Sample;

const std::string kSmall = "zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2";

TEST_CASE("sharding divides states, recomputation drops activations") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron");
  s.job.plan.dp = 8;
  const auto whole = s.memory();
  // Megatron keeps 2 + 4 + 12 bytes a parameter: 6 (12·64² + 13·64) + 1000·64 + 32·64 + 2·64 parameters.
  const double parameters = 6 * (12.0 * 64 * 64 + 13 * 64) + 1000 * 64 + 32 * 64 + 2 * 64;
  CHECK(whole.states() == Approx(18 * parameters));
  s.job.plan.zero = 1;
  CHECK(s.memory().states() == Approx((6 + 12 / 8.0) * parameters));
  s.job.plan.zero = 2;
  CHECK(s.memory().states() == Approx((2 + 16 / 8.0) * parameters));
  s.job.recompute = Recompute::Full;
  CHECK(s.memory().activations < whole.activations);
}

TEST_CASE("an optimizer without moments keeps less") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron");
  const double adam = s.memory().optimizer;  // fp32 weights and two moments: 12 bytes
  s.job.recipe.optimizer = "sgd";
  CHECK(s.memory().optimizer == Approx(adam * 8 / 12));  // fp32 weights and a momentum
  s.job.recipe.optimizer = "none";
  CHECK(s.memory().optimizer == 0);
}

TEST_CASE("a stage keeps as many micro-batches as its schedule holds") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron-core");
  s.job.plan.pp = 3;
  s.job.micro_batches = 8;
  const auto activations = [&](const char* schedule) {
    s.job.plan.schedule = schedule;
    return s.memory().activations;
  };
  // 1F1B holds three micro-batches on the first stage, GPipe all eight.
  CHECK(activations("gpipe") > 2 * activations("1f1b"));
}

TEST_CASE("recomputation needs no more memory, whatever the stage holds") {
  for (const char* zoo : {"zoo:vit?layers=4&hidden=64&heads=4&image=32&patch=8&classes=10&batch=2", kSmall.c_str()})
    for (const int stages : {1, 2, 4}) {
      Sample s(zoo, platforms::load("dgx-a100"), "pytorch");
      s.job.plan.pp = stages;
      s.job.micro_batches = 4;
      std::vector<double> bytes;
      for (const auto kind : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        s.job.recompute = kind;
        bytes.push_back(s.memory().all());
      }
      CAPTURE(zoo, stages);
      CHECK(bytes[1] <= bytes[0] * (1 + 1e-12));
      CHECK(bytes[2] <= bytes[1] * (1 + 1e-12));
    }
}

TEST_CASE("stages that are recomputed as a whole keep their input for every micro-batch and everything for one") {
  Sample s(kSmall, platforms::load("dgx-a100"), "gpipe");
  s.job.plan.pp = 2;
  s.job.plan.schedule = "gpipe";
  s.job.recompute = Recompute::Full;
  std::vector<double> activations;
  for (const int m : {4, 5, 6}) {
    s.job.micro_batches = m;
    activations.push_back(s.memory().activations);
  }
  // the same is added for every further micro-batch: its input of a stage
  CHECK(activations[1] - activations[0] == Approx(activations[2] - activations[1]));
  CHECK(activations[1] > activations[0]);
  CHECK(activations[1] - activations[0] < 0.2 * activations[0]);
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
