#include <cmath>

#include "costmodel/accelerator.hpp"
#include "costmodel/matmul_tiles.hpp"
#include "costmodel/power.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

TEST_CASE("a full wave of the largest tile costs what it computes") {
  // 108 tiles of 256 x 128 on 108 multiprocessors: one wave, 108 * 2*256*128 * (1024 + 320).
  const double one_wave = 108.0 * 2 * 256 * 128 * (1024 + 320);
  CHECK(quantised_flops({256, 128 * 108, 1024, 1}, 108, kDenseLoopOverhead) == Approx(one_wave));
  // One column of tiles more. 256 x 128: 109 tiles, 1.009 waves, rounded up to 1.5. 128 x 128: 218 tiles, 2.5 waves of half the size,
  // penalty 1.08: 2.5/2 * 1.08 = 1.35 of a wave, which is less.
  CHECK(quantised_flops({256, 128 * 109, 1024, 1}, 108, kDenseLoopOverhead) == Approx(1.35 * one_wave));
}

TEST_CASE("few tiles with a long sum are split along it") {
  // 256 x 128 x 65536 is one tile of 108 multiprocessors: half a wave at least. Split 64 times: 64 tiles, 0.59 waves, rounded up to 1:
  // 1 * 108 * 2*256*128 * (65536/64 + 320) * 1.04. Smaller splits leave most multiprocessors idle.
  const double split = 108.0 * 2 * 256 * 128 * (1024 + 320) * 1.04, whole = 0.5 * 108 * 2 * 256 * 128 * (65536 + 320);
  const double best = quantised_flops({256, 128, 65536, 1}, 108, kDenseLoopOverhead);
  CHECK(best <= split);
  CHECK(best < whole / 10);
}

TEST_CASE("matrix units load 16 bytes at once") {
  // Two bytes an element: multiples of 8. 150 becomes 152, m stays.
  const auto shape = aligned({7, 150, 13, 1}, 2, true);
  CHECK(shape.m == 7);
  CHECK(shape.n == 152);
  CHECK(shape.k == 16);
  CHECK(aligned({7, 150, 13, 1}, 2, false).n == 150);
}

TEST_CASE("a row takes the longer of arithmetic and traffic, and a gap per launch") {
  RateTable rates;
  rates.flops_per_second.fill(1e12);
  rates.bytes_per_second.fill(1e9);
  rates.gap = 1e-3;
  // max(4e9/1e12, 2e6/1e9) = 4 ms, 3 executions of 2 launches: 3 * (4 + 2*1) ms = 18 ms.
  CHECK(time_of({RateKind::Matmul, 4e9, 2e6, 3, 2}, rates) == Approx(0.018));
  // max(1e9/1e12, 2e6/1e9) = 2 ms; element-wise rows count as memory time without the gap.
  const auto sum = times_of({{RateKind::Matmul, 4e9, 2e6, 3, 2}, {RateKind::Elementwise, 0, 2e6, 1, 1}}, rates);
  CHECK(sum.all == Approx(0.021));
  CHECK(sum.matmul == Approx(0.018));
  CHECK(sum.matrix == Approx(0.012));
  CHECK(sum.memory == Approx(0.002));
  CHECK(sum.launches == Approx(7));
}

TEST_CASE("a convolution hides neither arithmetic nor traffic fully") {
  RateTable rates;
  rates.flops_per_second.fill(1e9);
  rates.bytes_per_second.fill(1e9);
  // 3 s of arithmetic and 4 s of traffic: the cube root of 27 + 64
  CHECK(time_of({RateKind::Convolution, 3e9, 4e9, 1, 1}, rates) == Approx(std::cbrt(91.0)));
  CHECK(time_of({RateKind::Matmul, 3e9, 4e9, 1, 1}, rates) == Approx(4));
  CHECK(time_of({RateKind::Convolution, 0, 4e9, 1, 1}, rates) == Approx(4));
}

TEST_CASE("precisions fall back to what a device has") {
  const auto v100 = platforms::load_device("V100-SXM2-16GB"), p100 = platforms::load_device("P100-SXM2-16GB");
  CHECK(precision_of(v100, "amp").arithmetic == Arithmetic::Half);
  CHECK(precision_of(v100, "amp").autocast);
  CHECK(precision_of(v100, "tf32").arithmetic == Arithmetic::F32);  // Volta has none
  CHECK(precision_of(v100, "fp8").arithmetic == Arithmetic::Half);
  // Pascal stores 16 bits and computes in fp32: no matrix units.
  CHECK(precision_of(p100, "fp16").arithmetic == Arithmetic::F32);
  CHECK(precision_of(p100, "fp16").element_bytes == 2);
  CHECK(precision_of(p100, "fp16").peak == Approx(10.6e12));
}

TEST_CASE("power follows what a device does, and a limit slows its clock") {
  auto device = platforms::load_device("A100-SXM4-80GB");
  device.idle_power = Watts(50);
  device.busy_power = Watts(400);
  Constants c = published_constants().values;
  c.set(Coefficient::PowerBase, 0.4);
  c.set(Coefficient::PowerMatrix, 0.6);
  c.set(Coefficient::PowerMemory, 0.4);
  c.set(Coefficient::ClockFloor, 0.5);
  // 50 + 350 * (0.4 + 0.6*0.5 + 0.4*0.25) = 50 + 350*0.8 = 330 W.
  CHECK(device_power(device, {0.5, 0.25}, 0, c).watts == Approx(330));
  CHECK(device_power(device, {0.5, 0.25}, 0, c).slowdown == Approx(1));
  // 225 W leave (225-50)/(330-50) = 0.625 of the dynamic power: the clock falls to its cube root, 0.855.
  const auto limited = device_power(device, {0.5, 0.25}, 225, c);
  CHECK(limited.watts == Approx(225));
  CHECK(limited.slowdown == Approx(1 / 0.8549879733));
}

TEST_CASE("a node draws its devices and the rest") {
  Constants c = published_constants().values;
  c.set(Coefficient::HostPower8, 1600);
  CHECK(node_power(300, 4, c) == Approx(4 * 300 + 1600 * 4 / 8.0));
}

}  // namespace
}  // namespace rehearsal::costmodel
