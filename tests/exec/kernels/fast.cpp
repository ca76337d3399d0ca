// Every fast kernel against the reference kernel of the same node, in every order of images and every type that it takes.

#include "exec/host/fast.hpp"

#include <algorithm>
#include <cmath>

#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/native/bf16_dots.hpp"
#include "exec/play/interpreter.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/against_reference.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::Shape;
using plan::Format;
using Sizes = std::vector<std::int64_t>;
using Types = std::vector<std::optional<graph::TensorType>>;

namespace {

void check_orders(const Case& c, std::string_view wants) {
  for (const auto now : {Format::Plain, Format::ChannelsLast})
    for (const int threads : {1, 2}) check(c, now, wants, threads);
}

/// In 16 bits without widening the operands of the whole node, and in bf16 by every unit that this machine has.
void check_narrow_attention(const Case& c, int threads) {
  std::string reason;
  compared(in_type(c, DType::F16), Format::Plain, threads, "native:attention");
  const Case narrow = in_type(c, DType::BF16);
  compared(narrow, Format::Plain, threads, "native:attention");
  if (native::has_bf16_dots(reason)) compared(narrow, Format::Plain, threads, "dots:attention");
  if (native::has_tiles(reason)) compared(narrow, Format::Plain, threads, "amx:attention");
}

}  // namespace

TEST_CASE("fast convolutions agree with the reference in any shape", "[onednn]") {
  struct Shapes {
    Shape x, w, y;
    graph::Attributes attributes;
    Sizes spatial, kernel;
  };
  const std::vector<Shapes> all = {
      {{2, 3, 9, 8}, {17, 3, 3, 3}, {2, 17, 9, 8}, {{"pads", Sizes{1, 1, 1, 1}}}, {9, 8}, {3, 3}},
      {{2, 16, 9, 9}, {32, 16, 1, 1}, {2, 32, 5, 5}, {{"strides", Sizes{2, 2}}}, {9, 9}, {1, 1}},
      {{3, 13, 16, 16}, {48, 13, 1, 1}, {3, 48, 8, 8}, {{"strides", Sizes{2, 2}}}, {16, 16}, {1, 1}},  // channels of no whole block
      {{1, 8, 7, 7}, {8, 4, 3, 3}, {1, 8, 5, 5}, {{"group", std::int64_t{2}}}, {7, 7}, {3, 3}},
      {{1, 17, 9, 9}, {17, 1, 3, 3}, {1, 17, 9, 9}, {{"group", std::int64_t{17}}, {"pads", Sizes{1, 1, 1, 1}}}, {9, 9}, {3, 3}},
      {{1, 5, 11, 10}, {7, 5, 3, 2}, {1, 7, 7, 10}, {{"dilations", Sizes{2, 1}}, {"pads", Sizes{0, 1, 0, 0}}}, {11, 10}, {3, 2}},
      {{2, 16, 9, 8}, {32, 16, 1, 1}, {2, 32, 9, 8}, {}, {9, 8}, {1, 1}},
      {{2, 16, 9, 8}, {32, 16, 1, 1}, {2, 32, 11, 10}, {{"pads", Sizes{1, 1, 1, 1}}}, {9, 8}, {1, 1}},
      {{2, 4, 10}, {6, 4, 3}, {2, 6, 10}, {{"pads", Sizes{1, 1}}}, {10}, {3}},
      {{1, 3, 5, 6, 7}, {4, 3, 3, 3, 3}, {1, 4, 3, 4, 5}, {}, {5, 6, 7}, {3, 3, 3}},
  };
  for (const auto& s : all) {
    auto gradient_input = s.attributes, gradient_weight = s.attributes;
    gradient_input.set("shape", s.spatial);
    gradient_weight.set("kernel_shape", s.kernel);
    check_orders({"Conv", s.attributes, {s.x, s.w}}, "onednn:convolution");
    check_orders({"Conv", s.attributes, {s.x, s.w, {s.w[0]}}}, "onednn:convolution");
    check_orders({"ConvGradInput", gradient_input, {s.y, s.w}}, "onednn:convolution");
    check_orders({"ConvGradWeight", gradient_weight, {s.x, s.y}}, "onednn:convolution");
  }
}

