// Fused attention by the tiles of the kernels that were measured.
#include "costmodel/accelerator.hpp"
#include "costmodel/attention_kernels.hpp"
#include "costmodel/product_kernels.hpp"
#include "platforms/devices.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

TEST_CASE("tiles of queries see all keys, half of them under a triangle, and never end before the longest") {
  const AttentionKernels kernels{"", 1, 100, 8, 50};
  // 6 heads of 200 queries are 12 tiles of 100 rows; each sees 200 keys and 50 more: 3,000 keys for 4 multiprocessors, and half of the
  // longest tile's 250 at the end, in halves of it as rows: 100 * (12 * 250 / 4 + 250 / 4) rows of 2 (32 + 2 * 8) FLOPs on each of the
  // four.
  CHECK(occupied_attention({6, 200, 200, 200, 32}, 4, kernels) == Approx(4 * (100 * 12 * 250 / 4.0 + 100 * 250 / 4.0) * 96));
  // Under a triangle a tile sees half of the keys and, on its diagonal, half a tile more: 100 + 50, and 50 to fill.
  CHECK(occupied_attention({6, 200, 200, 100, 32}, 4, kernels) == Approx(4 * (100 * 12 * 200 / 4.0 + 100 * 250 / 4.0) * 96));
  // One tile on a hundred multiprocessors lasts as long as it takes.
  CHECK(occupied_attention({1, 100, 200, 200, 32}, 100, kernels) == Approx(100.0 * (100 * 250) * 96));
  // A tile that its queries do not fill costs the same.
  CHECK(occupied_attention({6, 101, 200, 200, 32}, 4, kernels) == occupied_attention({6, 200, 200, 200, 32}, 4, kernels));
}

TEST_CASE("measured attentions take about what the tables say, on devices that were held out, too") {
  struct Measured {
    const char* device;
    AttentionShape shape;
    double microseconds;
  };
  // aiconfigurator-core 0.12.0, context_attention_perf, bf16: samples * heads, tokens, head; keys and values of 8 heads a sample are
  // stored, too, in less than 4 % of these times.
  const auto causal = [](double heads, double tokens) { return AttentionShape{heads, tokens, tokens, tokens / 2, 256}; };
  const Measured table[] = {{"H200-SXM5-141GB", causal(4 * 32, 4096), 920.1},  {"H200-SXM5-141GB", causal(64, 8192), 1519.2},
                            {"H200-SXM5-141GB", causal(16 * 32, 1024), 388.6}, {"GB200-186GB", causal(4 * 32, 4096), 513.7},
                            {"GB200-186GB", causal(64, 8192), 792.6},          {"A100-SXM4-80GB", causal(4 * 32, 4096), 2945.1},
                            {"A100-SXM4-80GB", causal(64, 8192), 5471.2}};
  for (const auto& m : table) {
    const auto device = platforms::load_device(m.device);
    const auto& kernels = attention_kernels(device.generation);
    const double seconds = occupied_attention(m.shape, device.compute_units, kernels) / (kernels.share * device.peak("bf16")->value());
    INFO(m.device << " " << m.shape.queries << " tokens: " << seconds * 1e6 << " of " << m.microseconds << " us");
    CHECK(seconds * 1e6 == Approx(m.microseconds).epsilon(0.15));
  }
}

TEST_CASE("GPUs that nobody measured attention of have Ampere's tiles") {
  CHECK(attention_kernels("hopper").generation == "hopper");
  for (const char* other : {"volta", "cdna3", "of tomorrow"}) CHECK(attention_kernels(other).generation == "ampere");
}

TEST_CASE("attention's level is that of kernels alone, over products alone, times what training reaches") {
  auto constants = published_constants().values;
  const auto h100 = platforms::load_device("H100-SXM5-80GB");
  const auto rate = [&](const char* profile, RateKind kind) {
    return rates_of(h100, precision_of(h100, "bf16"), {*find_framework(profile), LaunchMode::Eager}, constants)
        .flops_per_second[static_cast<std::size_t>(kind)];
  };
  const double alone = attention_kernels("hopper").share / product_kernels("hopper", Arithmetic::Half, Scaling::None).share;
  CHECK(rate("megatron-core", RateKind::FlashAttention) ==
        Approx(rate("megatron-core", RateKind::Matmul) * alone * constants[Coefficient::FlashAttentionTuned]));
}

TEST_CASE("measured attentions are refused where a row is wrong") {
  const auto with = [](const std::string& row) { return attention_kernels_from_json_text("{\"rows\": [" + row + "]}", "attention.json"); };
  CHECK(with(R"({"generation": "ada", "share": 0.5, "rows": 64, "softmax": 8, "fill": 100})").front().rows == 64);
  CHECK_THROWS_WITH(with(R"({"generation": "ada", "share": 0.5, "rows": 6, "softmax": 8, "fill": 100})"),
                    contains("attention.json") && contains("rows[0].rows: is 6; a number from 16 to 1024"));
  CHECK_THROWS_WITH(with(R"({"generation": "ada", "share": 0.5, "rows": 64, "fill": 100})"), contains("rows[0].softmax: is missing"));
  CHECK_THROWS_WITH(with(R"({"share": 0.5})"), contains("rows[0].generation: is missing"));
  CHECK_THROWS_WITH(attention_kernels_from_json_text("{}", "attention.json"), contains("attention.json"));
}

TEST_CASE("measured attentions may have the figures of their bounds, and none beyond") {
  struct Bounds {
    const char* key;
    double AttentionKernels::*member;
    double low, high;
  };
  const auto text = [](const std::string& key, double value) {
    std::string row = R"({"rows": [{"generation": "ada")";
    for (const auto& [name, usual] : {std::pair<std::string, double>{"share", 0.5}, {"rows", 64}, {"softmax", 8}, {"fill", 100}})
      row += ", \"" + name + "\": " + std::to_string(name == key ? value : usual);
    return row + "}]}";
  };
  for (const auto& [key, member, low, high] : {Bounds{"share", &AttentionKernels::share, 0.05, 1.5},
                                               {"rows", &AttentionKernels::rows, 16, 1024},
                                               {"softmax", &AttentionKernels::softmax, 0, 1000},
                                               {"fill", &AttentionKernels::fill, 0, 5000}}) {
    INFO(key);
    for (const double value : {low, high})
      CHECK(attention_kernels_from_json_text(text(key, value), "a.json").front().*member == Approx(value));
    for (const double value : {low - 0.001, high + 0.001})
      CHECK_THROWS_WITH(attention_kernels_from_json_text(text(key, value), "a.json"), contains("rows[0]." + std::string(key) + ": is "));
  }
}

}  // namespace
}  // namespace rehearsal::costmodel
