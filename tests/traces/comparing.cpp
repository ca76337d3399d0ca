#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/traces/sample.hpp"
#include "traces/compare.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

using sample::all_reduce;
using sample::computing;
using sample::kernel;

const auto kProduct = kernel("MatMul", graph::CostFamily::MatMul, 1000, 100);
const auto kSum = kernel("Add", graph::CostFamily::Elementwise, 10, 100);

/// One step of rank `rank`, in seconds: product [0, p), sum [p + gap, p + gap + 1), all-reduce from the end of the product until `end`.
void add_rank(Trace& t, int rank, double product, double gap, double end) {
  RankTrace r{rank, {computing(kProduct, plan::BodyKind::Forward, 0), computing(kSum, plan::BodyKind::Backward, 1), all_reduce(8, 2)}, {}};
  const auto compute = plan::Stream::Compute, collective = plan::Stream::Collective;
  r.events = {{0, 0, 0, compute, 0, product, product},
              {1, 0, 0, compute, product + gap, product + gap + 1, 1},
              {2, 0, 0, collective, product + gap + 0.5, end, 0}};
  t.ranks.push_back(std::move(r));
}

Trace trace(std::string kind, double product, double gap, double end) {
  auto t = sample::empty_trace(std::move(kind));
  t.steps = {{0, 0, end, 0, false}};
  add_rank(t, 0, product, gap, end);
  add_rank(t, 1, product, gap, end);
  return t;
}

const ComparedRow& row(const Comparison& c, const std::string& op) {
  for (const auto& r : c.rows)
    if (r.op == op) return r;
  FAIL("no row " << op);
  return c.rows.front();
}

TEST_CASE("a rank's step is computing, waiting for messages and idle") {
  const auto t = trace("measured", 4, 0.25, 7);
  const auto of_rank = accounts(t.ranks[0], counted_steps(t));
  REQUIRE(of_rank.size() == 1);
  // Product 4 s and sum 1 s compute. Between them 0.25 s without a message; after the sum, at 5.25 s, the all-reduce lasts until 7 s.
  CHECK(of_rank[0].compute == Approx(5));
  CHECK(of_rank[0].idle == Approx(0.25));
  CHECK(of_rank[0].exposed == Approx(1.75));
  CHECK(of_rank[0].compute + of_rank[0].idle + of_rank[0].exposed == Approx(of_rank[0].seconds));
  REQUIRE(of_rank[0].charged.size() == 2);
  CHECK(of_rank[0].charged[0].seconds == Approx(4.25));  // with the dispatch of the sum
  CHECK(of_rank[0].charged[1].seconds == Approx(1));     // what follows is the message's
  CHECK(of_rank[0].charged[0].busy == Approx(4));
}

TEST_CASE("comparison of two traces by phase and operator") {
  const auto c = compare(trace("simulated", 3, 0, 5), trace("measured", 4, 0.25, 7));
  CHECK(c.predicted_step == Approx(5));
  CHECK(c.measured_step == Approx(7));
  CHECK(c.step_error() == Approx(5.0 / 7 - 1));
  CHECK(row(c, "MatMul").phase == "forward");
  CHECK(row(c, "MatMul").predicted == Approx(3));
  CHECK(row(c, "MatMul").measured == Approx(4));
  CHECK(row(c, "Add").error() == Approx(0).margin(1e-12));
  CHECK(row(c, "exposed communication").predicted == Approx(1));  // 5 - 3 - 1
  CHECK(row(c, "exposed communication").measured == Approx(1.75));
  CHECK(row(c, "idle").error() == Approx(-0.25));
  // Errors 1 s, 0.75 s, 0.25 s, 0 s.
  CHECK(c.rows.front().op == "MatMul");
  CHECK(c.rows[1].op == "exposed communication");
  CHECK(c.rows.back().op == "Add");
  CHECK(c.instructions.front().name == "MatMul_0");
  double predicted = 0, measured = 0;
  for (const auto& r : c.rows) predicted += r.predicted, measured += r.measured;
  CHECK(predicted == Approx(c.predicted_rows));
  CHECK(measured == Approx(c.measured_rows));
}

