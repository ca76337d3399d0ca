// Scaling laws against what their sources print, and against hand calculations.

#include <cmath>
#include <set>

#include "base/error.hpp"
#include "predict/scaling/law.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict::scaling;

namespace {

const ScalingLaw& law_named(std::string_view name) {
  for (const auto& law : scaling_laws())
    if (law.name == name) return law;
  throw InternalError("a law of this test is a row");
}

constexpr double kGopherCompute = 5.76e23;

}  // namespace

TEST_CASE("Chinchilla's compute is best spent on about 70 B parameters and 1.4 T tokens") {
  // Hoffmann et al. 2022, table 3: 67 B and 1.5 T; 6 N D = C makes 5.76e23 / (6 * 67e9) = 1.433e12 of it.
  const auto envelope = law_named("hoffmann-1").best(Flops(kGopherCompute));
  CHECK(envelope.parameters == Approx(67e9));
  CHECK(envelope.tokens == Approx(1.433e12).epsilon(1e-3));
  // The same table: 1 B for 1.21e20, 10 B for 1.23e22, 1 T for 1.27e26.
  CHECK(law_named("hoffmann-1").best(Flops(1.21e20)).parameters == Approx(1e9).epsilon(0.04));
  CHECK(law_named("hoffmann-1").best(Flops(1.23e22)).parameters == Approx(1e10).epsilon(0.03));
  CHECK(law_named("hoffmann-1").best(Flops(1.27e26)).parameters == Approx(1e12).epsilon(0.01));
  const auto profiles = law_named("hoffmann-2").best(Flops(kGopherCompute));
  CHECK(profiles.parameters == Approx(63e9));
  CHECK(profiles.tokens == Approx(1.524e12).epsilon(1e-3));
  // Approach 3 as published: 40 B.
  CHECK(law_named("hoffmann-3").best(Flops(kGopherCompute)).parameters == Approx(40.4e9).epsilon(1e-2));
  // G = (0.3478 * 482.01 / (0.3658 * 2085.43))^(1 / 0.7136) = 0.21976^1.40135 = 0.1196, a = 0.3658 / 0.7136 = 0.51261,
  // N = 0.1196 * (9.6e22)^0.51261 = 7.22e10, D = 9.6e22 / 7.22e10 = 1.329e12.
  const auto refit = law_named("besiroglu").best(Flops(kGopherCompute));
  CHECK(refit.parameters == Approx(7.225e10).epsilon(1e-3));
  CHECK(refit.tokens == Approx(1.3287e12).epsilon(1e-3));
}

TEST_CASE("losses are what the published formulas give") {
  // 482.01 / (7e10)^0.3478 + 2085.43 / (1.4e12)^0.3658 = 0.08154 + 0.07515
  CHECK(law_named("besiroglu").loss(7e10, 1.4e12) == Approx(1.9739).epsilon(1e-4));
  CHECK(law_named("hoffmann-3").loss(7e10, 1.4e12) == Approx(1.9208).epsilon(1e-4));
  // ((6.4e13 / 1.5e9)^0.73786 + 1.8e13 / 2.3e10)^0.103 = (2609.7 + 782.6)^0.103
  CHECK(law_named("kaplan").loss(1.5e9, 2.3e10) == Approx(2.3101).epsilon(1e-4));
  CHECK(law_named("hestness").loss(1, 1e8) == Approx(13.0 * std::pow(10, -0.528)));
}

TEST_CASE("Kaplan's, DeepSeek's and Llama 3's allocations") {
  // 1.3e9 * 10^0.73 = 6.98e9 for ten PF-days
  CHECK(law_named("kaplan").best(Flops(8.64e20)).parameters == Approx(6.981e9).epsilon(1e-3));
  // 5.8316 * (1e20)^0.4757 = 5.8316 * 10^9.514
  CHECK(law_named("deepseek").best(Flops(1e20)).tokens == Approx(1.9045e10).epsilon(1e-3));
  const auto llama = law_named("llama3").best(Flops(3.8e25));
  CHECK(llama.tokens == Approx(16.55e12));
  CHECK(llama.parameters == Approx(402e9).epsilon(0.06));  // they count 5.7 FLOPs of a parameter and token
}