TEST_CASE("products of many threads keep no result for each of them", "[onednn]") {
  // dᵀ x of 8,192 tokens: operands and result of 2 GB with GPT-2's words, where a result a thread would be 15 GB on 96 threads
  const std::vector<std::pair<Shape, Shape>> shapes{{{8192, 50257}, {8192, 768}}, {{8192, 768}, {8192, 768}}, {{4096, 256}, {4096, 256}}};
  const CpuBackend backend("onednn");
  const auto& schema = graph::op_table()[graph::op("MatMul")];
  const graph::Attributes first_transposed{{"trans_a", std::int64_t{1}}};
  const std::vector<Format> formats(2, Format::Plain);
  for (const auto& [a, b] : shapes) {
    const Types operands{graph::TensorType{DType::F32, a}, graph::TensorType{DType::F32, b}},
        result{graph::TensorType{DType::F32, {a[1], b[1]}}};
    const double bytes = 4.0 * static_cast<double>(graph::element_count(a) + graph::element_count(b) + a[1] * b[1]);
    for (const int threads : {2, 16, 96, 192}) {
      INFO(graph::to_text(a) << " on " << threads << " threads");
      // one operand may be packed as well
      CHECK(backend.offer({schema, first_transposed, operands, result, formats, threads}).workspace.value() <= 2 * bytes);
    }
  }
  // 4,500 tokens are three pieces of 1,500
  const Case pieces{"MatMul", first_transposed, {{4500, 256}, {4500, 192}}};
  CHECK(compared(pieces, Format::Plain, 96) == "onednn:matmul");
  CHECK(!compared(in_type(pieces, DType::BF16), Format::Plain, 96).empty());
}

TEST_CASE("fast outer products agree with the reference, in steps that compute and in those between", "[onednn]") {
  struct Shapes {
    Shape x;
    graph::Attributes attributes;
  };
  const std::vector<Shapes> all = {
      {{37, 19}, {}},
      {{3, 5, 40}, {}},
      {{2, 3, 9, 8}, {{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes{1, 1, 1, 1}}, {"strides", Sizes{2, 1}}}},
      {{3, 4, 10}, {{"kernel_shape", Sizes{3}}, {"dilations", Sizes{2}}}},
      {{2, 17, 5, 6}, {{"kernel_shape", Sizes{1, 1}}}},
  };
  for (const auto& s : all)
    for (const double step : {1.0, 2.0, 3.0})
      for (const int threads : {1, 2}) {
        INFO(graph::to_text(s.x) << ", step " << step << ", " << threads << " threads");
        auto attributes = s.attributes;
        attributes.set("interval", std::int64_t{2});
        attributes.set("scale", 0.5);
        CHECK(compared({"OuterProducts", attributes, {s.x, {}}, {DType::F32, DType::I64}, {0, step}}, Format::Plain, threads) ==
              "onednn:sgemm");
      }
}

TEST_CASE("fast transposed convolutions agree with the reference", "[onednn]") {
  struct Shapes {
    Shape x, w;
    graph::Attributes attributes;
    std::int64_t channels;
  };
  const std::vector<Shapes> all = {
      {{2, 6, 5, 4}, {6, 3, 2, 2}, {{"strides", Sizes{2, 2}}}, 3},
      {{1, 17, 4, 5}, {17, 8, 3, 3}, {{"strides", Sizes{2, 2}}, {"pads", Sizes{1, 1, 1, 1}}, {"output_padding", Sizes{1, 1}}}, 8},
      {{1, 4, 3, 3}, {4, 2, 3, 3}, {{"group", std::int64_t{2}}}, 4},
      {{1, 3, 2, 3, 4}, {3, 5, 2, 2, 2}, {{"strides", Sizes{2, 2, 2}}}, 5},
  };
  for (const auto& s : all) {
    check_orders({"ConvTranspose", s.attributes, {s.x, s.w}}, "onednn:convolution");
    check_orders({"ConvTranspose", s.attributes, {s.x, s.w, {s.channels}}}, "onednn:convolution");
  }
}

