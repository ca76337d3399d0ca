// Element-wise operators that a framework fuses: what their kernels move, counted by hand.
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::Sample;
using Moved = std::vector<double>;

constexpr double kUnit = 8.0 * 512 * 512 * 2;  // the hidden state of the sample models: 8 samples, 512 tokens, 512 features of 16 bits

/// Kernels of a pass of a block that a thread of the host launches: what they move, in units, in the order of the forward pass.
Moved moved(const Sample& s, std::vector<PassStep> Part::*pass) {
  const auto parts = s.parts();
  Moved result;
  for (const auto& step : sample::block_of(parts).*pass)
    if (!step.exchange && step.row.kind == costmodel::RateKind::Elementwise && step.row.launches > 0)
      result.push_back(step.row.bytes / kUnit);
  if (pass == &Part::backward) std::ranges::reverse(result);
  return result;
}

}  // namespace

TEST_CASE("a fused chain reads what it begins with, writes what it ends with, and nothing between") {
  Sample llama("zoo:llama?layers=2&hidden=512&heads=4&ffn=1024&seq=512&vocab=100&batch=8", platforms::load("dgx-h100"), "nemo");
  // Norm; positions of queries and of keys, whose halves are multiplied, added and put together; sum; norm; gate · sigmoid(gate) · up, of
  // twice the features: two read, one written; sum.
  CHECK(moved(llama, &Part::forward) == Moved{2, 2, 2, 3, 2, 3 * 2, 3});
  // Positions turn the gradient back, which needs no queries. The gate's kernel reads the gradient, gate and up, and writes two gradients.
  CHECK(moved(llama, &Part::backward) == Moved{4, 3, 2, 2, 1.5, 4, 1.5, 5 * 2});

  Sample gpt("zoo:gpt?layers=2&hidden=512&heads=4&seq=512&vocab=100&batch=8", platforms::load("dgx-h100"), "nemo");
  // The activation, of four times the features, behind a bias that its product adds: read and written; back the gradient and what the
  // product wrote are read.
  CHECK(moved(gpt, &Part::forward) == Moved{2, 3, 2, 2 * 4, 3});
  CHECK(moved(gpt, &Part::backward)[6] == 3 * 4);
}

TEST_CASE("operators that are not fused read and write for themselves") {
  Sample llama("zoo:llama?layers=2&hidden=512&heads=4&ffn=1024&seq=512&vocab=100&batch=8", platforms::load("dgx-h100"), "nemo");
  llama.profile.elementwise_fusion = 1;
  const auto apart = moved(llama, &Part::forward);
  // x · sigmoid(x) is one kernel everywhere, its product with up another: read and written, then two read and one written.
  CHECK(std::ranges::count(apart, 2.0 * 2) == 1);
  CHECK(std::ranges::count(apart, 3.0 * 2) == 1);
}

}  // namespace rehearsal::predict::frameworks
