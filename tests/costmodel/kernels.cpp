// What the datasheet alone says of a kernel.
#include "costmodel/cost_model.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

/// 1 TFLOP/s in f32, 8 in bf16, 1 TB/s.
platforms::Device chip() {
  platforms::Device device;
  device.name = "chip";
  device.peaks.emplace("f32", FlopsPerSecond(1e12));
  device.peaks.emplace("bf16", FlopsPerSecond(8e12));
  device.memory_bandwidth = BytesPerSecond(1e12);
  return device;
}

/// A product of 1 TFLOP over 1 MB.
Seconds product(const CostModel& model, DType dtype) {
  return model.kernel({"MatMul", "", "", graph::CostFamily::MatMul, {Flops(1e12), Bytes(1e6)}, dtype, 1}).seconds;
}

TEST_CASE("products that stay in f32 in a run of 16 bits have the peak of f32") {
  const CostModel wide(chip(), {}, profile("rehearse"), "f32"), narrow(chip(), {}, profile("rehearse"), "bf16");
  // 1e12 / (0.6 of 1e12) against 1e12 / (0.6 of 8e12), and the same launch.
  const double launch = product(wide, DType::F32).value() - 1 / 0.6;
  CHECK(product(narrow, DType::BF16).value() == Approx(launch + 1 / (0.6 * 8)));
  CHECK(product(narrow, DType::F32).value() == Approx(launch + 1 / 0.6));
}

}  // namespace
}  // namespace rehearsal::costmodel
