#include <cmath>

#include "costmodel/accelerator.hpp"
#include "costmodel/matmul_tiles.hpp"
#include "costmodel/product_kernels.hpp"
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
  // Element-wise rows are traffic alone: 2e6/1e9 = 2 ms and a gap.
  CHECK(time_of({RateKind::Elementwise, 0, 2e6, 1, 1}, rates) == Approx(0.003));
}

TEST_CASE("slow arithmetic needs the operands of a small tile less often") {
  // 64 products of 32 x 32 x 128 on 32 multiprocessors fill two waves of the tile 32 x 32, whose penalty of 3.6 becomes 1 + 2.6/4. A tile
  // of twice the size takes as many waves of twice the work at 1 + 1.4/4, which is more.
  const double waves = 2.0 * 32 * 2 * 32 * 32 * (128 + 12);
  CHECK(quantised_flops({32, 32, 128, 64}, 32, 12, 0.25) == Approx(1.65 * waves));
  // At the full penalty the larger tile is as good as any: 2 * 2.4 > 3.6.
  CHECK(quantised_flops({32, 32, 128, 64}, 32, 12) == Approx(3.6 * waves));
}

TEST_CASE("a host goes on while kernels wait, and the device waits where its queue is dry") {
  // Ten kernels of 5 us that take the host 2 us each: the first starts at 2, then none waits: 2 + 50.
  const LaunchQueue busy = LaunchQueue{2, 5, 7}.repeated(10);
  CHECK(busy.host == Approx(20));
  CHECK(busy.device == Approx(50));
  CHECK(busy.both == Approx(52));
  // Ten of 1 us: every one waits for the host, the last is issued at 20 and takes 1.
  const LaunchQueue dry = LaunchQueue{2, 1, 3}.repeated(10);
  CHECK(dry.both == Approx(21));
  // Long ones first: the host is done with the short ones (at 40) before the device has come to them: 52 + 10.
  CHECK(busy.then(dry).both == Approx(62));
  // Short ones first: they end at 21, the host issues the first long one at 22, the device runs 50 from there.
  CHECK(dry.then(busy).both == Approx(72));
  CHECK(LaunchQueue{2, 5, 7}.repeated(0.5).both == Approx(3.5));
}

TEST_CASE("rows are queued in their order") {
  RateTable rates;
  rates.flops_per_second.fill(1e12);
  rates.bytes_per_second.fill(1e9);
  rates.gap = 1e-3;
  rates.host = 2e-3;
  // Device: 8 ms of traffic and two gaps in two kernels of 5 ms each; then 3 kernels of a gap alone and 0 bytes, 1 ms each.
  const auto queue = queue_of({RateKind::Elementwise, 0, 8e6, 1, 2}, rates).then(queue_of({RateKind::Elementwise, 0, 0, 3, 1}, rates));
  CHECK(queue.device == Approx(0.013));
  CHECK(queue.host == Approx(0.010));
  // The first starts at 2, the second ends at 12; the host is done at 10, so nothing waits: 12 + 3.
  CHECK(queue.both == Approx(0.015));
}

TEST_CASE("large products run at the clock that the board's power leaves") {
  const auto& c = published_constants().values;
  const auto& megatron = *find_framework("megatron");
  const auto rate = [&](const char* name) {
    const auto d = platforms::load_device(name);
    return rates_of(d, precision_of(d, "fp16"), {megatron, megatron.launch}, c).flops_per_second[0] / d.peak("f16")->value();
  };
  // A slot of 250 W against a module of 400 W, a board of 70 W against larger ones of its generation.
  CHECK(rate("A100-PCIE-40GB") < 0.95 * rate("A100-SXM4-40GB"));
  CHECK(rate("T4-16GB") < 0.7 * rate("Quadro-RTX-6000-24GB"));
  CHECK(rate("V100-SXM3-32GB-H") > 1.1 * rate("V100-SXM2-32GB"));
  // T4: 24 of 65 TFLOP/s in NVIDIA's forum.
  CHECK(rate("T4-16GB") == Approx(24.0 / 65).epsilon(0.2));
}

