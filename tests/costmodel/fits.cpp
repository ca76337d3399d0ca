// What is fitted to measurements, and what the cost model makes of it: a sample of the kernel itself, else a fit, else the datasheet.
#include <cmath>

#include "costmodel/cost_model.hpp"
#include "costmodel/learning.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

KernelCase product(double flops, double bytes, int threads = 1) {
  const auto signature = std::to_string(flops) + "/" + std::to_string(bytes);
  return {"MatMul", "", signature, graph::CostFamily::MatMul, {Flops(flops), Bytes(bytes)}, DType::F32, threads};
}

Sample sample(const KernelCase& k, double seconds) {
  Sample s;
  s.kernel = k;
  s.count = 10;
  s.cpu_median = s.wall_median = Seconds(seconds);
  return s;
}

/// 100 GFLOP/s, 10 GB/s and 1 us.
double seconds_of(const KernelCase& k) { return k.work.flops.value() / 100e9 + k.work.bytes.value() / 10e9 + 1e-6; }

const std::vector<KernelCase> kProducts{product(1e6, 1e4), product(1e8, 1e5), product(1e7, 1e6), product(1e9, 1e6), product(1e6, 1e6)};

Calibration measured(const std::vector<KernelCase>& kernels) {
  Calibration c;
  for (const auto& k : kernels) c.samples.push_back(sample(k, seconds_of(k)));
  return c;
}

/// The fit of an operator, or with "" of its family; nullptr where there is none.
const FamilyFit* fit_of(const Calibration& c, const std::string& op) {
  for (const auto& f : c.fits)
    if (f.op == op) return &f;
  return nullptr;
}

platforms::Device chip() {
  platforms::Device device;
  device.name = "chip";
  device.peaks.emplace("f32", FlopsPerSecond(1e12));
  device.memory_bandwidth = BytesPerSecond(300e9);
  return device;
}

TEST_CASE("a device that is not here has the kernels that were measured on its like, whatever they are called") {
  auto named = kProducts;
  for (auto& k : named) k.implementation = "library:product";
  auto c = measured(named);
  // The same with rounded factors, ten times as fast: 1 s, where the others take 10 s and more.
  auto rounding = named[3];
  rounding.implementation = "library:product-tf32";
  c.samples.push_back(sample(rounding, 1.0));
  fit(c);
  auto asked = named[3];
  asked.implementation = "table";
  CHECK(CostModel(chip(), c, "f32").kernel(asked).seconds.value() == Approx(seconds_of(named[3])));
  CHECK(CostModel(chip(), c, "f32").kernel(asked).evidence == Evidence::Exact);
  CHECK(CostModel(chip(), c, "tf32").kernel(asked).seconds.value() == Approx(1.0));
  // Of a size that nobody measured: by the fit of its like, and with rounded factors, of which one sample fits nothing, by the datasheet.
  auto other = product(3e8, 3e5);
  other.implementation = "table";
  CHECK(CostModel(chip(), c, "f32").kernel(other).evidence == Evidence::Fitted);
  CHECK(CostModel(chip(), c, "f32").kernel(other).seconds.value() == Approx(seconds_of(other)));
  CHECK(CostModel(chip(), c, "tf32").kernel(other).evidence == Evidence::Datasheet);
}

TEST_CASE("convolutions by tiles, and sums of one channel, say nothing of those that multiply every tap") {
  for (const auto& [ending, factor] : {std::pair{":winograd", 0.5}, std::pair{":depthwise", 3.0}}) {
    auto named = kProducts;
    for (auto& k : named) k.implementation = "onednn:convolution";
    auto c = measured(named);
    for (auto k : named) {
      k.implementation = std::string("native") + ending;
      c.samples.push_back(sample(k, seconds_of(k) * factor));
    }
    fit(c);
    // Of another operator that nobody measured: by the fit of its family, as whichever kind of kernel it has.
    auto other = product(3e8, 3e5);
    other.op = "Another";
    other.implementation = "another:kernel";
    CHECK(CostModel(chip(), c, "f32").kernel(other).seconds.value() == Approx(seconds_of(other)));
    other.implementation = std::string("another") + ending;
    CHECK(CostModel(chip(), c, "f32").kernel(other).seconds.value() == Approx(seconds_of(other) * factor));
  }
}

