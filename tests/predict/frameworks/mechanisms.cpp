// Which kernels a step is made of: gates, masks, layouts, recurrent layers, casts.

#include "graph/op_schema.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::RateKind;

using sample::block_of;
using sample::bytes_of;
using sample::Sample;
using sample::work_of;

TEST_CASE("x times its own sigmoid is one operator, read once and kept once") {
  const Sample s("zoo:llama?layers=4&hidden=64&heads=4&kv_heads=4&ffn=192&seq=32&vocab=100&batch=2", platforms::load("dgx-a100"),
                 "composer");
  const auto& graph = s.model.whole();
  const Flow flow(graph);
  int gates = 0;
  for (const auto& node : graph.nodes())
    if (node.phase == graph::Phase::Forward && flow.self_gate(node)) {
      ++gates;
      CHECK(flow.readers(node.inputs.front()) == 1);
    }
  CHECK(gates == 4);
  const double kept = block_of(s.parts()).kept.all();
  // Of the feed-forward layer, 64 rows of 192 in 16 bits: gate, its activation, up and their product.
  const double wide = 64.0 * 192 * 2, narrow = 64.0 * 64 * 2;
  // Of the rest: input and result of two norms, q, k, v, attention's result; q and k before they are turned are not needed again.
  CHECK(kept >= 4 * wide + 8 * narrow);
  CHECK(kept < 5 * wide + 12 * narrow);
}

TEST_CASE("attention under a stored triangle does half of the work, as under one that is computed") {
  // Masks of 2048 x 2048 are folded into a constant, larger ones are not: both are half of the pairs.
  const auto work = [&](const char* zoo) {
    return work_of(Sample(zoo, platforms::load("dgx-h100"), "composer").parts(), RateKind::FlashAttention);
  };
  CHECK(work("zoo:gpt?layers=1&hidden=64&heads=1&seq=2048&vocab=16&batch=1") == Approx(sample::attention_work({1, 2048, 2048, 1024, 128})));
  CHECK(work("zoo:gpt?layers=1&hidden=64&heads=1&seq=4096&vocab=16&batch=1") == Approx(sample::attention_work({1, 4096, 4096, 2048, 128})));
}

TEST_CASE("an attention whose tokens an index chooses does the work of the chosen ones alone") {
  const auto work = [&](const char* index, const char* seq) {
    const std::string zoo = "zoo:moe?layers=1&hidden=64&heads=2&kv_heads=2&ffn=32&vocab=16&experts=2&top_k=1&batch=1";
    return work_of(Sample((zoo + index + seq).c_str(), platforms::load("dgx-h100"), "megatron-core").parts(), RateKind::FlashAttention);
  };
  // 2 heads of 32.
  CHECK(work("", "&seq=4096") == Approx(sample::attention_work({2, 4096, 4096, 2048, 64})));
  // 4 blocks of 128 tokens, which the first queries do not have before them: 512 (1 - 512 / 8192) keys on average.
  const double chosen = sample::attention_work({2, 4096, 512, 512 * (1 - 512.0 / 8192), 64});
  CHECK(work("&index_heads=2&index_dim=32&index_block=128&index_top=4", "&seq=4096") == Approx(chosen));
  // the last block has 64 tokens beyond the end
  CHECK(work("&index_heads=2&index_dim=32&index_block=128&index_top=4", "&seq=4032") > 0.9 * chosen);
  CHECK(work("&index_heads=2&index_dim=32&index_block=128&index_top=4", "&seq=4032") <= chosen);
}

