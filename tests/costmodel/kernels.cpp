// What the datasheet alone says of a kernel.
#include "costmodel/alignment.hpp"
#include "costmodel/constants.hpp"
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
  device.matrix_units = {"bf16"};
  device.memory_bandwidth = BytesPerSecond(1e12);
  return device;
}

/// A product of 1 TFLOP over 1 MB.
Seconds product(const CostModel& model, DType dtype) {
  return model.kernel({"MatMul", "", "", graph::CostFamily::MatMul, {Flops(1e12), Bytes(1e6)}, dtype, 1}).seconds;
}

using C = Coefficient;
double share(Coefficient c) { return published_constants().values[c]; }

TEST_CASE("products that stay in f32 in a run of 16 bits have the rate of f32") {
  const CostModel wide(chip(), {}, "f32"), narrow(chip(), {}, "bf16");
  // 1e12 / (share of 1e12) against 1e12 / (share of 8e12), and the same gap between kernels, which our own execution issues ahead.
  const double gap = share(C::GapCaptured) * 1e-6;
  CHECK(product(wide, DType::F32).value() == Approx(gap + 1 / share(C::MatmulF32)));
  CHECK(product(narrow, DType::BF16).value() == Approx(gap + 1 / (share(C::Matmul16bitOther) * 8)));
  CHECK(product(narrow, DType::F32).value() == Approx(gap + 1 / share(C::MatmulF32)));
  auto all = chip();
  for (const char* key : {"tf32", "f16", "fp8", "fp4"}) all.peaks.emplace(key, FlopsPerSecond(8e12)), all.matrix_units.emplace_back(key);
  for (const char* key : {"f16", "fp8", "fp4"}) {
    INFO(key);
    CHECK(product(CostModel(all, {}, key), DType::F32) == product(wide, DType::F32));
  }
  // TF32 is how products of f32 are computed there.
  CHECK(product(CostModel(all, {}, "tf32"), DType::F32).value() < 0.5 * product(wide, DType::F32).value());
}

TEST_CASE("the rows of a product begin where its sizes let them") {
  const auto alignment = [](const char* signature) { return row_alignment(signature, DType::BF16); };
  CHECK(alignment("trans_b=1|bf16[8,16]|bf16[48,16]>|bf16[8,48]>") == 16);  // rows of 32 and of 96 bytes
  CHECK(alignment("|bf16[8,16]|bf16[16,52]>|bf16[8,52]>") == 8);            // of 104 = 8 x 13
  CHECK(alignment("|bf16[8,16]|bf16[16,50]>|bf16[8,50]>") == 4);            // of 100 = 4 x 25
  CHECK(alignment("|bf16[8,16]|bf16[16,7]>|bf16[8,7]>") == 2);              // of 14
  CHECK(alignment("axes=bf16[1,7]|bf16[8,16]|bf16[16]|f32[8,7]>") == 16);   // an attribute, a single row, another type
  CHECK(alignment("") == 16);
}

TEST_CASE("products in 16 bits whose rows lie at odd places reach a part of the rate") {
  const CostModel model(chip(), {}, "bf16");
  const auto product_of = [](const std::string& columns, DType dtype) {
    const auto type = std::string(name(dtype));
    return KernelCase{
        "MatMul", "", "|" + type + "[8,16]|" + type + "[16," + columns + "]>", graph::CostFamily::MatMul, {Flops(1e15), Bytes(1e6)},
        dtype,    1};
  };
  const auto seconds = [&](const char* columns, DType dtype) { return model.kernel(product_of(columns, dtype)).seconds.value(); };
  // 1e15 / (share of 8e12) is more than a hundred seconds: the gap of a microsecond does not count.
  const double whole = seconds("48", DType::BF16);
  CHECK(seconds("7", DType::BF16) == Approx(whole / 0.22));
  CHECK(seconds("50", DType::BF16) == Approx(whole / 0.38));
  CHECK(seconds("52", DType::BF16) == Approx(whole / 0.62));
  CHECK(seconds("7", DType::F32) == seconds("48", DType::F32));
  auto processor = chip();
  processor.kind = platforms::DeviceKind::Cpu;
  const CostModel of_processor(processor, {}, "bf16");
  CHECK(of_processor.kernel(product_of("7", DType::BF16)).seconds == of_processor.kernel(product_of("48", DType::BF16)).seconds);
}

TEST_CASE("what is bound by memory takes the bytes at the share of bandwidth that the device's generation reaches") {
  auto device = chip();
  device.generation = "hopper";
  const CostModel model(device, {}, "f32");
  const KernelCase relu{"Relu", "", "", graph::CostFamily::Elementwise, {Flops(1e9), Bytes(2e9)}, DType::F32, 1};
  CHECK(model.kernel(relu).seconds.value() == Approx(share(C::GapCaptured) * 1e-6 + 2e-3 / share(C::MemoryHopper)));
}