TEST_CASE("fast gathers agree with the reference") {
  const std::vector<DType> types = {DType::F32, DType::I64};
  for (const int threads : {1, 2}) {
    check({"Gather", {}, {{9, 700}, {40}}, types, {0, 3}}, Format::Plain, "native:gather", threads);
    check({"Gather", {{"axis", std::int64_t{1}}}, {{3, 9, 5}, {2, 4}}, types, {0, 3}}, Format::Plain, "native:gather", threads);
    check({"GatherGrad", {{"shape", Sizes{9, 700}}}, {{40, 700}, {40}}, types, {0, 3}}, Format::Plain, "native:gather", threads);
    check({"GatherGrad", {{"axis", std::int64_t{1}}, {"shape", Sizes{3, 9, 5}}}, {{3, 4, 5}, {4}}, types, {0, 3}}, Format::Plain,
          "native:gather", threads);
  }
}

TEST_CASE("fast matrix products agree with the reference", "[slow][onednn]") {
  const std::int64_t one = 1;
  const graph::Attributes tb{{"trans_b", one}}, ta{{"trans_a", one}}, both{{"trans_a", one}, {"trans_b", one}};
  const std::vector<Case> cases = {
      {"MatMul", {}, {{17, 5}, {5, 9}}},
      {"MatMul", tb, {{17, 5}, {9, 5}}},
      {"MatMul", ta, {{5, 17}, {5, 9}}},
      {"MatMul", both, {{5, 17}, {9, 5}}},
      {"MatMul", {}, {{2, 3, 7, 5}, {2, 3, 5, 9}}},
      {"MatMul", tb, {{2, 3, 7, 5}, {2, 3, 9, 5}}},
      {"MatMul", {}, {{2, 7, 5}, {5, 9}}},
      {"MatMul", ta, {{2, 5, 7}, {5, 9}}},
      {"MatMul", {}, {{1, 7, 5}, {3, 5, 9}}},
      {"Gemm", tb, {{17, 5}, {9, 5}, {9}}},
      {"Gemm", {}, {{17, 5}, {5, 9}}},
      {"MatMul", {}, {{300, 1500}, {1500, 1500}}},
      // All sides of at least 128: by sgemm() where there is AMX.
      {"MatMul", {}, {{130, 140}, {140, 150}}},
      {"MatMul", tb, {{130, 140}, {150, 140}}},
      {"MatMul", ta, {{140, 130}, {140, 150}}},
      {"MatMul", both, {{140, 130}, {150, 140}}},
      {"MatMul", {}, {{2, 70, 140}, {140, 150}}},
      {"Gemm", {}, {{130, 140}, {140, 150}, {150}}},
      {"Gemm", both, {{140, 130}, {150, 140}, {1, 150}}},
      {"MatMul", {}, {{5}, {5, 9}}},
      {"MatMul", {}, {{7, 5}, {5}}},
  };
  for (const auto& c : cases)
    for (const int threads : {1, 2}) check(c, Format::Plain, "onednn:matmul", threads);
  check({"Gemm", {{"alpha", 0.5}}, {{17, 5}, {5, 9}}}, Format::Plain, "reference:any");
  check({"Gemm", {}, {{9, 5}, {5, 9}, {9, 1}}}, Format::Plain, "reference:any");
}