TEST_CASE("a product of an odd size that a GPU was slow with says nothing of even ones") {
  auto c = measured(kProducts);
  c.context.items[std::string(kGpuItem)] = "chip";
  for (auto& s : c.samples) s.kernel.dtype = DType::BF16;
  // 1e9 FLOP and 1e6 bytes, rows of 14 bytes: 22 % of 100 GFLOP/s.
  KernelCase odd = c.samples[3].kernel;
  odd.signature = "|bf16[8,16]|bf16[16,7]>|bf16[8,7]>";
  c.samples.push_back(sample(odd, 1e9 / (0.22 * 100e9) + 1e6 / 10e9 + 1e-6));
  fit(c);
  CHECK(fit_of(c, "MatMul")->flop_rate.value() == Approx(100e9));
  CHECK(fit_of(c, "MatMul")->log_error == Approx(0.03));
}

TEST_CASE("rates and overhead are found again in what was made with them") {
  auto c = measured(kProducts);
  fit(c);
  for (const auto* op : {"MatMul", ""}) {
    INFO("fit of '" << op << "'");
    const auto* f = fit_of(c, op);
    REQUIRE(f != nullptr);
    CHECK(f->flop_rate.value() == Approx(100e9));
    CHECK(f->byte_rate.value() == Approx(10e9));
    CHECK(f->overhead.value() == Approx(1e-6));
    CHECK(f->samples == 5);
    CHECK(f->log_error == 0.03);  // no fit is surer
  }
}

TEST_CASE("a term that would have to be negative is left out") {
  Calibration c;
  for (const auto& k : kProducts) c.samples.push_back(sample(k, 5e-6));  // takes as long whatever there is to do
  fit(c);
  const auto* f = fit_of(c, "MatMul");
  REQUIRE(f != nullptr);
  CHECK(f->flop_rate.value() == 0);
  CHECK(f->byte_rate.value() == 0);
  CHECK(f->overhead.value() == Approx(5e-6));
}

TEST_CASE("one measurement that was disturbed hardly moves the others") {
  auto c = measured({product(1e6, 1e4), product(2e6, 1e4), product(1e8, 1e5), product(2e8, 1e5), product(1e7, 1e6), product(2e7, 1e6),
                     product(1e9, 1e6), product(2e9, 1e6), product(1e6, 1e6), product(1e6, 2e6)});
  c.samples[3].cpu_median = Seconds(1.5 * seconds_of(c.samples[3].kernel));
  fit(c);
  for (const auto& s : c.samples) {
    if (&s == &c.samples[3]) continue;
    INFO(s.kernel.signature);
    auto unknown = s.kernel;
    unknown.signature = "";
    CHECK(CostModel(chip(), c, "f32").kernel(unknown).seconds.value() == Approx(seconds_of(s.kernel)).epsilon(0.12));
  }
}

TEST_CASE("the error of a fit is what it leaves of few points") {
  // One kernel, eight times: e^0.1 and e^-0.1 of a second by turns. Least squares of relative errors say cosh 0.1 / cosh 0.2 = 0.98523,
  // whose logarithm is -0.01488: left are 0.11488 and 0.08512, mean square 0.010221. Three terms of eight points: over 5/8.
  Calibration c;
  for (int n = 0; n < 8; ++n) {
    c.samples.push_back(sample(product(1e9, 1e6), std::exp(n % 2 == 0 ? 0.1 : -0.1)));
    c.samples.back().kernel.signature += std::to_string(n);
  }
  fit(c);
  const auto* f = fit_of(c, "MatMul");
  REQUIRE(f != nullptr);
  CHECK(f->log_error == Approx(std::sqrt(0.0102213 / 0.625)).epsilon(1e-4));
  const auto kernel = CostModel(chip(), c, "f32").kernel(product(1e9, 1e6));
  CHECK(kernel.seconds.value() == Approx(std::cosh(0.1) / std::cosh(0.2)));
  CHECK(kernel.evidence == Evidence::Fitted);
}

