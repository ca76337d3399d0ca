// What a step is made of besides its products: gates, masks, layouts, accumulation.

#include "graph/op_schema.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/compose.hpp"
#include "predict/frameworks/flow.hpp"
#include "predict/frameworks/lower.hpp"
#include "predict/frameworks/part.hpp"
#include "tests/catch.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::RateKind;

AnalyticJob job_of(const platforms::Platform& platform, const costmodel::FrameworkProfile& profile, const char* precision,
                   const ParallelPlan& plan) {
  return {platform, profile, costmodel::precision_of(platform.nodes.front().device, precision), plan, 0};
}

double bytes_of(const costmodel::KernelRows& rows) {
  double sum = 0;
  for (const auto& row : rows)
    if (row.kind == RateKind::Elementwise) sum += row.bytes * row.count;
  return sum;
}

double work_of(const ModelRows& rows, RateKind kind) {
  double sum = 0;
  for (const auto& part : rows.parts)
    for (const auto& row : part.forward)
      if (row.kind == kind) sum += row.work * row.count * part.span.repeats;
  return sum;
}

double seconds_of(const ModelRows& rows, const AnalyticJob& job) {
  const costmodel::Network network(job.platform);
  return compose(rows, job, network, costmodel::published_constants().values).seconds;
}

TEST_CASE("x times its own sigmoid is one operator, read once and kept once") {
  const auto platform = platforms::load("dgx-a100");
  auto profile = *costmodel::find_framework("composer");
  const auto graph = graph::zoo::build("zoo:llama?layers=4&hidden=64&heads=4&kv_heads=4&ffn=192&seq=32&vocab=100&batch=2");
  const Flow flow(graph);
  int gates = 0;
  for (const auto& node : graph.nodes())
    if (node.phase == graph::Phase::Forward && flow.self_gate(node)) {
      ++gates;
      CHECK(flow.readers(node.inputs.front()) == 1);
    }
  CHECK(gates == 4);
  const auto rows = lower_to_rows(graph, job_of(platform, profile, "bf16", {}));
  double kept = 0;
  for (const auto& part : rows.parts)
    if (part.repeated) kept = part.kept.all();
  // Of the feed-forward layer, 64 rows of 192 in 16 bits: gate, its activation, up and their product.
  const double wide = 64.0 * 192 * 2, narrow = 64.0 * 64 * 2;
  // Of the rest: input and result of two norms, q, k, v, attention's result; q and k before they are turned are not needed again.
  CHECK(kept >= 4 * wide + 8 * narrow);
  CHECK(kept < 5 * wide + 12 * narrow);
}

TEST_CASE("attention under a stored triangle does half of the work, as under one that is computed") {
  const auto platform = platforms::load("dgx-h100");
  const auto& profile = *costmodel::find_framework("composer");
  // Masks of 2048 x 2048 are folded into a constant, larger ones are not: work grows with the square of the length all the same.
  const auto work = [&](const char* zoo) {
    return work_of(lower_to_rows(graph::zoo::build(zoo), job_of(platform, profile, "bf16", {})), RateKind::FlashAttention);
  };
  const double folded = work("zoo:gpt?layers=1&hidden=64&heads=1&seq=2048&vocab=16&batch=1");
  CHECK(folded == Approx(4.0 * 2048 * 2048 * 64 / 2));
  CHECK(work("zoo:gpt?layers=1&hidden=64&heads=1&seq=4096&vocab=16&batch=1") == Approx(4 * folded));
}