TEST_CASE("fast attention agrees with the reference") {
  // scale; mask added; hidden where false; divided; bias with a gradient
  const auto scale = std::int64_t{0}, divide = std::int64_t{1}, add = std::int64_t{2}, hide_else = std::int64_t{3}, hide = std::int64_t{4};
  const std::int64_t one = 1;
  const DType f = DType::F32, b = DType::Bool;
  struct Shapes {
    Shape q, k, v, y;
    graph::Attributes attributes;
    std::vector<Shape> others = {};
    std::vector<DType> types = {};
  };
  const std::vector<Shapes> all = {
      {{2, 3, 7, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}, {}},
      {{2, 100, 16},
       {2, 16, 100},
       {2, 100, 16},
       {2, 100, 16},
       {{"keys_last", one}, {"steps", Sizes{scale, -1, 0}}, {"numbers", std::vector{0.25}}}},
      {{1, 70, 5},
       {1, 131, 5},
       {1, 131, 19},
       {1, 70, 19},
       {{"steps", Sizes{divide, -1, 0, add, 0, 0}}, {"numbers", std::vector{2.0, 0.0}}},
       {{70, 131}},
       {f}},
      {{2, 2, 33, 12},
       {2, 1, 33, 12},
       {2, 1, 33, 12},
       {2, 2, 33, 12},
       {{"steps", Sizes{hide_else, 0, 0}}, {"numbers", std::vector{-1e30}}},
       {{33, 33}},
       {b}},
      {{2, 2, 5, 40},
       {2, 2, 40, 50},
       {2, 2, 50, 40},
       {2, 2, 5, 40},
       {{"keys_last", one}, {"steps", Sizes{hide, 0, 0, scale, -1, 0}}, {"numbers", std::vector{-3.0, 0.5}}},
       {{2, 1, 1, 50}},
       {b}},
      {{3, 2, 9, 4},
       {3, 2, 10, 4},
       {3, 2, 10, 4},
       {3, 2, 9, 4},
       {{"steps", Sizes{add, 0, 1, add, 1, 1}}, {"numbers", std::vector{0.0, 0.0}}},
       {{2, 9, 10}, {2, 1, 10}},
       {f, f}},
      {{3, 2, 9, 4},
       {3, 2, 10, 4},
       {3, 2, 10, 4},
       {3, 2, 9, 4},
       {{"steps", Sizes{add, 0, 1, hide, 1, 0}}, {"numbers", std::vector{0.0, -0.5}}},
       {{3, 1, 9, 1}, {9, 10}},
       {f, b}},
      {{2, 200, 6}, {2, 300, 6}, {2, 300, 6}, {2, 200, 6}, {{"stream", std::int64_t{7}}, {"ratio", 0.3}}},
      {{1, 3, 64}, {1, 1000, 64}, {1, 1000, 64}, {1, 3, 64}, {}},
      // Deeper than a product takes at once, more columns than fit into registers, and rows beyond whole blocks.
      {{1, 101, 136}, {1, 150, 136}, {1, 150, 200}, {1, 101, 200}, {{"steps", Sizes{scale, -1, 0}}, {"numbers", std::vector{0.1}}}},
  };
  for (const auto& s : all)
    for (const int threads : {1, 2}) {
      Case forward{"Attention", s.attributes, {s.q, s.k, s.v}, {f, f, f}},
          backward{"AttentionGrad", s.attributes, {s.y, s.q, s.k, s.v}, {f, f, f, f}};
      for (auto* c : {&forward, &backward}) {
        c->shapes.insert(c->shapes.end(), s.others.begin(), s.others.end());
        c->types.insert(c->types.end(), s.types.begin(), s.types.end());
      }
      check(forward, Format::Plain, "native:attention", threads);
      check(backward, Format::Plain, "native:attention", threads);
      check_narrow_attention(forward, threads);
      check_narrow_attention(backward, threads);
    }
}