TEST_CASE("an operator's fit wants three measurements, a family's two") {
  auto c = measured({kProducts[0], kProducts[1]});
  fit(c);
  CHECK(fit_of(c, "MatMul") == nullptr);
  CHECK(fit_of(c, "") != nullptr);
  c = measured({kProducts[0]});
  fit(c);
  CHECK(c.fits.empty());
  c = measured({kProducts[0], kProducts[1], kProducts[2]});
  c.samples[2].cpu_median = Seconds(0);  // was not measured
  fit(c);
  CHECK(fit_of(c, "MatMul") == nullptr);
}

TEST_CASE("one thread is timed by its processor time, several by the clock") {
  for (const int threads : {1, 2}) {
    INFO(threads << " threads");
    Calibration c;
    for (const auto& k : kProducts) {
      auto s = sample(product(k.work.flops.value(), k.work.bytes.value(), threads), 1e-3);
      s.wall_median = Seconds(2e-3);  // somebody else was on the core half of the time
      c.samples.push_back(s);
    }
    fit(c);
    CHECK(fit_of(c, "MatMul")->overhead.value() == Approx(threads == 1 ? 1e-3 : 2e-3));
    CHECK(CostModel(chip(), c, "f32").kernel(c.samples[0].kernel).seconds.value() == Approx(threads == 1 ? 1e-3 : 2e-3));
  }
}

TEST_CASE("what was measured in training is fitted as benchmarks would have had it") {
  auto c = measured(kProducts);
  c.corrections.push_back({"op:MatMul", 0, 2.0, 0.1, 5});
  for (auto& s : c.samples) {
    s.from_training = true;
    s.wall_median = s.wall_median * 2;
  }
  fit(c);
  CHECK(fit_of(c, "MatMul")->flop_rate.value() == Approx(100e9));
  // Of a shape that was seen nothing is corrected again; of another the fit is.
  const CostModel model(chip(), c, "f32");
  CHECK(model.kernel(kProducts[1]).seconds.value() == Approx(2 * seconds_of(kProducts[1])));
  CHECK(model.kernel(product(5e8, 1e6)).seconds.value() == Approx(2 * seconds_of(product(5e8, 1e6))));
}

TEST_CASE("a sample is as sure as its spread and its repetitions make it, up to four of them") {
  const auto error_of = [](double spread, std::int64_t count) {
    auto c = measured({kProducts[0]});
    c.samples[0].spread = spread, c.samples[0].count = count;
    const auto e = CostModel(chip(), c, "f32").kernel(kProducts[0]);
    CHECK(e.evidence == Evidence::Exact);
    CHECK(e.mechanism == Mechanism::MatrixRate);
    return e.log_error;
  };
  CHECK(error_of(0.2, 0) == Approx(0.2));
  CHECK(error_of(0.2, 1) == Approx(0.2));
  CHECK(error_of(0.2, 4) == Approx(0.1));
  CHECK(error_of(0.2, 100) == Approx(0.1));
  CHECK(error_of(0, 100) == 0.02);
}

TEST_CASE("corrections: an operator's before its family's, one of so many threads before one of any") {
  auto c = measured(kProducts);
  fit(c);
  const auto unseen = product(5e8, 2e6);
  const auto factor = [&] { return CostModel(chip(), c, "f32").kernel(unseen).seconds.value() / seconds_of(unseen); };
  CHECK(factor() == Approx(1));
  c.corrections.push_back({"family:matmul", 0, 1.25, 0.2, 3});
  CHECK(factor() == Approx(1.25));
  c.corrections.push_back({"op:MatMul", 0, 1.5, 0.2, 3});
  CHECK(factor() == Approx(1.5));
  c.corrections.push_back({"op:MatMul", 1, 2, 0.2, 3});
  CHECK(factor() == Approx(2));
  c.corrections.push_back({"op:MatMul", 2, 3, 0.2, 3});
  CHECK(factor() == Approx(2));
  CHECK(correction_for(c, unseen)->factor == 2);
}