TEST_CASE("compressed attention does the work of its window and of the compressed tokens that it sees") {
  const auto work = [](const char* more) {
    const std::string zoo =
        "zoo:deepseek-v4?hidden=64&heads=2&head_dim=32&rope_dim=8&q_lora=16&o_groups=1&o_lora=16&experts=2&top_k=1&moe_ffn=8&"
        "vocab=16&batch=1&seq=4096&index_heads=2&index_dim=16&index_top=64&";
    return work_of(Sample((zoo + more).c_str(), platforms::load("dgx-h100"), "megatron-core").parts(), RateKind::FlashAttention);
  };
  // Of 2 heads of 32 features for 4096 queries, by so many keys; the first queries have fewer before them.
  const auto pairs = [](double keys, double length) {
    return sample::attention_work({2, 4096, keys, keys * (1 - keys / (2 * length)), 2 * 32});
  };
  CHECK(work("layers=2") == Approx(2 * pairs(128, 4096)));
  // a token more of every 128, of which 32 are there
  CHECK(work("layers=2&first_many=1") == Approx(2 * pairs(128 + 32, 4096 + 32)));
  // the best 64 of 1024
  CHECK(work("layers=3") == Approx(2 * pairs(128, 4096) + pairs(128 + 64, 4096 + 1024)));
}

TEST_CASE("products that an operator makes beside one of its own shape take their time") {
  const Sample s(
      "zoo:llama?layers=2&hidden=64&heads=2&ffn=32&vocab=16&batch=1&seq=256&full_every=2&chunk=64&delta_key_heads=2&delta_heads=2&"
      "delta_key_dim=128&delta_dim=128",
      platforms::load("dgx-h100"), "megatron-core");
  std::vector<double> bytes;
  for (const auto& part : s.parts().parts)
    for (const auto& step : part.forward)
      if (!step.exchange && step.row.kind == RateKind::BatchedMatmul) bytes.push_back(step.row.bytes);
  // Of 4 chunks and 2 heads, in 16 bits, (m k + k n + m n) each: two triangles of 64 x 64 for 128 columns, 63 / 128 of a product; tokens
  // by tokens over 128 features, of keys and of queries; these by 128 features of values; the queries' reading of states, and the scan,
  // which is two products of that size.
  const double square = 8 * 2.0 * (64 * 64 + 2 * 64 * 128), read = 8 * 2.0 * (2 * 64 * 128 + 128 * 128);
  std::ranges::sort(bytes);
  CHECK(bytes == std::vector<double>{square * 63 / 128, square * 63 / 128, square, square, square, read, 2 * read});
}

TEST_CASE("tf32 convolutions of channels-first tensors convert them, fp32 ones do not") {
  const auto traffic = [&](const char* precision, bool last) {
    Sample s("zoo:vgg11?image=32&classes=10&batch=4", platforms::load("dgx-a100"), "pytorch", precision);
    s.job.recipe.channels_last_single = last;
    double sum = 0;
    for (const auto& part : s.parts().parts) sum += bytes_of(part.forward);
    return sum;
  };
  CHECK(traffic("tf32", false) > 1.3 * traffic("tf32", true));
  CHECK(traffic("fp32", false) == Approx(traffic("fp32", true)));
}

TEST_CASE("slow arithmetic fills a tile at the same time, which is fewer of its elements") {
  const auto machine = platforms::load("dgx-a100");
  const auto& device = machine.nodes.front().device;
  CHECK(costmodel::precision_of(device, "fp16").fill_share == 1);
  CHECK(costmodel::precision_of(device, "tf32").fill_share == 1);
  CHECK(costmodel::precision_of(device, "fp32").fill_share == 0.125);
}

