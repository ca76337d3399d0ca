// Schedules of the learning rate, by hand.
#include "exec/learning_rate.hpp"

#include <cmath>

#include "tests/catch.hpp"

using rehearsal::exec::LearningRate;

TEST_CASE("every schedule at a few steps") {
  struct Expected {
    const char* schedule;
    std::int64_t warmup, step;
    double factor;
  };
  // Ten steps in all; t steps have passed since the warmup, of T = 10 - warmup.
  const Expected expected[] = {
      {"constant", 0, 7, 1},
      {"constant", 4, 1, 0.25},  // 1/4
      {"constant", 4, 4, 1},
      {"linear", 0, 1, 1},
      {"linear", 0, 6, 0.5},  // t = 5: 1 - 5/10
      {"linear", 2, 7, 0.5},  // t = 4 of 8: 1 - 4/8
      {"cosine", 0, 1, 1},
      {"cosine", 0, 6, 0.5},                      // (1 + cos(pi/2)) / 2
      {"cosine:final=0.2", 0, 6, 0.6},            // 0.2 + 0.8/2
      {"cosine:steps=20", 0, 11, 0.5},            // t = 10 of 20
      {"polynomial:power=2", 0, 6, 0.25},         // (1 - 5/10)^2
      {"polynomial", 0, 6, 0.5},                  // PyTorch's power is 1
      {"step:every=3,factor=0.5", 0, 3, 1},       // t = 2
      {"step:every=3,factor=0.5", 0, 4, 0.5},     // t = 3
      {"step:every=3,factor=0.5", 0, 10, 0.125},  // t = 9: three drops
      {"step", 0, 5, 0.1},                        // every (10 + 2) / 3 = 4 steps; t = 4
      {"step", 0, 9, 0.01},                       // t = 8
  };
  for (const auto& e : expected) {
    INFO(e.schedule << " warmup " << e.warmup << " step " << e.step);
    CHECK(std::abs(LearningRate(e.schedule, e.warmup).factor(e.step, 10) - e.factor) < 1e-12);
  }
}

TEST_CASE("a schedule that is over stays where it ended") {
  CHECK(std::abs(LearningRate("linear:steps=5", 0).factor(9, 10)) < 1e-12);
  CHECK(std::abs(LearningRate("cosine:steps=5,final=0.1", 0).factor(9, 10) - 0.1) < 1e-12);
}

TEST_CASE("the text of a learning rate says where its schedule ends") {
  CHECK(LearningRate().to_text(10) == "constant");
  CHECK(LearningRate("constant", 5).to_text(10) == "constant after a warmup of 5 steps");
  CHECK(LearningRate("cosine", 0).to_text(10) == "cosine to step 10");
  CHECK(LearningRate("cosine:steps=7", 0).to_text(10) == "cosine:steps=7");
  CHECK(LearningRate("step", 0).to_text(10) == "step to step 10");       // a third of all steps
  CHECK(LearningRate("step:every=3", 0).to_text(10) == "step:every=3");  // the same however many there are
}

TEST_CASE("names of schedules and their keys may be written in any case, and are one text") {
  CHECK(LearningRate("Cosine", 0).to_text(10) == "cosine to step 10");
  CHECK(LearningRate("STEP:Every=3,FACTOR=0.5", 0).to_text(10) == LearningRate("step:every=3,factor=0.5", 0).to_text(10));
  CHECK(LearningRate("STEP:Every=3,FACTOR=0.5", 0).factor(4, 10) == 0.5);
  CHECK_THROWS_WITH(LearningRate("cosine:power=2", 0), contains("cosine takes no \"power\"; it takes steps, final"));
}

TEST_CASE("a warm-up may begin at a share of the rate") {
  // From a quarter in four steps: 0.25 + 0.75 n / 4
  const LearningRate rate("constant", 4, 0.25);
  CHECK(rate.factor(1, 10) == Approx(0.4375).epsilon(1e-14));
  CHECK(rate.factor(4, 10) == Approx(1).epsilon(1e-14));
  CHECK(rate.factor(5, 10) == 1);
}