TEST_CASE("what adding up in another order leaves is no time and no error") {
  // In doubles 0.1 + 0.2 is more than 0.3, by 5.6e-17: a sum that begins there after a product until 0.3 leaves a gap, and so do the step's
  // end and a message's.
  auto t = trace("simulated", 0.3, 0, 2);
  for (auto& rank : t.ranks) {
    rank.events[1].begin = 0.1 + 0.2;
    rank.events[1].end = 1.3;
    rank.events[2].begin = 1.3 + 3e-16;
    rank.events[2].end = 2 - 3e-16;
  }
  const auto of_rank = accounts(t.ranks[0], counted_steps(t)).front();
  CHECK(of_rank.idle == 0);
  CHECK(of_rank.exposed == Approx(0.7));
  CHECK(of_rank.compute + of_rank.exposed == Approx(of_rank.seconds));
  // The same instructions a rounding longer, and one that is longer by a microsecond.
  auto other = t;
  for (auto& rank : other.ranks) rank.events[0].end = 0.3 + 1e-16, rank.events[1].end = 1.3 + 1e-6;
  const auto c = compare(t, other);
  CHECK(row(c, "MatMul").error() == 0);
  CHECK(row(c, "idle").error() == 0);
  CHECK(row(c, "Add").error() == Approx(-1e-6));
  CHECK(row(c, "exposed communication").error() == Approx(1e-6));
  for (const auto& r : compare(t, t).rows) CHECK(r.error() == 0);
}

TEST_CASE("warm-up and the outer quarters of steps do not count") {
  auto t = trace("measured", 4, 0, 6);
  t.steps.clear();
  for (const double seconds : {50.0, 9.0, 6.0, 5.0, 5.0, 1.0})
    t.steps.push_back({static_cast<std::int32_t>(t.steps.size()), 0, seconds, 0, t.steps.empty()});
  // Without the warm-up 9, 6, 5, 5, 1: five steps, one goes at either end.
  const auto central = central_steps(t);
  REQUIRE(central.size() == 3);
  CHECK(central[0].step == 2);
  CHECK(central[2].step == 4);
  // The number that stands for all is their median, here as in learn and history; rows are of the mean of these three.
  const auto c = compare(t, t);
  CHECK(median_step_seconds(t) == 5);
  CHECK((c.predicted_step == 5 && c.measured_step == 5));
  CHECK(c.measured_rows == Approx((6.0 + 5 + 5) / 3));
  double measured = 0;
  for (const auto& r : c.rows) measured += r.measured;
  CHECK(measured == Approx(c.measured_rows));
}

TEST_CASE("a trace of the first steps alone is compared by them") {
  auto t = trace("measured", 4, 0, 6);
  CHECK(only_warms_up(t));
  t.steps.front().warm_up = true;
  CHECK(only_warms_up(t));
  CHECK(compare(t, t).measured_step == Approx(6));
  t.steps.push_back({1, 6, 12, 0, false});
  CHECK_FALSE(only_warms_up(t));
  CHECK_FALSE(only_warms_up(trace("simulated", 3, 0, 5)));
}

TEST_CASE("ranks that one trace lacks are left out, missing instructions counted") {
  auto folded = trace("simulated", 3, 0, 5);
  folded.ranks.pop_back();
  auto measured = trace("measured", 4, 0, 6);
  measured.ranks[0].kinds.push_back(computing(kSum, plan::BodyKind::Update, 3));
  const auto c = compare(folded, measured);
  CHECK(row(c, "MatMul").measured == Approx(4));
  CHECK(c.only_measured == 1);
  CHECK(c.only_predicted == 0);
}

TEST_CASE("traces of different programs are not compared") {
  const auto t = trace("simulated", 3, 0, 5);
  auto other = t;
  other.model_hash = "4567";
  CHECK_THROWS_WITH(compare(t, other), contains("different models"));
  other = t;
  other.plan = "dp=2,micro_batch=1";
  CHECK_THROWS_WITH(compare(t, other), contains("dp=2,micro_batch=1"));
  other = t;
  other.batch = 8;
  other.model_hash = "4567";  // which is of the batch, too
  CHECK_THROWS_WITH(compare(t, other), contains("different batches"));
  other = t;
  other.framework = "megatron-core";
  CHECK(compare(t, other).only_predicted == 0);  // an earlier version's trace does not say what ran it
  auto own = t;
  own.framework = "rehearse";
  other.model_hash = "4567";  // which frameworks reckon each in its way
  CHECK_THROWS_WITH(compare(own, other), contains("of different frameworks (rehearse and megatron-core)") && contains("side by side"));
  other = t;
  other.ranks.clear();
  CHECK_THROWS_AS(compare(t, other), BadInput);
  other = t;
  other.steps.clear();
  CHECK_THROWS_AS(compare(t, other), BadInput);
}

}  // namespace
}  // namespace rehearsal::traces
