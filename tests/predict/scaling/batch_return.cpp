// How many steps a target takes by batch: the formula, its fit, and published trainings that it was not fitted to.
#include "predict/scaling/batch_return.hpp"

#include <cmath>
#include <vector>

#include "predict/scaling/return_picture.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict::scaling;

TEST_CASE("at the critical batch a training takes twice the least steps and twice the least samples") {
  // 100 steps at least, 6,400 samples at least: critical at 64.
  const BatchReturn r{100, 6400, 0};
  CHECK(r.critical_batch() == 64);
  CHECK(r.steps(64) == 200);
  CHECK(r.samples(64) == 2 * 6400);
  CHECK(r.steps(16) == 500);
  // (steps / 100 - 1) (samples / 6400 - 1) = 1, whatever the batch (McCandlish et al. 2018, equation 2.11).
  for (const double batch : {1.0, 7.0, 64.0, 5000.0}) CHECK((r.steps(batch) / 100 - 1) * (r.samples(batch) / 6400 - 1) == Approx(1));
}

TEST_CASE("trainings that follow the formula are fitted to the last digit, and one with its critical batch gives the same") {
  const auto fit = fitted(std::vector<Reached>{{16, 500}, {64, 200}, {256, 125}});
  CHECK(fit.least_steps == Approx(100));
  CHECK(fit.least_samples == Approx(6400));
  CHECK(fit.misfit < 1e-12);
  const auto one = through({16, 500}, 64);
  CHECK(one.least_steps == Approx(100));
  CHECK(one.least_samples == Approx(6400));
}

TEST_CASE("steps that fall faster than batches grow, or not at all, have a figure at 0") {
  // 1,000 and 400 steps: twice the batch takes less than half. By relative errors S C = (0.01 + 0.025 / 2) / (0.01^2 + 0.0125^2), with
  // 1 / (batch steps) = 1e-4 and 1.25e-4 for batches of 10 and 20.
  const auto faster = fitted(std::vector<Reached>{{10, 1000}, {20, 400}});
  CHECK(faster.least_steps == 0);
  CHECK(std::isinf(faster.critical_batch()));
  CHECK(faster.least_samples == Approx((1e-4 + 1.25e-4) / (1e-8 + 1.5625e-8)));
  CHECK(faster.misfit > 0.05);
  const auto never = fitted(std::vector<Reached>{{10, 100}, {20, 110}});
  CHECK(never.least_samples == 0);
  CHECK(never.critical_batch() == 0);
  CHECK(never.least_steps == Approx((1 / 100.0 + 1 / 110.0) / (1e-4 + 1 / 12100.0)));
  CHECK_THROWS_WITH(fitted(std::vector<Reached>{{10, 100}, {10, 110}}), contains("two sizes"));
  CHECK_THROWS_WITH(fitted(std::vector<Reached>{{10, 0}, {20, 10}}), contains("above 0"));
  CHECK_THROWS_WITH(fitted({}), contains("two sizes"));
}

// Results of MLPerf Training (mlcommons.org, v0.7 to v4.0): epochs, or samples, to the target by batch, the mean where several
// submissions had one.
TEST_CASE("of published trainings the smallest and the largest batch say what those between them took") {
  struct Published {
    const char* name;
    std::vector<std::pair<double, double>> samples;  ///< by batch, the smallest first; in any unit
  };
  const std::vector<Published> all{
      {"ResNet-50 to 75.9 %, epochs", {{1664, 36.2}, {3264, 41.0}, {33280, 56.0}, {34560, 59.0}}},
      {"GNMT to BLEU 24, epochs", {{2048, 4.1}, {3072, 4.35}, {8192, 6.25}, {16384, 9.2}}},
      {"RetinaNet to mAP 0.34, epochs", {{256, 4.0}, {1280, 7.0}, {2048, 7.8}}},
      {"RNN-T to WER 0.058, epochs", {{1536, 49.6}, {2048, 56.8}, {4096, 75.2}, {6144, 101}}},
      {"Stable Diffusion v2, samples", {{512, 2457600}, {1024, 2764800}, {2048, 3993600}}},
      {"Llama-2-70B LoRA, samples", {{8, 3149}, {48, 5952}, {128, 11174}}},
  };
  double sum = 0;
  int count = 0;
  for (const auto& p : all) {
    INFO(p.name);
    const auto reached = [](const std::pair<double, double>& s) { return Reached{s.first, s.second / s.first}; };
    const auto fit = fitted(std::vector{reached(p.samples.front()), reached(p.samples.back())});
    for (std::size_t n = 1; n + 1 < p.samples.size(); ++n) {
      const auto [batch, samples] = p.samples[n];
      const double error = fit.samples(batch) / samples - 1;
      INFO(batch << ": " << fit.samples(batch) << " against " << samples);
      CHECK(std::abs(error) < 0.13);
      sum += std::abs(error);
      ++count;
    }
  }
  CHECK(count == 9);
  CHECK(sum / count < 0.06);
}

