// What budgets buy, by hand.

#include "predict/scaling/sizing.hpp"

#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/scaled.hpp"
#include "graph/zoo/zoo.hpp"
#include "predict/scaling/batch_return.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;
using namespace rehearsal::predict::scaling;

namespace {

Budget budget(const std::string& text) { return parse_budget("--budget", text); }

/// A step of two seconds, 3 dollars and 5 joules over 10 samples of 100 tokens, of a model of a million parameters.
Assessment step_of_two_seconds() {
  Assessment a;
  a.step = Seconds(2);
  a.step_seconds = {2, 1, 4};
  a.samples_per_second = 5;
  a.cost = {.energy = Joules(5), .money = Dollars(3), .carbon_kg = 0};
  return a;
}
constexpr LanguageModel kMillion{.parameters = 1e6, .without_embeddings = 9e5, .per_token = Flops(6e6), .tokens_per_sample = 100};
std::optional<Goodput> nothing_fails(const Assessment&, double) { return std::nullopt; }

Trained trained(const std::vector<Budget>& budgets) {
  return train_until(budgets, kMillion, step_of_two_seconds(), usual_law(), nothing_fails);
}

}  // namespace

TEST_CASE("budgets are read in the units that people say") {
  CHECK(budget("1e23FLOP").amount == 1e23);
  CHECK(budget("1e23 FLOPs").row->key == "flops");
  CHECK(budget("20ZFLOP").amount == 2e22);
  CHECK(budget("10PF-days").amount == Approx(8.64e20));
  CHECK(budget("$50k").amount == 50'000);
  CHECK(budget("$2.5M").row->key == "dollars");
  CHECK(budget("$100").amount == 100);
  CHECK(budget("3days").amount == 259'200);
  CHECK(budget("12h").row->key == "seconds");
  CHECK(budget("2weeks").amount == 14 * 86'400);
  CHECK(budget("20MWh").amount == 7.2e10);
}

TEST_CASE("what is no budget is refused with examples") {
  for (const char* wrong : {"", "3", "3parsecs", "$", "$5x", "FLOP", "1e23", "50k$", "5 GFLOP/s", "nanFLOP"})
    CHECK_THROWS_WITH(budget(wrong), contains("1e23FLOP") || contains("finite"));
  for (const char* wrong : {"0h", "-3days", "$-5", "infFLOP", "1e999s"}) {
    INFO(wrong);
    CHECK_THROWS_AS(budget(wrong), BadInput);
  }
}

TEST_CASE("tokens of a budget are whole steps of it") {
  // 101 s are 50 steps of 1,000 tokens.
  const auto by_time = trained({budget("101s")});
  CHECK(by_time.steps == 50);
  CHECK(by_time.tokens.value == 50'000);
  CHECK(by_time.tokens.low == 25'000);    // a step may take 4 s
  CHECK(by_time.tokens.high == 100'000);  // or 1 s
  CHECK(by_time.flops().value() == Approx(50'000 * 6e6));
  // $100 are 33 steps, 60 J are 12.
  CHECK(trained({budget("$100")}).steps == 33);
  CHECK(trained({parse_budget("--budget", "1kWh")}).steps == 720'000);
  // Compute buys as many however long they take: a step takes 1000 * 6e6 = 6e9.
  const auto by_compute = trained({budget("1e12FLOP")});
  CHECK(by_compute.steps == 166);
  CHECK(by_compute.tokens.low == by_compute.tokens.high);
}

TEST_CASE("of several budgets the first that is spent ends the training") {
  const std::vector<Budget> both{budget("101s"), budget("$100")};
  const auto t = trained(both);
  CHECK(t.steps == 33);
  CHECK(t.spent == &both[1]);
}

TEST_CASE("a budget that is too small for a step says what one takes") {
  CHECK_THROWS_WITH(trained({budget("1s")}), contains("not enough for one step, which takes 2 s"));
  CHECK_THROWS_WITH(trained({budget("$1")}), contains("$3"));
}

TEST_CASE("the loss's interval is of laws of the same runs, and of how long a step may take") {
  const auto t = trained({budget("1000000s")});
  double low = 1e9, high = 0;
  for (const auto& law : scaling_laws()) {
    if (law.name != "besiroglu" && law.name != "hoffmann-3") continue;
    low = std::min(low, law.loss(1e6, t.least_tokens.high));
    high = std::max(high, law.loss(1e6, t.least_tokens.low));
  }
  CHECK(t.loss.low == low);
  CHECK(t.loss.high == high);
  CHECK(t.loss.value == usual_law().loss(1e6, t.least_tokens.value));
  // 1 + B / C with batches of 1,000 tokens: 10 samples of 100
  CHECK(t.batch() == 1000);
  CHECK(t.tokens_over_least() == Approx(1 + 1000 / LawInBatches(usual_law(), kMillion).critical(t.loss.value)));
  // 6 N D with all parameters, and with the 9e5 that Kaplan counts
  CHECK(usual_law().flops_of(t.scale()).value() == Approx(6e6 * t.least_tokens.value));
  CHECK(known_law("--law", "kaplan").flops_of(t.scale()).value() == Approx(5.4e6 * t.least_tokens.value));
}

TEST_CASE("failures leave fewer steps of the same time") {
  const std::vector<Budget> budgets{budget("1000s")};
  const auto with_failures = [](const Assessment& a, double steps) {
    Goodput g;
    g.run = {a.step, steps, 10};
    g.finished = a.step * steps * 1.25;
    g.cost = {.energy = Joules(5 * steps * 1.25), .money = Dollars(3 * steps * 1.5), .carbon_kg = 0};
    return std::optional(g);
  };
  // 1000 s of 2.5 s a step
  CHECK(train_until(budgets, kMillion, step_of_two_seconds(), usual_law(), with_failures).steps == 400);
  const std::vector<Budget> money{budget("$900")};  // of 4.5 dollars a step
  CHECK(train_until(money, kMillion, step_of_two_seconds(), usual_law(), with_failures).steps == 200);
}

namespace {

/// A size whose loss is least at `best` parameters; those above `most` cannot be trained.
Tried tried_with(double parameters, double best, double most) {
  Tried t{.asked = parameters, .model = std::to_string(parameters), .trained = {}, .refused = {}};
  if (parameters > most) {
    t.refused = "does not fit";
    return t;
  }
  t.trained = Trained{};
  t.trained->loss.value = 2 + std::pow(std::log(parameters / best), 2);
  return t;
}

}  // namespace

TEST_CASE("sizes are tried until the best has larger and smaller ones beside it") {
  for (const double first : {1e7, 1e9, 1e11}) {
    INFO(first);
    const auto sizes = sizes_around(first, [](double n) { return tried_with(n, 1e9, 1e12); });
    const auto best = best_of(sizes);
    REQUIRE(best);
    CHECK(*best >= 2);
    CHECK(*best + 2 < sizes.size());
    CHECK(std::abs(std::log2(sizes[*best].asked / 1e9)) <= 0.25);
    for (std::size_t n = 1; n < sizes.size(); ++n) CHECK(sizes[n].asked > sizes[n - 1].asked);
  }
}

TEST_CASE("a width on which kernels are quicker is found beside the best of the others") {
  // From 1.5e9 by doublings, halved once there are 2.12e9 and 3e9 above, halved again 2.52e9.
  const auto sizes = sizes_around(1.5e9, [](double n) {
    auto t = tried_with(n, 1.5e9, 1e12);
    if (n > 2.3e9 && n < 2.8e9) t.trained->loss.value = 1.9;
    return t;
  });
  CHECK(sizes[best_of(sizes).value()].asked == Approx(1.5e9 * std::pow(2, 0.75)));
  CHECK(sizes.size() == 5 + 4 + 4);
}

TEST_CASE("sizes that are rounded to one model are one") {
  const auto sizes = sizes_around(1e9, [](double n) {
    auto t = tried_with(n, 1e9, 1e12);
    t.model = std::to_string(std::lround(std::log2(n / 1e9)));
    return t;
  });
  CHECK(sizes.size() == 5);  // nothing between doublings
  CHECK(is_among(sizes, sizes[2]));
  CHECK_FALSE(is_among(sizes, {.asked = 1, .model = {}, .trained = {}, .refused = "too small"}));
}

TEST_CASE("where the best size does not fit, the largest that does is the best, and the next says why not") {
  const auto sizes = sizes_around(4e9, [](double n) { return tried_with(n, 1e12, 3e9); });
  const auto best = best_of(sizes);
  REQUIRE(best);
  CHECK(sizes[*best].asked <= 3e9);
  CHECK_FALSE(sizes.back().refused.empty());
  CHECK_THROWS_WITH(sizes_around(4e9, [](double n) { return tried_with(n, 1e12, 0); }), contains("does not fit"));
}

TEST_CASE("six FLOPs of a parameter and token are most of what a decoder's graph counts") {
  const auto gpt = language_model(graph::zoo::build("zoo:gpt2"), "zoo:gpt2");
  CHECK(gpt.parameters == 124'439'808);
  // 50,257 words of 768 are left out.
  CHECK(gpt.without_embeddings == 124'439'808 - 50'257 * 768);
  CHECK(gpt.tokens_per_sample == 1024);
  // 6 N counts the embedding once, for the words' scores; the attention adds 12 layers * 12 * 768 * 1024 a token (Kaplan et al. 2020,
  // table 1, with 3 for both directions), which is 15 % of 6 N, and everything that is no product a few per cent.
  const double attention = 12.0 * 12 * 768 * 1024 / (6 * gpt.parameters);
  CHECK(attention == Approx(0.1517).epsilon(1e-3));
  CHECK(gpt.flops_over_six_n() > 1 + attention - 0.01);
  CHECK(gpt.flops_over_six_n() < 1 + attention + 0.1);
  // A large model with short sequences is 6 N D.
  const auto wide = language_model(graph::zoo::build("zoo:llama2-7b?seq=512"), "zoo:llama2-7b");
  CHECK(wide.flops_over_six_n() == Approx(1).epsilon(0.05));
}

TEST_CASE("models of which laws know nothing are refused with the reason") {
  const auto refused = [](const char* name) { return language_model(graph::zoo::build(name), name); };
  CHECK_THROWS_WITH(refused("zoo:resnet18"), contains("reads no tokens"));
  CHECK_THROWS_WITH(refused("zoo:bert"), contains("looks ahead"));
  // An encoder, and a decoder that looks at it.
  CHECK_THROWS_WITH(refused("zoo:t5"), contains("a part of its attention looks ahead, or at an encoder"));
  CHECK_THROWS_WITH(refused("zoo:transformer"), contains("a part of its attention looks ahead, or at an encoder"));
  CHECK_THROWS_WITH(refused("zoo:moe?layers=1&hidden=64&heads=2&ffn=64&vocab=100&seq=8&kv_heads=2"), contains("experts"));
}

TEST_CASE("families grow in width and depth together, near the size that is asked for") {
  for (const double asked : {3e7, 1e8, 1e9, 7e9, 7e10, 5e11}) {
    const auto reference = graph::zoo::scaled("zoo:llama?vocab=32000", asked);
    INFO(reference);
    auto choice = graph::zoo::parse(reference);
    CHECK(choice.values["vocab"] == 32000);
    CHECK(choice.values["hidden"] == 128 * choice.values["heads"]);  // heads keep their width
    const double shape = static_cast<double>(choice.values["hidden"]) / static_cast<double>(choice.values["layers"]);
    CHECK(shape > 64);
    CHECK(shape < 256);
    if (asked < 1e10) CHECK(language_model(graph::zoo::build(reference, 1), reference).parameters == Approx(asked).epsilon(0.12));
  }
  // The defaults are Llama 7B.
  CHECK(graph::zoo::scaled("zoo:llama", 6.738e9) == "zoo:llama");
}

TEST_CASE("a published size is no open one, and what has no blocks has no sizes") {
  CHECK(graph::zoo::leaves_size_open("zoo:llama"));
  CHECK(graph::zoo::leaves_size_open("zoo:llama?seq=4096&vocab=50000"));
  CHECK_FALSE(graph::zoo::leaves_size_open("zoo:llama2-7b"));
  CHECK_FALSE(graph::zoo::leaves_size_open("zoo:llama?layers=16"));
  CHECK_FALSE(graph::zoo::leaves_size_open("zoo:resnet50"));
  CHECK_FALSE(graph::zoo::leaves_size_open("model.onnx"));
  CHECK_THROWS_WITH(graph::zoo::scaled("zoo:resnet50", 1e9), contains("has no 'layers'"));
  CHECK_THROWS_WITH(graph::zoo::scaled("zoo:llama", 1000), contains("no model of 1e+03 parameters"));
}
