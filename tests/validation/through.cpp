// The product's own published records, through the closed form and through play: predictions stay as good as docs/accuracy.md says.
#include <sstream>

#include "tests/catch.hpp"
#include "validation/embedded.hpp"
#include "validation/validate.hpp"

using namespace rehearsal;
using namespace rehearsal::validation;

namespace {

std::vector<Record> own_records() {
  std::istringstream in{std::string(embedded_records())};
  return read_records(in, "validation/records/published.jsonl").records;
}

std::vector<Verdict> through(const std::vector<Record>& records, const PlayerOf& player) {
  Progress silent;
  return validate(records, costmodel::published_constants(), {}, silent, player);
}

}  // namespace

TEST_CASE("published records are answered as well as ever, by the closed form and by playing") {
  const auto records = own_records();
  REQUIRE(records.size() > 100);
  const auto closed = through(records, {});
  const auto played_ones = through(records, [] { return predict::closed_form_evaluator(); });
  const auto errors = summarise(closed, records).all, played = summarise(played_ones, records).all;
  CHECK(errors.refused == 0);
  CHECK(errors.mean <= 0.105);
  CHECK(errors.median <= 0.07);
  CHECK(errors.held >= 0.85 * errors.answered);
  CHECK(played.refused == 0);
  CHECK(played.mean <= errors.mean + 0.01);
  CHECK(played.median <= errors.median + 0.01);
  for (std::size_t n = 0; n < records.size(); ++n) {
    const auto a = closed[n].predicted.find("iteration_time_s"), b = played_ones[n].predicted.find("iteration_time_s");
    if (a == closed[n].predicted.end() || b == played_ones[n].predicted.end()) continue;
    INFO(records[n].id);
    CHECK(b->second.value == Approx(a->second.value).epsilon(0.10));
  }
}