TEST_CASE("fast element-wise kernels agree with the reference") {
  for (const auto* op :
       {"Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Identity", "LeakyRelu", "Gelu", "Scale", "Reciprocal", "HardSigmoid", "HardSwish"})
    check_orders({op, op == std::string("Scale") ? graph::Attributes{{"factor", 0.3}} : graph::Attributes{}, {{2, 17, 3, 5}}},
                 "native:elementwise");
  check({"Sqrt", {}, {{40}}, {}, {2.0}}, Format::Plain, "native:elementwise");
  const graph::Attributes bounds{{"min", -0.25}, {"max", 0.5}}, slope{{"alpha", 0.9}, {"beta", 0.4}}, tall{{"shape", Shape{2, 17, 3, 5}}};
  check_orders({"Clip", bounds, {{2, 17, 3, 5}}}, "native:elementwise");
  check_orders({"Clip", {{"max", 0.1}}, {{2, 17, 3, 5}}}, "native:elementwise");
  check_orders({"ClipGrad", bounds, {{2, 17, 3, 5}, {2, 17, 3, 5}}}, "native:elementwise");
  check_orders({"HardSigmoidGrad", slope, {{2, 17, 3, 5}, {2, 17, 3, 5}}}, "native:elementwise");
  for (const auto& shape : std::vector<Shape>{{}, {5}, {17, 1, 1}, {2, 17, 1, 1}, {2, 1, 3, 5}})
    check({"Expand", tall, {shape}}, Format::Plain, "native:elementwise");
  check_orders({"Gelu", {{"approximate", std::string("tanh")}}, {{2, 3, 3, 5}}}, "native:elementwise");
  check_orders({"GeluGrad", {{"approximate", std::string("tanh")}}, {{2, 3, 3, 5}, {2, 3, 3, 5}}}, "native:elementwise");
  for (const auto* op : {"ReluGrad", "SigmoidGrad", "TanhGrad", "GeluGrad", "LeakyReluGrad", "HardSigmoidGrad", "HardSwishGrad", "ExpGrad",
                         "Add", "Sub", "Mul", "Div", "Max", "Min"})
    for (const auto channels : {1, 3, 17}) check_orders({op, {}, {{2, channels, 3, 5}, {2, channels, 3, 5}}}, "native:elementwise");
  for (const auto& shape : std::vector<Shape>{{1}, {17, 1, 1}, {1, 17, 1, 1}, {2, 17, 1, 1}, {2, 1, 3, 5}, {}})
    check_orders({"Add", {}, {{2, 17, 3, 5}, shape}}, "native:elementwise");
  check_orders({"Mul", {}, {{2, 17, 3, 5}, {3, 5}}}, "native:elementwise");
  check_orders({"Mul", {}, {{2, 17, 3, 5}, {17, 1, 5}}}, "native:elementwise");
  check({"Sub", {}, {{5}, {2, 17, 5}}}, Format::Plain, "native:elementwise");
  check({"Where", {}, {{7, 7}, {2, 3, 7, 7}, {}}, {DType::Bool}}, Format::Plain, "native:elementwise");
  check({"Where", {}, {{7, 7}, {2, 3, 7, 7}, {1, 3, 1, 7}}, {DType::Bool}}, Format::Plain, "native:elementwise");
}

TEST_CASE("the fast functions are accurate over their whole range") {
  const CpuBackend backend("onednn");
  for (const auto* op : {"Exp", "Tanh", "Sigmoid"}) {
    const auto& schema = graph::op_table()[graph::op(op)];
    const Types type{graph::TensorType{DType::F32, {4001}}};
    const std::vector<Format> plain{Format::Plain};
    const graph::Attributes none;
    const auto kernel = backend.make("native:elementwise", {schema, none, type, type, plain, plain, 1});
    std::vector<float> x(4001), y(4001);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.02F * static_cast<float>(i) - 40.0F;
    kernel->run(std::vector<TensorView>{{x.data(), &*type[0]}}, std::vector<TensorView>{{y.data(), &*type[0]}}, {});
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto v = static_cast<double>(x[i]);
      const double truth = op == std::string("Exp") ? std::exp(v) : op == std::string("Tanh") ? std::tanh(v) : 1 / (1 + std::exp(-v));
      if (truth != 0) worst = std::max(worst, std::fabs(static_cast<double>(y[i]) / truth - 1));
    }
    INFO(op);
    CHECK(worst < 5e-7);
  }
}

TEST_CASE("nodes that ask for the same share a kernel, until the backend forgets it") {
  const CpuBackend backend("onednn");
  const std::vector<Format> plain{Format::Plain};
  const auto make = [&](double alpha, std::int64_t count) {
    const Types type{graph::TensorType{DType::F32, {count}}};
    return backend.make("native:elementwise", {graph::op_table()[graph::op("LeakyRelu")], {{"alpha", alpha}}, type, type, plain, plain, 1});
  };
  const auto kernel = make(0.1, 8);
  CHECK(make(0.1, 8) == kernel);
  CHECK(make(0.1, 9) != kernel);
  CHECK(make(std::nextafter(0.1, 1.0), 8) != kernel);
  backend.forget();
  CHECK(make(0.1, 8) != kernel);
}

