#pragma once
// What train_plans, started by itself or under mpirun, says of the losses of cases; and the bounds within which plans agree.

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/exec/executor/models.hpp"
#include "tests/process.hpp"

namespace rehearsal::exec::sample {

using Losses = std::vector<double>;

/// Trains the cases on so many ranks, `how` as train_plans takes it; losses of so many steps by the text of the case.
inline std::map<std::string, Losses> train(int ranks, const std::vector<Case>& cases, const std::string& how = "-", int steps = 3) {
  std::string command = ranks == 1 ? std::string() : REHEARSAL_MPIRUN " -n " + std::to_string(ranks) + " ";
  command += "\"" REHEARSAL_TRAIN_PLANS "\" " + std::to_string(steps) + " " + how;
  for (const auto& c : cases) command += " '" + to_text(c) + "'";
  const auto ended = run_shell(command);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  std::map<std::string, Losses> found;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string text;
    words >> text;
    for (double loss = 0; words >> loss;) found[text].push_back(loss);
  }
  REQUIRE(found.size() == cases.size());
  return found;
}

/// Where parts of the batch have statistics of their own: with the same parts, one after the other.
inline Case on_one_rank(Case c) {
  const auto plan = plan::parse_plan(c.plan);
  c.plan = plan.bn == plan::BatchStatistics::Batch
               ? "dp=1"
               : "dp=1,micro_batch=" + std::to_string(plan.micro_batch.value_or(c.batch / plan.dp)) + ",bn=local";
  return c;
}

/// Trains the cases, all of them on so many ranks, and holds their losses to those of one rank.
inline void check_agreement(int ranks, const std::vector<Case>& cases) {
  std::vector<Case> references;
  for (const auto& c : cases) {
    const auto same = [&](const Case& other) { return to_text(other) == to_text(on_one_rank(c)); };
    if (std::none_of(references.begin(), references.end(), same)) references.push_back(on_one_rank(c));
  }
  const auto expected = train(1, references), found = train(ranks, cases);
  for (const auto& c : cases) {
    INFO(to_text(c));
    const auto& one = expected.at(to_text(on_one_rank(c)));
    const auto& many = found.at(to_text(c));
    REQUIRE(one.size() == 3);
    REQUIRE(many.size() == 3);
    CHECK(one[2] != one[0]);  // something is learned
    // The design's bounds: sums in another order in f64, the same and other kernels in f32.
    for (std::size_t n = 0; n < one.size(); ++n)
      CHECK(std::abs(many[n] - one[n]) <= (c.dtype == "f64" ? 1e-12 : 1e-5) * std::max(1.0, std::abs(one[n])));
  }
}

}  // namespace rehearsal::exec::sample