TEST_CASE("a law is asked for the tokens of a loss") {
  LanguageModel model;
  model.parameters = 1e9;
  model.without_embeddings = 0.9e9;
  model.tokens_per_sample = 1024;
  const auto& law = usual_law();
  for (const double tokens : {1e9, 3e10, 7e11}) CHECK(tokens_to(law, model, law.loss_of(model.scale(tokens))) == Approx(tokens));
  // 1.8172 + 482.01 / 1e9^0.3478 = 2.174: lower no number of tokens brings it.
  CHECK_THROWS_WITH(tokens_to(law, model, 2.1), contains("--to-loss 2.1") && contains("at best") && contains("larger model"));
  // 2.1e8 / 2^(1/0.21) = 2.1e8 / 27.13
  CHECK(critical_tokens(2) == Approx(2.1e8 / 27.13).epsilon(1e-3));
}

TEST_CASE("what a budget comes to takes that budget") {
  LanguageModel model;
  model.parameters = 1.2e9;
  model.without_embeddings = 1e9;
  model.tokens_per_sample = 2048;
  for (const auto& law : scaling_laws()) {
    if (law.loss == nullptr) continue;
    const LawInBatches batched(law, model);
    for (const double batch : {1e3, 5e5, 4e6, 3e7}) {
      double before = INFINITY;
      for (const double budget : {1e6, 1e8, 4e9, 1e11, 7e12}) {
        INFO(law.name << ", " << budget << " tokens in batches of " << batch);
        const double small = batched.in_small_batches(budget, batch), loss = law.loss_of(model.scale(small));
        // As --to-loss reckons: all in samples.
        const double tokens = tokens_to(law, model, loss), samples = tokens / model.tokens_per_sample;
        const BatchReturn by_loss{tokens / batched.critical(loss), samples, 0};
        CHECK(by_loss.samples(batch / model.tokens_per_sample) * model.tokens_per_sample == Approx(budget).epsilon(1e-6));
        CHECK(batched.in_batches(small, batch) == Approx(budget).epsilon(1e-9));
        CHECK(loss < before);  // more tokens, less loss
        CHECK(small > batched.in_small_batches(budget, 2 * batch));
        before = loss;
      }
    }
  }
}

TEST_CASE("at the critical batch half of the tokens count, with endless ones a training takes no more steps for a higher loss") {
  LanguageModel model;
  model.parameters = model.without_embeddings = 1e12;
  const auto& law = usual_law();
  const LawInBatches batched(law, model);
  const double critical = critical_tokens(law.loss_of(model.scale(1e11)));
  CHECK(batched.in_batches(1e11, critical) == Approx(2e11));
  CHECK(batched.in_small_batches(2e11, critical) == Approx(1e11));
  // L = E + b D^-0.3658 with E = 1.8172 + 482.01 / 1e12^0.3478 = 1.8494; D L^(1/0.21) is least where 0.3658 (L - E) = 0.21 L, at
  // L = 0.3658 E / (0.3658 - 0.21) = 4.342.
  CHECK(batched.critical(9) == Approx(critical_tokens(4.342)).epsilon(1e-3));
  CHECK(batched.critical(4.3) == critical_tokens(4.3));
}

TEST_CASE("a picture has a point for every batch, and the critical one where it lies among them") {
  const std::vector<BatchPoint> points{{16, 800, 3}, {64, 300, 1.5}, {256, 200, 2}};
  const auto svg = to_svg(points, 64, "loss < 1");
  CHECK(svg.find("loss &lt; 1") != std::string::npos);
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  CHECK(circles == 6);
  CHECK(svg.find("<path class=\"critical\"") != std::string::npos);
  CHECK(to_svg(points, 1000, "x").find("<path class=\"critical\"") == std::string::npos);
  CHECK(to_svg(std::vector<BatchPoint>{{16, 800, 3}}, {}, "x").find("nan") == std::string::npos);
  CHECK(to_svg({}, {}, "x").ends_with("</svg>\n"));
}