TEST_CASE("fast normalizations agree with the reference") {
  for (const std::int64_t channels : {1, 3, 17, 64}) {
    const Shape x{2, channels, 5, 7}, sums{2, channels}, vector{channels};
    const graph::Attributes count{{"count", std::int64_t{70}}};
    // sums of 35: mean 0.5, variance 0.25
    check_orders({"BatchNormSums", count, {x}}, "native:normalization");
    check_orders({"BatchNormApply", count, {x, sums, vector, vector}, {DType::F32, DType::F64}, {0, 35}}, "native:normalization");
    check_orders({"BatchNormGradSums", count, {x, sums, x}, {DType::F32, DType::F64}, {0, 35}}, "native:normalization");
    check_orders(
        {"BatchNormGradInput", count, {x, sums, vector, x, sums}, {DType::F32, DType::F64, DType::F32, DType::F32, DType::F64}, {0, 35}},
        "native:normalization");
  }
  for (const std::int64_t length : {1, 3, 17, 130}) {
    const Shape x{2, 5, length}, v{length}, rows{2, 5, 1};
    const graph::Attributes last{{"axis", std::int64_t{-1}}};
    check({"LayerNormalization", last, {x, v, v}}, Format::Plain, "native:layer-normalization");
    check({"LayerNormalization", last, {x, v}}, Format::Plain, "native:layer-normalization", 2);
    check({"RMSNormalization", last, {x, v}}, Format::Plain, "native:rms-normalization", 2);
    check({"RMSNormalization", last, {x}}, Format::Plain, "native:rms-normalization");
    check({"RMSNormalizationGradInput", last, {x, rows, x, v}, {}, {0, 1.5}}, Format::Plain, "native:rms-normalization");
    check({"RMSNormalizationGradParameters", last, {x, rows, x}, {}, {0, 1.5}}, Format::Plain, "native:rms-normalization", 2);
    check({"LayerNormalizationGradInput", last, {x, rows, rows, x, v}, {}, {0, 0.1, 1.5}}, Format::Plain, "native:layer-normalization");
    check({"LayerNormalizationGradParameters", last, {x, rows, rows, x}, {}, {0, 0.1, 1.5}}, Format::Plain, "native:layer-normalization",
          2);
  }
}

TEST_CASE("fast pools, sums and copies agree with the reference") {
  const graph::Attributes pool{{"kernel_shape", Sizes{3, 3}}, {"strides", Sizes{2, 2}}, {"pads", Sizes{1, 1, 1, 1}}};
  for (const std::int64_t channels : {1, 3, 17, 70}) {
    for (const int threads : {1, 2}) {
      check({"MaxPool", pool, {{2, channels, 9, 8}}}, Format::ChannelsLast, "native:pooling", threads);
      check({"MaxPoolGrad", pool, {{2, channels, 9, 8}, {2, channels, 5, 4}}}, Format::ChannelsLast, "native:pooling", threads);
    }
    check_orders({"ReduceSum", {{"axes", Sizes{2, 3}}, {"keepdims", std::int64_t{0}}, {"scale", 0.25}}, {{2, channels, 9, 8}}},
                 "native:reduction");
    for (const std::int64_t pad : {0, 1}) {
      graph::Attributes mean = pool, back = pool;
      mean.set("count_include_pad", pad);
      back.set("count_include_pad", pad);
      back.set("shape", Sizes{9, 8});
      check({"AveragePool", mean, {{2, channels, 9, 8}}}, Format::ChannelsLast, "native:pooling", 2);
      check({"AveragePoolGrad", back, {{2, channels, 5, 4}}}, Format::ChannelsLast, "native:pooling", 2);
    }
    check_orders({"ConvGradBias", {}, {{2, channels, 9, 8}}}, "native:reduction");
    check_orders({"Concat", {{"axis", std::int64_t{1}}}, {{2, channels, 3, 4}, {2, channels, 3, 4}}}, "native:copy");
    check_orders({"Split", {{"axis", std::int64_t{1}}, {"split", Sizes{channels, 2 * channels}}}, {{2, 3 * channels, 3, 4}}},
                 "native:copy");
  }
  for (const auto& axes : std::vector<Sizes>{{0}, {0, 1}, {1}, {2}, {1, 2}, {0, 1, 2}})
    for (const int threads : {1, 2}) check({"ReduceSum", {{"axes", axes}}, {{6, 17, 300}}}, Format::Plain, "native:reduction", threads);
  for (const auto& axes : std::vector<Sizes>{{0, 2}, {0, 1, 3}, {0, 2, 3}})
    for (const int threads : {1, 2}) check({"ReduceSum", {{"axes", axes}}, {{6, 5, 17, 30}}}, Format::Plain, "native:reduction", threads);
  check({"ReduceSum", {{"axes", Sizes{1, 3}}}, {{6, 5, 17, 30}}}, Format::Plain, "reference:any");
  for (const auto& perm : std::vector<Sizes>{{0, 2, 1, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}, {0, 1, 3, 2}, {0, 1, 2, 3}, {2, 3, 0, 1}})
    check_orders({"Transpose", {{"perm", perm}}, {{3, 20, 4, 33}}}, "native:transpose");
  check_orders({"Transpose", {{"perm", Sizes{0, 3, 1, 2}}}, {{3, 20, 4, 33}}}, "native:transpose");
  check({"Transpose", {}, {{70, 130}}}, Format::Plain, "native:transpose", 2);
}