TEST_CASE("a law's own optimum is the least of its loss, and spends the budget") {
  for (const auto& law : scaling_laws()) {
    if (law.best == nullptr) continue;
    for (const double budget : {1e19, 1e22, 1e25}) {
      INFO(law.name << " " << budget);
      const auto best = law.best(Flops(budget));
      CHECK(kFlopsOfParameterAndToken * best.parameters * best.tokens == Approx(budget).epsilon(1e-9));
      if (law.loss == nullptr || law.name == "kaplan") continue;  // whose allocation is of batches, not of this loss
      const double least = law.loss(best.parameters, best.tokens);
      for (const double off : {0.5, 0.9, 1.1, 2.0}) CHECK(law.loss(best.parameters * off, best.tokens / off) > least);
    }
  }
}

TEST_CASE("losses fall with parameters and with tokens, and budgets buy more of both") {
  for (const auto& law : scaling_laws()) {
    INFO(law.name);
    if (law.loss != nullptr) {
      CHECK(law.loss(1e9, 2e10) < law.loss(1e9, 1e10));
      CHECK(law.loss(2e9, 1e10) <= law.loss(1e9, 1e10));
    }
    if (law.best == nullptr) continue;
    CHECK(law.best(Flops(1e22)).parameters > law.best(Flops(1e21)).parameters);
    CHECK(law.best(Flops(1e22)).tokens > law.best(Flops(1e21)).tokens);
  }
}

TEST_CASE("every law has a name of its own, its source, and what its losses are of") {
  std::set<std::string_view> names;
  for (const auto& law : scaling_laws()) {
    CHECK(names.insert(law.name).second);
    CHECK_FALSE(law.source.empty());
    CHECK_FALSE(law.data.empty());
    CHECK((law.loss != nullptr || law.best != nullptr));
    CHECK((law.parameters.known() || law.tokens.known() || law.flops.known()));
  }
  CHECK(usual_law().name == "besiroglu");
}

TEST_CASE("what lies outside of a fit is said") {
  const auto& law = usual_law();
  CHECK(outside(law, {1e9, 9e8, 2e10}).empty());
  CHECK(outside(law, {7e10, 7e10, 2e10}) == "parameters 7e+10 (fitted up to 1.6e+10)");
  CHECK(outside(law, {1e7, 1e7, 1e12}) == "parameters 1e+07 (fitted from 7e+07), tokens 1e+12 (fitted up to 5e+11)");
  // Kaplan counts without embeddings.
  CHECK(outside(law_named("kaplan"), {1.6e9, 1.4e9, 1e10}).empty());
  CHECK_THAT(outside(law_named("hoffmann-2"), {1e10, 1e10, 1e13}), contains("FLOPs 6e+23 (fitted up to 3e+21)"));
}

TEST_CASE("a law that cannot choose is refused with those that can") {
  CHECK(known_law("--law", "Kaplan").name == "kaplan");
  CHECK_THROWS_WITH(known_law("--law", "hestness"), contains("no best size") && contains("besiroglu"));
  CHECK_THROWS_WITH(known_law("--law", "llama3"), contains("no loss") && contains("hoffmann-3"));
  // A loss is asked of those that have one.
  CHECK(known_law("--law", "hestness", AskedOfLaw::Loss).name == "hestness");
  CHECK_THROWS_WITH(known_law("--law", "llama3", AskedOfLaw::Loss), contains("no loss") && contains("those that do: hestness, kaplan"));
  CHECK_THROWS_WITH(known_law("--law", "besiroglo"), contains("besiroglu"));
}
