// The product's own published records: predictions stay as good as docs/accuracy.md says.
#include "tests/catch.hpp"
#include "tests/validation/own_records.hpp"

using namespace rehearsal;
using namespace rehearsal::validation;

TEST_CASE("published records are answered as well as ever by the closed form") {
  const auto records = own_records();
  REQUIRE(records.size() > 100);
  const auto errors = summarise(answers_to(records), records).all;
  CHECK(errors.refused == 0);
  CHECK(errors.mean <= 0.105);
  CHECK(errors.median <= 0.07);
  CHECK(errors.held >= 0.85 * errors.answered);
}
