// The product's own published records, played instruction by instruction: as good as the closed form, which tests/validation/as_ever.cpp
// asks.
#include "tests/catch.hpp"
#include "tests/validation/own_records.hpp"

using namespace rehearsal;
using namespace rehearsal::validation;

TEST_CASE("published records are answered by playing as they are by the closed form") {
  const auto records = own_records();
  const auto closed = answers_to(records), played = answers_to(records, [] { return predict::closed_form_evaluator(); });
  const auto errors = summarise(closed, records).all, when_played = summarise(played, records).all;
  CHECK(when_played.refused == 0);
  CHECK(when_played.mean <= errors.mean + 0.01);
  CHECK(when_played.median <= errors.median + 0.01);
  for (std::size_t n = 0; n < records.size(); ++n) {
    const auto a = closed[n].predicted.find("iteration_time_s"), b = played[n].predicted.find("iteration_time_s");
    if (a == closed[n].predicted.end() || b == played[n].predicted.end()) continue;
    INFO(records[n].id);
    CHECK(b->second.value == Approx(a->second.value).epsilon(0.10));
  }
}