TEST_CASE("quicker graphics memory leaves a board two thirds of its power, and products a clock") {
  const auto& c = published_constants().values;
  const auto& megatron = *find_framework("megatron");
  const auto rate = [&](double quicker) {
    auto d = platforms::load_device("L4-24GB");
    d.memory_bandwidth.value *= quicker;
    return rates_of(d, precision_of(d, "bf16"), {megatron, megatron.launch}, c).flops_per_second[0];
  };
  CHECK(rate(2) < rate(1));        // memory draws more
  CHECK(rate(2) > 0.9 * rate(1));  // but 0.35 of what is above the rest at most, for 0.30
  CHECK(rate(100) == Approx(rate(2)));
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
  CHECK_THROWS_WITH(precision_of(v100, "fp8"), contains("V100-SXM2-16GB has no products in fp8") && contains("bf16 or fp16"));
  // Pascal stores 16 bits and computes in fp32: no matrix units.
  CHECK(precision_of(p100, "fp16").arithmetic == Arithmetic::F32);
  CHECK(precision_of(p100, "fp16").element_bytes == 2);
  CHECK(precision_of(p100, "fp16").peak == Approx(10.6e12));
}

TEST_CASE("each 16-bit type has its own peak") {
  const auto mi100 = platforms::load_device("MI100-32GB");  // 184.6 and 92.3 TFLOP/s
  CHECK(precision_of(mi100, "f16").peak == Approx(184.6e12));
  CHECK(precision_of(mi100, "bf16").peak == Approx(92.3e12));
  CHECK(precision_of(platforms::load_device("V100-SXM2-16GB"), "bf16").peak ==
        precision_of(platforms::load_device("V100-SXM2-16GB"), "f16").peak);
}

TEST_CASE("units that are no quicker in 8 bits compute in 16") {
  const auto gaudi = platforms::load_device("Gaudi3-128GB");
  REQUIRE(gaudi.peak("fp8")->value() == gaudi.peak("bf16")->value());
  const auto narrow = precision_of(gaudi, "fp8"), half = precision_of(gaudi, "bf16");
  CHECK(narrow.arithmetic == Arithmetic::Half);
  CHECK(narrow.peak == half.peak);
  CHECK(narrow.cast_bytes == half.cast_bytes);
  CHECK(precision_of(platforms::load_device("H100-SXM5-80GB"), "fp8").arithmetic == Arithmetic::Fp8);
}

TEST_CASE("products of 8 and 4 bits have the scales that a device's units know") {
  const auto h100 = platforms::load_device("H100-SXM5-80GB"), gb300 = platforms::load_device("GB300-279GB");
  const auto scaling = [&](const char* text) { return precision_of(h100, text).scaling; };
  CHECK(scaling("fp8") == Scaling::Tensor);
  CHECK(scaling("fp8-tensorwise") == Scaling::Tensor);
  CHECK(scaling("fp8-rowwise") == Scaling::Row);
  CHECK(scaling("fp8-block") == Scaling::Block);
  CHECK(scaling("bf16") == Scaling::None);
  CHECK_THROWS_WITH(precision_of(h100, "mxfp8"), contains("H100-SXM5-80GB has no matrix units that scale a few elements each"));
  CHECK_THROWS_WITH(precision_of(h100, "nvfp4"), contains("has no products in fp4") && contains("it has fp8"));
  const auto mx = precision_of(gb300, "mxfp8"), four = precision_of(gb300, "nvfp4");
  CHECK(mx.scaling == Scaling::Micro);
  CHECK(mx.peak == Approx(5e15));
  // 15 PFLOP/s by the datasheet; kernels reach twice their rate in fp8 at most.
  CHECK(four.peak == Approx(1e16));
  CHECK(four.element_bytes == 2);
}