TEST_CASE("what a datasheet says of an accelerator that no published run is of is half as sure again") {
  auto device = chip();
  const auto error_of = [&] {
    return CostModel(device, {}, "bf16")
        .kernel({"MatMul", "", "", graph::CostFamily::MatMul, {Flops(1e15), Bytes(1e6)}, DType::BF16, 1})
        .log_error;
  };
  const double unseen = error_of();
  device.name = "A100-SXM4-80GB";
  CHECK(unseen == Approx(1.5 * error_of()));
  // Nor is any run of a processor; there, the families' own errors are what its datasheet is worth.
  device.kind = platforms::DeviceKind::Cpu;
  const double processor = error_of();
  device.name = "another";
  CHECK(error_of() == processor);
}

TEST_CASE("a convolution by tiles takes what is left of its multiplications, or its bytes") {
  auto device = chip();
  device.kind = platforms::DeviceKind::Cpu;
  const CostModel model(device, {}, "f32");
  const auto seconds = [&](const char* implementation, double bytes) {
    return model.kernel({"Conv", implementation, "", graph::CostFamily::Convolution, {Flops(1e15), Bytes(bytes)}, DType::F32, 1})
        .seconds.value();
  };
  // 1e15 FLOP at 1 TFLOP/s of one core are 1000 s and more, beside which a launch does not count.
  CHECK(seconds("onednn:convolution", 1e6) > 1000);
  CHECK(seconds("native:winograd", 1e6) == Approx(seconds("onednn:convolution", 1e6) / 2.7));
  CHECK(seconds("widened:native:winograd", 1e6) == seconds("native:winograd", 1e6));
  CHECK(seconds("native:winograd", 1e17) == Approx(seconds("onednn:convolution", 1e17)));  // 1e17 bytes at 1 TB/s: longer than either
}

TEST_CASE("a kernel of another version of a library is as the first one's where it was not measured itself") {
  for (const auto* own : {"onednn:matmul", "native:winograd", "reference:any", "table", "widened:onednn:matmul", ":winograd", ""})
    CHECK_FALSE(names_version(own));
  for (const auto& [versioned, common] :
       {std::pair{"onednn3.2:matmul", "onednn:matmul"}, {"widened:onednn2.7:convolution", "widened:onednn:convolution"}}) {
    CHECK(names_version(versioned));
    CHECK(without_version(versioned) == common);
  }
  const auto of = [](const char* implementation, const char* signature) {
    return KernelCase{"MatMul", implementation, signature, graph::CostFamily::MatMul, {Flops(1e9), Bytes(8)}, DType::F32, 1};
  };
  Calibration c;
  c.fits.push_back({"MatMul", "onednn:matmul", graph::CostFamily::MatMul, DType::F32, 1, FlopsPerSecond(1e9), {}, {}, 0.1, 9});
  for (const auto& [implementation, seconds] : {std::pair{"onednn:matmul", 0.5}, {"onednn3.2:matmul", 0.25}}) {
    auto& sample = c.samples.emplace_back();
    sample.kernel = of(implementation, implementation == std::string("onednn:matmul") ? "first" : "second");
    sample.cpu_median = Seconds(seconds);
  }
  const CostModel model(chip(), c, "f32");
  const auto seconds = [&](const char* signature) { return model.kernel(of("onednn3.2:matmul", signature)).seconds.value(); };
  CHECK(seconds("second") == Approx(0.25));  // its own
  CHECK(seconds("first") == Approx(0.5));
  CHECK(seconds("neither") == Approx(1));  // 1e9 FLOP at 1e9 a second, as all products of the first
}

TEST_CASE("a processor has as many cores as threads, and its other types in proportion to their peaks") {
  auto device = chip();
  device.kind = platforms::DeviceKind::Cpu;
  device.peaks.emplace("f64", FlopsPerSecond(0.5e12));
  const double launch = device.launch_overhead.value.value();
  const auto seconds = [&](const char* key, DType dtype, int threads) {
    const CostModel model(device, {}, key);
    return model.kernel({"MatMul", "", "", graph::CostFamily::MatMul, {Flops(1e12), Bytes(1e6)}, dtype, threads}).seconds.value() - launch;
  };
  CHECK(seconds("f32", DType::F32, 1) == Approx(1 / share(C::MatmulCpu)));
  CHECK(seconds("f32", DType::F32, 4) == Approx(1 / share(C::MatmulCpu) / 4));
  CHECK(seconds("f64", DType::F64, 1) == Approx(2 / share(C::MatmulCpu)));
  CHECK(seconds("bf16", DType::BF16, 1) == Approx(1 / share(C::MatmulCpu) / 8));
  // Of a socket the peak is that of its 20 cores: ten threads have half of it, 40 are on two.
  device.compute_units = 20;
  CHECK(seconds("f32", DType::F32, 10) == Approx(2 / share(C::MatmulCpu)));
  CHECK(seconds("f32", DType::F32, 20) == Approx(1 / share(C::MatmulCpu)));
  CHECK(seconds("f32", DType::F32, 40) == Approx(0.5 / share(C::MatmulCpu)));
}

}  // namespace
}  // namespace rehearsal::costmodel
