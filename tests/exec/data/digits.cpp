// The 1797 handwritten digits that scikit-learn ships (UCI Optical Recognition of Handwritten Digits, test part), learned by two ranks.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/process.hpp"

TEST_CASE("two ranks learn the digits to 95 % accuracy") {
  const TemporaryFolder folder;
  const auto file = folder / "digits.npz";
  const auto script = folder / "digits.py";
  write_text(script,
             "import sklearn.datasets, numpy\n"
             "d = sklearn.datasets.load_digits()\n"
             "numpy.savez('" +
                 file + "', input=(d.data / 16).astype('float32'), target=d.target.astype('int64'))\n");
  const auto made = run_shell("/usr/bin/python3 " + script + " || python3 " + script);  // the system's package, else the user's
  if (made.status != 0) {
    WARN("skipped: Python's scikit-learn, which ships the digits, is not here");
    return;
  }
  const auto ended = run_shell(REHEARSAL_MPIRUN " -n 2 \"" REHEARSAL_TRAIN_DIGITS "\" " + file + " 150");
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const double loss = std::stod(ended.out);
  // A sample whose class is not the likeliest costs at least ln 2, so the share of wrong ones is at most loss / ln 2.
  CHECK(loss < 0.1);
  CHECK(1 - loss / std::log(2.0) > 0.95);
}
