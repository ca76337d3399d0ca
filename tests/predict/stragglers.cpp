// Ranks that are not equally quick in every step.
#include "predict/stragglers.hpp"

#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

double waiting(const std::string& plan, double spread = 0.3) { return waiting_for_stragglers(plan::parse_plan(plan), {spread}); }

}  // namespace

TEST_CASE("one rank waits for nobody, and equal ones do not either") {
  CHECK(waiting("dp=1") == Approx(0).margin(1e-3));
  CHECK(waiting("dp=64", 0) == 0);
}

TEST_CASE("the slower of two, by hand") {
  // For lognormal x and y of mean 1 the mean of the larger is 2 Phi(s / sqrt 2), s being the deviation of the logarithm
  // (which is 1 + erf(s / 2): E max = E x + E (y - x)+, the price of an option on y against x: Margrabe 1978).
  const double s = std::sqrt(std::log1p(0.3 * 0.3)), wanted = std::erf(s / 2);
  CHECK(waiting("dp=2") == Approx(wanted).epsilon(0.01));
  CHECK(waiting("tp=2") == Approx(wanted).epsilon(0.01));
  CHECK(waiting("dp=2,local_steps=1") == Approx(wanted).epsilon(0.1));  // drawn
  CHECK(waiting("dp=2,local_steps=1,staleness=0,servers=1") == waiting("dp=2,local_steps=1"));
}

TEST_CASE("the more ranks, the longer the wait; the rarer and looser the meetings, the shorter") {
  CHECK(waiting("dp=8") > waiting("dp=2"));
  CHECK(waiting("dp=64") > waiting("dp=8"));
  CHECK(waiting("dp=8,tp=8") == Approx(waiting("dp=64")));
  const double every = waiting("dp=8,local_steps=1");
  CHECK(every == Approx(waiting("dp=8")).epsilon(0.05));
  CHECK(waiting("dp=8,local_steps=1,outer=gossip") < every);
  CHECK(waiting("dp=8,local_steps=4") < every);
  CHECK(waiting("dp=8,local_steps=100") < waiting("dp=8,local_steps=4"));
  // The largest of 8 sums of 100 is about 1.42 deviations of a sum above its mean: 1.42 · 0.3 / sqrt 100.
  CHECK(waiting("dp=8,local_steps=100") == Approx(1.42 * 0.03).epsilon(0.1));
  double before = every;
  for (const auto* staleness : {"1", "2", "5", "20"}) {
    const double now = waiting(std::string("dp=8,local_steps=1,staleness=") + staleness);
    CHECK(now < before);
    before = now;
  }
  CHECK(waiting("dp=8,local_steps=1,staleness=any") == Approx(0).margin(0.01));
  // Ranks inside a replica are waited for whatever its staleness.
  CHECK(waiting("dp=2,tp=8,local_steps=1,staleness=any") == Approx(waiting("tp=8")).epsilon(0.05));
}

TEST_CASE("an answer is longer and dearer by the wait, in its parts as well") {
  const auto platform = platforms::with_nodes(platforms::load("dgx-a100"), 1);
  const auto predictor = [&](double spread) {
    return with_jitter(frameworks::framework_predictor({graph::zoo::build("zoo:resnet50", 256), "bf16", "sgd"}, platform,
                                                       costmodel::known_framework("test", "pytorch"), {}),
                       {spread});
  };
  const auto plan = plan::parse_plan("dp=8");
  const auto even = predictor(0)->closed(plan), odd = predictor(0.2)->closed(plan);
  const auto wait = odd.stragglers.value().value();
  CHECK(even.stragglers.value().value() == 0);
  CHECK(wait > 0);
  CHECK(odd.step.value() == Approx(even.step.value() + wait));
  CHECK(odd.step_seconds.high / odd.step_seconds.value == Approx(even.step_seconds.high / even.step_seconds.value));
  CHECK(odd.samples_per_second * odd.step.value() == Approx(even.samples_per_second * even.step.value()));
  CHECK(odd.breakdown.exposed_communication.value() == Approx(even.breakdown.exposed_communication.value() + wait));
  CHECK(odd.cost.money.value() / even.cost.money.value() == Approx(odd.step / even.step).epsilon(1e-6));
  CHECK(odd.cost.energy.value() > even.cost.energy.value());
  CHECK(odd.cost.energy.value() < even.cost.energy.value() * (odd.step / even.step));  // who waits takes less power
  CHECK_THROWS_AS(predictor(-0.1), BadInput);
  CHECK_THROWS_AS(predictor(NAN), BadInput);
}