TEST_CASE("tf32 convolutions of channels-first tensors convert them, fp32 ones do not") {
  const auto platform = platforms::load("dgx-a100");
  const auto& profile = *costmodel::find_framework("pytorch");
  const auto graph = graph::zoo::build("zoo:vgg11?image=32&classes=10&batch=4");
  const auto traffic = [&](const char* precision, bool last) {
    ParallelPlan plan;
    plan.channels_last_single = last;
    double sum = 0;
    for (const auto& part : lower_to_rows(graph, job_of(platform, profile, precision, plan)).parts) sum += bytes_of(part.forward);
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

TEST_CASE("a recurrent layer is run as its library does: a product and one kernel a step, one product for the weight") {
  const auto platform = platforms::load("dgx-a100");
  const auto& profile = *costmodel::find_framework("pytorch-examples");
  const auto graph = graph::zoo::build("zoo:gnmt?layers=2&hidden=64&enc_seq=6&dec_seq=6&vocab=100&batch=8");
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
  const auto rows = lower_to_rows(graph, job_of(platform, profile, "amp", {}));
  double kernels = 0;
  for (const auto& part : rows.parts)
    for (const auto& row : part.forward) kernels += row.launches * part.span.repeats;
  CHECK(kernels < 60);  // 366 operators
  // The gradients of weights take as long together as one product over all steps: 64 x 256 of 8 * 5 rows, five times.
  double shares = 0;
  for (const auto& part : rows.parts)
    for (const auto& row : part.backward)
      if (row.count < 1) shares += row.count * part.span.repeats;
  CHECK(shares == Approx(5));
}

TEST_CASE("experts that are spread over ranks do as much work as before, on other tokens") {
  const auto platform = platforms::load("dgx-h100");
  const auto& profile = *costmodel::find_framework("megatron-core");
  const auto graph = graph::zoo::build(
      "zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=1024&seq=1024&vocab=100&experts=8&top_k=2&capacity=100&batch=2");
  const auto on = [&](int ep) {
    ParallelPlan plan;
    plan.dp = plan.ep = ep;
    return lower_to_rows(graph, job_of(platform, profile, "bf16", plan));
  };
  const auto whole = on(1), spread = on(4);
  CHECK(work_of(spread, RateKind::Matmul) == Approx(work_of(whole, RateKind::Matmul)).epsilon(0.25));  // but for the tiles
  double sent = 0;
  for (const auto& part : spread.parts) sent = std::max(sent, part.experts_bytes);
  CHECK(sent == Approx(2.0 * 1024 * 2 * 512 * 2).epsilon(0.05));  // two samples, two experts a token, 512 features of 16 bits
}

TEST_CASE("gradients of several micro-batches are added up, unless the product does it") {
  const auto platform = platforms::load("dgx-a100");
  auto profile = *costmodel::find_framework("pytorch-examples");
  profile.launch = costmodel::LaunchMode::Captured;  // a host that is slower than so small a model would hide the sums
  const auto graph = graph::zoo::build("zoo:gpt?layers=4&hidden=256&heads=4&seq=64&vocab=1000&batch=1");
  ParallelPlan plan;
  plan.micro_batches = plan.global_batch = 8;
  const auto rows = lower_to_rows(graph, job_of(platform, profile, "fp16", plan));
  const double apart = seconds_of(rows, job_of(platform, profile, "fp16", plan));
  profile.fused_accumulation = true;
  const double fused = seconds_of(rows, job_of(platform, profile, "fp16", plan));
  const auto& constants = costmodel::published_constants().values;
  // 4-byte sums read and written, 2-byte gradients read, for each of 8 micro-batches.
  const double expected =
      8 * (4 + 4 + 2) * parameters_of_rank(rows, plan) / costmodel::memory_rate(platform.nodes.front().device, constants);
  CHECK(apart - fused == Approx(expected));
}

TEST_CASE("autocast turns layer norms to fp32 and back, which fused norms in 16 bits do not need") {
  const auto platform = platforms::load("dgx-a100");
  auto profile = *costmodel::find_framework("pytorch");
  const auto graph = graph::zoo::build("zoo:vit?layers=2&hidden=64&heads=2&image=32&patch=8&classes=10&batch=2");
  const auto forward = [&](const char* precision) {
    double sum = 0;
    for (const auto& part : lower_to_rows(graph, job_of(platform, profile, precision, {})).parts)
      sum += bytes_of(part.forward) * part.span.repeats;
    return sum;
  };
  REQUIRE(profile.casts_norms);
  const double amp = forward("amp"), pure = forward("fp16");
  profile.casts_norms = false;
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

TEST_CASE("an optimizer that is written operator by operator moves more and launches more") {
  const auto platform = platforms::load("dgx1-v100");
  auto profile = *costmodel::find_framework("tensorflow1");
  REQUIRE(profile.composed_optimizer);
  const auto graph = graph::zoo::build("zoo:bert?layers=2&hidden=64&heads=2&seq=32&vocab=100&batch=2");
  ParallelPlan plan;
  const auto update = [&](const char* optimizer) {
    plan.optimizer = optimizer;
    const auto job = job_of(platform, profile, "fp32", plan);
    return compose(lower_to_rows(graph, job), job, costmodel::Network(platform), costmodel::published_constants().values).optimizer;
  };
  const double composed = update("adam"), momentum = update("sgd");
  profile.composed_optimizer = false;
  CHECK(composed > 10 * update("adam"));
  CHECK(update("sgd") == Approx(momentum));  // one kernel a parameter everywhere
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
