// What boards draw, and how they slow down where they may not.

#include "costmodel/power.hpp"

#include "platforms/devices.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

Constants sample() {
  Constants c = published_constants().values;
  c.set(Coefficient::PowerBase, 0.4);
  c.set(Coefficient::PowerMatrix, 0.6);
  c.set(Coefficient::PowerMemory, 0.4);
  c.set(Coefficient::ClockFloor, 0.512);
  return c;
}

platforms::Device sample_device() {
  auto device = platforms::load_device("A100-SXM4-80GB");
  device.idle_power = Watts(50);
  device.busy_power = Watts(400);
  return device;
}

TEST_CASE("power follows what a device does, and a limit slows its clock") {
  const auto device = sample_device();
  const auto c = sample();
  // 50 + 350 * (0.4 + 0.6*0.5 + 0.4*0.25) = 50 + 350*0.8 = 330 W.
  CHECK(device_power(device, {0.5, 0.25}, 0, c).watts == Approx(330));
  CHECK(device_power(device, {0.5, 0.25}, 0, c).slowdown == Approx(1));
  // A limit of 225 W in place of the board's own of 400 W: 1/330^6 - 1/400^6 + 1/225^6 = 8.2375e-15 = 1/222.5^6, so 222.5 W, which leave
  // 172.5 of 280 W: the clock falls to the cube root of 0.6161, 0.8509.
  const auto limited = device_power(device, {0.5, 0.25}, 225, c);
  CHECK(limited.watts == Approx(222.5).epsilon(1e-3));
  CHECK(limited.slowdown == Approx(1 / 0.8509).epsilon(1e-3));
  // The board's own limit, and a higher one, change nothing.
  for (const double limit : {400.0, 1000.0}) {
    CHECK(device_power(device, {0.5, 0.25}, limit, c).watts == Approx(330));
    CHECK(device_power(device, {0.5, 0.25}, limit, c).slowdown == Approx(1));
  }
}

TEST_CASE("below the least voltage the clock falls with the power, and not below its least") {
  const auto c = sample();
  CHECK(clock_under(1.5, c) == Approx(1));
  CHECK(clock_under(0.512, c) == Approx(0.8));
  CHECK(clock_under(0.256, c) == Approx(0.4));
  // 60 W leave 10 of 280, which no board reaches: 0.3 of the clock, at 0.512 * 0.3 / 0.8 = 0.192 of the dynamic power.
  const auto least = device_power(sample_device(), {0.5, 0.25}, 60, c);
  CHECK(least.slowdown == Approx(1 / 0.3));
  CHECK(least.at_least);
  CHECK_FALSE(device_power(sample_device(), {0.5, 0.25}, 225, c).at_least);
  CHECK(least.watts == Approx(50 + 280 * 0.192));
}

TEST_CASE("at a lower clock arithmetic takes longer and draws less, and bytes draw what they drew") {
  const auto c = sample();
  for (const double share : {0.2, 0.5, 0.7, 1.0}) CHECK(dynamic_power_at(clock_under(share, c), c) == Approx(share));
  CHECK(power_at(sample_device(), {0.5, 0.25}, 1, c) == Approx(330));
  // At 0.9: 0.729 * (0.4 + 0.6*0.5/0.9) + 0.4*0.25 = 0.6346 of 350 W.
  CHECK(power_at(sample_device(), {0.5, 0.25}, 0.9, c) == Approx(50 + 350 * 0.6346).epsilon(1e-4));
}

TEST_CASE("graphics memory draws its energy per bit at full clock, used or not") {
  auto device = sample_device();
  CHECK(resting_power(device) == Approx(50));
  device.memory_type = "GDDR6";
  device.memory_bandwidth = BytesPerSecond(500e9);
  // 500 GB/s * 8 bits * 7.5 pJ = 30 W.
  CHECK(resting_power(device) == Approx(80));
}

TEST_CASE("a node draws its devices and the rest") {
  Constants c = published_constants().values;
  c.set(Coefficient::HostPower8, 1600);
  CHECK(node_power(300, 4, c) == Approx(4 * 300 + 1600 * 4 / 8.0));
}

}  // namespace
}  // namespace rehearsal::costmodel