TEST_CASE("a correction's error joins that of a sample, and takes the place of a larger one of a fit") {
  auto c = measured(kProducts);
  c.samples[0].spread = 0.3, c.samples[0].count = 1;
  fit(c);
  for (auto& f : c.fits) f.log_error = 0.5;
  c.corrections.push_back({"op:MatMul", 0, 1, 0.4, 3});
  const auto error_of = [&](const KernelCase& k) { return CostModel(chip(), c, "f32").kernel(k).log_error; };
  CHECK(error_of(kProducts[0]) == Approx(0.5));  // sqrt(0.3² + 0.4²)
  CHECK(error_of(product(5e8, 2e6)) == Approx(0.4));
  c.corrections[0].log_error = 0.01;
  CHECK(error_of(product(5e8, 2e6)) == Approx(0.03));  // the least
}

LinkSample message(const std::string& what, double bytes, double seconds) { return {what, 2, Bytes(bytes), Seconds(seconds), 0}; }

TEST_CASE("latency and bandwidth of messages, inside nodes and between them") {
  Calibration c;
  const CostModel nothing(chip(), c, "f32");
  CHECK(nothing.link_log_error() == 0.3);
  CHECK(nothing.link_evidence() == Evidence::Datasheet);
  CHECK(nothing.reduction_rate().value() == Approx(100e9));  // two reads and a write of 300 GB/s
  for (const double bytes : {1e3, 1e6, 1e8}) {
    c.link_samples.push_back(message("point-to-point", bytes, 2e-6 + bytes / 10e9));
    c.link_samples.push_back(message("ring", bytes, 1));
  }
  c.link_samples.push_back(message("between nodes", 1e6, 1e-3));
  fit(c);
  CHECK(c.link.latency.value() == Approx(2e-6));
  CHECK(c.link.bandwidth.value() == Approx(10e9));
  CHECK(c.link.log_error == 0.1);
  CHECK_FALSE(c.node_link.has_value());  // of one size nothing can be told apart
  c.link_samples.push_back(message("between nodes", 1e8, 11e-3));
  c.link_samples.push_back(message("between nodes", 0, 0));  // failed
  c.link.reduction = BytesPerSecond(7e9);
  fit(c);
  REQUIRE(c.node_link.has_value());
  CHECK(c.node_link->bandwidth.value() == Approx(9.9e9));  // 99 MB in 10 ms
  CHECK(c.node_link->latency.value() == Approx(1e-3 - 1e6 / 9.9e9));
  const CostModel model(chip(), c, "f32");
  CHECK(model.link_evidence() == Evidence::Fitted);
  CHECK(model.link_log_error() == 0.1);
  CHECK(model.reduction_rate().value() == 7e9);
}

TEST_CASE("what traces taught about messages and steps") {
  Calibration c;
  const CostModel untaught(chip(), c, "f32");
  CHECK(untaught.communication_factor() == 1);
  CHECK(untaught.composition_factor() == 1);
  CHECK(untaught.composition_log_error() == 0.1);
  c.corrections = {{"communication", 0, 1.5, 0.2, 3}, {"step", 0, 1.1, 0.05, 3}, {"communication", 1, 9, 9, 9}};
  const CostModel model(chip(), c, "f32");
  CHECK(model.communication_factor() == 1.5);
  CHECK(model.link_log_error() == 0.2);
  CHECK(model.composition_factor() == 1.1);
  CHECK(model.composition_log_error() == 0.05);
  CHECK(CostModel(chip(), measured(kProducts), "f32").composition_log_error() == 0.15);  // kernels are known, how they add up is not
}

TEST_CASE("copies to the host's memory cross the bus, or are copies within memory") {
  auto device = chip();
  CHECK(CostModel(device, {}, "f32").host_copy(Bytes(3e9)).seconds.value() == Approx(0.02));  // read and written at 300 GB/s
  device.host_bandwidth = BytesPerSecond(30e9);
  const auto copy = CostModel(device, {}, "f32").host_copy(Bytes(3e9));
  CHECK(copy.seconds.value() == Approx(0.1));
  CHECK(copy.mechanism == Mechanism::LinkBandwidth);
}

