// Bytes of one rank where replicas shard parameters.

#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::Sample;

const std::string kSmall = "zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2";
constexpr double kBlock = 12.0 * 64 * 64 + 13 * 64, kRest = 1000 * 64 + 32 * 64 + 2 * 64;  // parameters

TEST_CASE("what is around the blocks stays gathered, and of the blocks the one at work and the next") {
  Sample s(kSmall, platforms::load("dgx-h100"), "torchtitan", "bf16");
  s.job.recipe.chunked_loss = true;  // the last block's backward pass is the fullest moment
  const double alone = s.memory().activations;
  s.job.plan.dp = 8, s.job.plan.zero = 3;
  const auto sharded = s.memory();
  CHECK(sharded.gathered == Approx(2 * kRest));
  // Two blocks of 16 bits, and the gradients of one before they are scattered.
  CHECK(sharded.activations - alone == Approx((2 * 2 + 2) * kBlock));
  Sample pieces(kSmall, platforms::load("dgx-a100"), "megatron-deepspeed", "bf16");
  pieces.job.plan.dp = 8, pieces.job.plan.zero = 3;  // ZeRO of DeepSpeed gathers module by module, and nothing stays
  CHECK(pieces.memory().gathered == Approx(2 * 2 * (1000 * 64 + 32 * 64)));  // twice the largest
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
