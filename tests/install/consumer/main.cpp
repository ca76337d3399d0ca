// Another project's program: it asks for a cost and links the cost model alone.
#include <cmath>
#include <cstdio>

#include "costmodel/interval.hpp"
#include "costmodel/money.hpp"
#include "platforms/catalog.hpp"

using namespace rehearsal;

int main() {
  // Two kernels of one mechanism, 2 ms and 3 ms, 10 % unsure each: 5 ms, 10 % unsure, low end 5 · exp(-1.645 · 0.1) = 4.24 ms.
  costmodel::Total step;
  step.add({Seconds(2e-3), costmodel::Mechanism::MatrixRate, 0.1, costmodel::Evidence::Fitted});
  step.add({Seconds(3e-3), costmodel::Mechanism::MatrixRate, 0.1, costmodel::Evidence::Fitted});
  const costmodel::Interval seconds = step.interval();

  const platforms::Platform platform = platforms::load("dgx-a100");
  const costmodel::JobCost cost = costmodel::job_cost(platform, 8, step.seconds(), Joules(8 * 400 * 5e-3));
  std::printf("%g s [%g, %g], %g J\n", seconds.value, seconds.low, seconds.high, cost.energy.value());
  return std::abs(seconds.low / 4.2417e-3 - 1) < 1e-3 && cost.energy.value() >= 16 ? 0 : 1;  // 8 devices · 400 W · 5 ms = 16 J
}