TEST_CASE("what bounds a kernel by the datasheet is said: arithmetic, memory or starting it") {
  auto device = chip();
  device.kind = platforms::DeviceKind::Cpu;
  device.launch_overhead = Seconds(1e-5);
  const CostModel model(device, {}, "f32");
  CHECK(model.kernel(product(1e12, 1e3)).mechanism == Mechanism::MatrixRate);
  CHECK(model.kernel(product(1e3, 1e10)).mechanism == Mechanism::MemoryRate);
  const auto tiny = model.kernel(product(1, 1));
  CHECK(tiny.mechanism == Mechanism::Launch);
  CHECK(tiny.log_error == 0.5);
  CHECK(tiny.seconds.value() == Approx(1e-5).epsilon(1e-3));
}

TEST_CASE("samples of one kernel merge, and their spread holds how far apart they were") {
  Calibration c;
  auto s = sample(kProducts[0], 1);
  s.from_training = true;
  s.spread = 0.1, s.count = 30;
  CHECK(merge_sample(c, s));
  s.wall_median = Seconds(std::exp(0.2));
  s.cpu_median = Seconds(0), s.count = 10;
  CHECK_FALSE(merge_sample(c, s));
  // The older one counts no more than the newer: half each. Spread² 0.1² + 0.5·0.5·0.2² = 0.02.
  REQUIRE(c.samples.size() == 1);
  CHECK(c.samples[0].wall_median.value() == Approx(std::exp(0.1)));
  CHECK(c.samples[0].spread == Approx(std::sqrt(0.02)));
  CHECK(c.samples[0].count == 40);
  CHECK(c.samples[0].cpu_median.value() == 1);  // what was not measured changes nothing
  auto failed = s;
  failed.wall_median = Seconds(0), failed.spread = std::sqrt(0.02);
  CHECK_FALSE(merge_sample(c, failed));
  CHECK(c.samples[0].wall_median.value() == Approx(std::exp(0.1)));
  CHECK(c.samples[0].spread == Approx(std::sqrt(0.02)));
  for (const auto change : {0, 1, 2, 3, 4}) {
    auto other = s;
    if (change == 0) other.kernel.op = "Gemm";
    if (change == 1) other.kernel.implementation = "another";
    if (change == 2) other.kernel.signature = "another";
    if (change == 3) other.kernel.dtype = DType::F64;
    if (change == 4) other.kernel.threads = 2;
    INFO("another kernel, " << change);
    CHECK(merge_sample(c, other));
  }
}

TEST_CASE("a mechanism's correction is drawn towards none while it rests on few steps") {
  // Four steps that took e^0.4: 0.4·4 / (4 + 4); error sqrt((4·0.01 + 4·0.04) / 8).
  Calibration c;
  merge_factor(c, "step", {0.4, 0.01, 4}, 0.2);
  REQUIRE(c.corrections.size() == 1);
  CHECK(c.corrections[0].factor == Approx(std::exp(0.2)));
  CHECK(c.corrections[0].log_error == Approx(std::sqrt(0.025)));
  CHECK(c.corrections[0].observations == 4);
  merge_factor(c, "step", {0.4, 0.01, 0}, 0.2);  // of no step there is nothing to learn
  CHECK(c.corrections[0].observations == 4);
  // Twelve more of e^0.8: mean 0.7 of sixteen, drawn to 0.7·16/20; variance 0.01 + (4·12/256)·0.4² = 0.04, error sqrt((16·0.04 + 4·0.04) /
  // 20).
  merge_factor(c, "step", {0.8, 0.01, 12}, 0.2);
  CHECK(c.corrections[0].factor == Approx(std::exp(0.56)));
  CHECK(c.corrections[0].log_error == Approx(0.2));
  CHECK(c.corrections[0].observations == 16);
  merge_factor(c, "communication", {0.1, 0, 1}, 0.2);
  CHECK(c.corrections.size() == 2);
}

}  // namespace
}  // namespace rehearsal::costmodel