TEST_CASE("operands of products in 8 bits are cast: activations always, weights once a step, and what makes the logits never") {
  Sample s("zoo:gpt?layers=3&hidden=128&heads=4&seq=32&vocab=1000&batch=2", platforms::load("dgx-h100"), "megatron-core");
  double once = 0;
  const auto traffic = [&](const char* precision) {
    s.job.precision = precision;
    double forward = 0, backward = 0;
    for (const auto& part : s.parts().parts) {
      for (const auto& step : part.forward) once += step.once_a_step ? step.row.bytes * part.repeats : 0;
      forward += bytes_of(part.forward) * part.repeats;
      backward += bytes_of(part.backward) * part.repeats;
    }
    return std::pair{forward, backward};
  };
  const auto [forward, backward] = traffic("fp8");
  const auto [forward16, backward16] = traffic("bf16");
  const double bytes = costmodel::precision_of(s.platform.nodes.front().device, "fp8").cast_bytes;
  REQUIRE(bytes > 0);
  // Of 3 blocks: 64 tokens enter products with 128, 128, 128 and 512 values and leave them with 384, 128, 512 and 128; 12·128² weights.
  CHECK(forward - forward16 == Approx(3 * bytes * (64.0 * 896 + 12 * 128 * 128)));
  CHECK(once == Approx(3 * bytes * 12 * 128 * 128));
  CHECK(backward - backward16 == Approx(3 * bytes * 64 * 1152));
  CHECK(work_of(s.parts(), RateKind::WideMatmul) == 0);  // in 16 bits every product is the same
  s.job.precision = "fp8";
  CHECK(work_of(s.parts(), RateKind::WideMatmul) > 2.0 * 64 * 128 * 1000);  // tiles that are not full included
}

TEST_CASE("a recurrent layer is run as its library does: a product and one kernel a step, one product for the weight") {
  const Sample s("zoo:gnmt?layers=2&hidden=64&enc_seq=6&dec_seq=6&vocab=100&batch=8", platforms::load("dgx-a100"), "pytorch-examples",
                 "amp");
  const auto& graph = s.model.whole();
  const Flow flow(graph);
  int steps = 0, cells = 0;
  for (std::size_t n = 0; n < flow.forward_nodes(); ++n) {
    steps += flow.steps_of(n) > 0;
    const auto name = graph::schema(graph.nodes()[n]).name;
    if (name == "Sigmoid") cells += flow.in_cell(n);
  }
  // Five layers (the first of the encoder in both directions), six steps; the state before the first step is zero.
  CHECK(steps == 5 * 5);
  CHECK(flow.recurrent());
  CHECK(cells == 5 * (5 * 3 + 2));  // three gates a step; of the first, nothing is forgotten
  const auto model = s.parts();
  double kernels = 0;
  for (const auto& part : model.parts)
    for (const auto& step : part.forward) kernels += step.row.launches * part.repeats;
  CHECK(kernels < 60);  // 366 operators
  // The gradients of weights take as long together as one product over all steps: 64 x 256 of 8 * 5 rows, five times.
  double shares = 0;
  for (const auto& part : model.parts)
    for (const auto& step : part.backward)
      if (step.row.count < 1) shares += step.row.count * part.repeats;
  CHECK(shares == Approx(5));
}

TEST_CASE("autocast turns layer norms to fp32 and back, which fused norms in 16 bits do not need") {
  Sample s("zoo:vit?layers=2&hidden=64&heads=2&image=32&patch=8&classes=10&batch=2", platforms::load("dgx-a100"), "pytorch");
  const auto& graph = s.model.whole();
  const auto forward = [&](const char* precision) {
    s.job.precision = precision;
    double sum = 0;
    for (const auto& part : s.parts().parts) sum += bytes_of(part.forward) * part.repeats;
    return sum;
  };
  REQUIRE(s.profile.casts_norms);
  const double amp = forward("amp"), pure = forward("fp16");
  s.profile.casts_norms = false;
  const double without = forward("amp");
  CHECK(without == Approx(pure));
  int norms = 0;
  double size = 0;
  for (const auto& node : graph.nodes())
    if (node.phase == graph::Phase::Forward && graph::schema(node).name == "LayerNormalization") {
      ++norms;
      size = static_cast<double>(graph::element_count(graph[node.outputs[0]].type.shape)) * 2;
    }
  REQUIRE(norms == 5);  // two a layer and the last
  // 10 passes instead of 2.
  CHECK(amp - without == Approx(norms * 8 * size));
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