TEST_CASE("fast softmax and cross entropy agree with the reference") {
  for (const std::int64_t classes : {1, 3, 17, 130}) {
    check({"Softmax", {{"axis", std::int64_t{-1}}}, {{2, 5, classes}}}, Format::Plain, "native:softmax", 2);
    check({"SoftmaxGrad", {{"axis", std::int64_t{-1}}}, {{2, 5, classes}, {2, 5, classes}}}, Format::Plain, "native:softmax");
  }
  const graph::Attributes last{{"axis", std::int64_t{-1}}};
  check({"LogSumExp", last, {{9, 7}}}, Format::Plain, "native:softmax", 2);
  check({"CrossEntropySum", last, {{9, 7}, {9}, {}, {9}}, {DType::F32, DType::I64, DType::Count, DType::F64}}, Format::Plain,
        "native:cross-entropy", 2);
  check({"CrossEntropyGrad",
         last,
         {{9, 7}, {9}, {}, {}, {9}},
         {DType::F32, DType::I64, DType::F64, DType::Count, DType::F64},
         {0, 0, 0.125, 0, 2}},
        Format::Plain, "native:cross-entropy");
  check({"Softmax", {{"axis", std::int64_t{1}}}, {{2, 5, 3}}}, Format::Plain, "reference:any");
}

TEST_CASE("fast optimizer steps agree with the reference") {
  const Shape p{5, 70};
  const std::vector<DType> types{DType::F32, DType::F32, DType::I64, DType::F32, DType::F32};
  // Step 3; second moments must not be negative, so all states are 0.5.
  check({"SgdUpdate", {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.01}}, {p, p, {}, p}, types, {0, 0, 3, 0.5}}, Format::Plain,
        "native:optimizer", 2);
  check({"SgdUpdate", {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1.0}}, {p, p, {}, p}, types, {0, 0, 3, 0.5}}, Format::Plain,
        "native:optimizer");
  check({"SgdUpdate", {{"lr", 0.1}}, {p, p, {}}, types, {0, 0, 3}}, Format::Plain, "native:optimizer");
  for (const double decoupled : {0.0, 1.0})
    check({"AdamUpdate", {{"lr", 0.1}, {"weight_decay", 0.01}, {"decoupled", decoupled}}, {p, p, {}, p, p}, types, {0, 0, 3, 0.5, 0.5}},
          Format::Plain, "native:optimizer", 2);
}