TEST_CASE("products of fewer bits reach a smaller share of a larger peak, as measured kernels do") {
  const auto& c = published_constants().values;
  const auto& megatron = *find_framework("megatron-core");
  const auto rate = [&](const char* device, const char* precision) {
    const auto d = platforms::load_device(device);
    return rates_of(d, precision_of(d, precision), {megatron, megatron.launch}, c).flops_per_second[0];
  };
  // products.json, hopper: 0.848 of the fp8 peak where 0.9 of the 16-bit one, which is half of it: 2 * 0.848/0.9.
  CHECK(rate("H100-SXM5-80GB", "fp8") / rate("H100-SXM5-80GB", "bf16") == Approx(2 * 0.848 / 0.9).epsilon(0.001));
  // blackwell: mxfp8 runs as blocks do, 0.722 over 0.783; nvfp4 0.616 of four times the 16-bit peak.
  CHECK(rate("B200-SXM-180GB", "mxfp8") / rate("B200-SXM-180GB", "bf16") == Approx(2 * 0.722 / 0.783).epsilon(0.001));
  CHECK(rate("B200-SXM-180GB", "nvfp4") / rate("B200-SXM-180GB", "bf16") == Approx(4 * 0.616 / 0.783).epsilon(0.001));
  // What an fp8 job computes in 16 bits runs at their rate.
  const auto h100 = platforms::load_device("H100-SXM5-80GB");
  const auto fp8 = rates_of(h100, precision_of(h100, "fp8"), {megatron, megatron.launch}, c);
  CHECK(fp8.flops_per_second[static_cast<std::size_t>(RateKind::WideMatmul)] == Approx(rate("H100-SXM5-80GB", "bf16")));
}

TEST_CASE("products of many experts in one kernel have their own share, that of dense ones where they were not measured") {
  const auto of = [](const char* device, const char* precision) {
    return precision_of(platforms::load_device(device), precision).grouped_share;
  };
  CHECK(of("H100-SXM5-80GB", "bf16") == 0.949);  // products.json
  CHECK(of("B200-SXM-180GB", "fp8-block") == 0.927);
  CHECK(of("A100-SXM4-80GB", "bf16") == 1);
}

TEST_CASE("measured products are refused where a row is wrong") {
  const auto with = [](const std::string& row) { return product_kernels_from_json_text("{\"rows\": [" + row + "]}", "products.json"); };
  const auto rows = with(R"({"generation": "ada", "arithmetic": "fp8", "share": 0.5, "fill": 100, "cast_bytes": 2})");
  CHECK(rows.front().share == 0.5);
  CHECK_THROWS_WITH(with(R"({"generation": "ada", "arithmetic": "int8", "share": 0.5, "fill": 100, "cast_bytes": 2})"),
                    contains("products.json") && contains("rows[0].arithmetic: is \"int8\"; must be one of 16-bit, fp8, fp8-block, nvfp4"));
  CHECK_THROWS_WITH(with(R"({"generation": "ada", "arithmetic": "fp8", "share": 5, "fill": 100, "cast_bytes": 2})"),
                    contains("rows[0].share: is 5; a number from 0.05 to 1.2"));
  CHECK_THROWS_WITH(with(R"({"generation": "ada", "arithmetic": "fp8"})"), contains("share"));
  // The figures of their bounds are allowed.
  const auto of = [&](const std::string& share, const std::string& fill, const std::string& cast_bytes, const std::string& grouped) {
    return with(R"({"generation": "ada", "arithmetic": "fp8", "share": )" + share + ", \"fill\": " + fill +
                ", \"cast_bytes\": " + cast_bytes + ", \"grouped_share\": " + grouped + "}")
        .front();
  };
  CHECK(of("0.05", "0", "0", "0.05").grouped_share == 0.05);
  CHECK(of("1.2", "5000", "50", "2").grouped_share == 2);
  CHECK_THROWS_WITH(of("1.21", "1", "1", "1"), contains(".share: is 1.21"));
  CHECK_THROWS_WITH(of("0.04", "1", "1", "1"), contains(".share: is 0.04"));
  CHECK_THROWS_WITH(of("1", "5001", "1", "1"), contains(".fill: is 5001"));
  CHECK_THROWS_WITH(of("1", "-1", "1", "1"), contains(".fill: is -1"));
  CHECK_THROWS_WITH(of("1", "1", "51", "1"), contains(".cast_bytes: is 51"));
  CHECK_THROWS_WITH(of("1", "1", "1", "2.1"), contains(".grouped_share: is 2.1"));
  CHECK_THROWS_WITH(of("1", "1", "1", "0.04"), contains(".grouped_share: is 0.04"));
}

}  // namespace
}  // namespace rehearsal::costmodel