TEST_CASE("fast optimizer steps read gradients of 16 bits, and round the parameter, block by block") {
  const Shape p{5, 700};  // three blocks and a short one
  for (const DType narrow : {DType::BF16, DType::F16})
    for (const bool rounds : {false, true})
      for (const int threads : {1, 2}) {
        graph::Attributes attributes{{"lr", 0.1}, {"weight_decay", 0.01}, {"momentum", 0.9}};
        if (rounds) attributes.set("rounded_to", std::string(name(narrow)));
        const std::vector<DType> types{DType::F32, narrow, DType::I64, DType::F32, DType::F32};
        CHECK(compared({"SgdUpdate", attributes, {p, p, {}, p}, types, {0, 0, 3, 0.5}}, Format::Plain, threads) == "native:optimizer");
        CHECK(compared({"AdamUpdate", attributes, {p, p, {}, p, p}, types, {0, 0, 3, 0.5, 0.5}}, Format::Plain, threads) ==
              "native:optimizer");
        CHECK(compared({"RmspropUpdate", attributes, {p, p, {}, p, p}, types, {0, 0, 3, 0.5, 0.5}}, Format::Plain, threads) ==
              "reference:any");
        attributes.set("momentum", 0.0);
        CHECK(compared({"SgdUpdate", attributes, {p, p, {}}, types, {0, 0, 3}}, Format::Plain, threads) == "native:optimizer");
      }
}

TEST_CASE("fast kernels leave f64 to the reference") {
  check({"Relu", {}, {{4, 4}}, {DType::F64}}, Format::Plain, "reference:any");
  check({"MatMul", {}, {{4, 4}, {4, 4}}, {DType::F64, DType::F64}}, Format::Plain, "reference:any");
  check({"BatchNormSums", {}, {{2, 3, 4, 4}}, {DType::F64}}, Format::ChannelsLast, "reference:any");
}

TEST_CASE("16 bits are loaded and stored by the kernels themselves, without widened copies of whole tensors") {
  const Shape x{2, 16, 4, 4}, v{16}, rows{6, 32}, statistics{6, 1};
  const DType b = DType::BF16;
  const Case cases[] = {
      {"Relu", {}, {x}},
      {"Add", {}, {x, x}},
      {"Where", {}, {rows, rows, rows}, {DType::Bool, b, b}},
      {"BatchNormSums", {{"count", std::int64_t{32}}}, {x}},
      {"BatchNormApply", {{"count", std::int64_t{32}}}, {x, {2, 16}, v, v}, {b, DType::F64, b, b}},
      {"LayerNormalization", {}, {rows, {32}, {32}}},
      {"LayerNormalizationGradInput", {}, {rows, statistics, statistics, rows, {32}}},
      {"Softmax", {}, {rows}},
      {"LogSumExp", {{"axis", std::int64_t{1}}}, {rows}},
      {"MaxPool", {{"kernel_shape", Sizes{2, 2}}}, {x}},
      {"ReduceSum", {{"axes", Sizes{0}}}, {rows}},
      {"Transpose", {}, {rows}},
      {"Split", {{"split", Sizes{2, 4}}}, {rows}},
      {"Gather", {}, {rows, {3}}, {b, DType::I64}},
      {"GatherGrad", {{"shape", Sizes{6, 32}}}, {{3, 32}, {3}}, {b, DType::I64}},
      {"Cast", {{"to", std::string("f32")}}, {rows}},
  };
  for (const auto& c : cases) CHECK(compared(in_type(c, b), Format::ChannelsLast, 1).starts_with("native:"));
}

TEST_CASE("products of bf16 run on the processor's units for them, or the offer says what is missing") {
  const Types factors(2, graph::TensorType{DType::BF16, {64, 64}}), product(1, graph::TensorType{DType::BF16, {64, 64}});
  const std::vector<Format> formats(2, Format::Plain);
  const auto offer = CpuBackend("onednn").offer({graph::op_table()[graph::op("MatMul")], {}, factors, product, formats, 1});
  const bool direct = offer.implementation == "onednn:matmul", widened = offer.implementation == "widened:onednn:matmul";
  CHECK((direct || widened));
  if (widened) CHECK_THAT(offer.why, contains("AVX512_BF16 or AMX"));
}
