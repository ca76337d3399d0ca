// A file with a batch written into it, used with another one. The truth is the same model with its batch left open.

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "formats/onnx/rebatch/size_factors.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats::testing {
namespace {

using graph::Shape;

ImportedModel with_batch(ModelBuilder model, std::int64_t batch) {
  ImportOptions options;
  options.batch = batch;
  return model.import(options);
}

std::string refusal(const ModelBuilder& model, std::int64_t batch) {
  return bad_input([&] { (void)with_batch(model, batch); });
}

Shape shape_of(const ImportedModel& model, const std::string& tensor) { return model.tensors.at(tensor).shape; }

/// A tensor of the file that is no weight: exporters write it as a node.
void constant(ModelBuilder& model, const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values) {
  auto& attribute = *model.node("Constant", {}, {name}).add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  attribute.mutable_t()->set_data_type(1);
  for (const std::int64_t d : dims) attribute.mutable_t()->add_dims(d);
  for (const float v : values) attribute.mutable_t()->add_float_data(v);
}

/// Attention as exporters write it at a fixed batch: heads taken apart and put together by shapes with the batch in them.
ModelBuilder attention(const std::string& batch, const std::string& heads_apart, const std::string& together) {
  const auto numbers = [&](const std::string& list) {
    std::vector<std::int64_t> values;
    std::istringstream in(list);
    for (std::int64_t v = 0; in >> v;) values.push_back(v);
    return values;
  };
  ModelBuilder m;
  m.input("x", {batch, "5", "12"}).floats("w", {12, 12}, std::vector<float>(144, 0.1F));
  m.integers("apart", numbers(heads_apart)).integers("together", numbers(together));
  m.node("MatMul", {"x", "w"}, {"q"});
  m.node("Reshape", {"q", "apart"}, {"q4"});
  set(m.node("Transpose", {"q4"}, {"heads"}), "perm", std::vector<std::int64_t>{0, 2, 1, 3});
  set(m.node("Transpose", {"heads"}, {"turned"}), "perm", std::vector<std::int64_t>{0, 1, 3, 2});
  m.node("MatMul", {"heads", "turned"}, {"scores"});
  m.node("MatMul", {"scores", "heads"}, {"mixed"});
  set(m.node("Transpose", {"mixed"}, {"back"}), "perm", std::vector<std::int64_t>{0, 2, 1, 3});
  m.node("Reshape", {"back", "together"}, {"y"});
  return m.output("y");
}

}  // namespace

TEST_CASE("sizes are taken apart in the order of their factors") {
  const Factor batch{Factor::Kind::Batch, 2, 13};
  const auto constant = [](std::int64_t n) { return Factor{Factor::Kind::Constant, n, n}; };
  // [rows, batch * 8] written as [5, 16] -> [5, 2, 8], and with the batch inside: [5, 8 * batch] -> [5, 2, 8] takes 8 apart, not the batch
  CHECK(probed_shape(regrouped({{constant(5)}, {batch, constant(8)}}, {5, 2, 8})->law) == Shape{5, 13, 8});
  CHECK(probed_shape(regrouped({{constant(5)}, {constant(8), batch}}, {5, 2, 8})->law) == Shape{5, 2, 4 * 13});
  CHECK(probed_shape(regrouped({{batch}, {constant(6)}}, {12})->law) == Shape{78});
  // 4 * batch as [8, 1] and back; but a batch cannot be taken apart: [batch, 3] -> [1, 6] is one number, [3, 2] is not a whole batch
  CHECK(probed_shape(regrouped({{constant(4)}, {batch}}, {8, 1})->law) == Shape{52, 1});
  CHECK_FALSE(regrouped({{batch}, {constant(3)}}, {3, 2}));
  const Factor one{Factor::Kind::Batch, 1, 13};
  const auto first = regrouped({{constant(5)}, {one}, {constant(6)}}, {5, 6}),
             second = regrouped({{constant(5)}, {one}, {constant(6)}}, {5, 6}, true);
  CHECK(first->assumed);
  CHECK(probed_shape(first->law) == Shape{5, 78});
  CHECK(probed_shape(second->law) == Shape{65, 6});
}

TEST_CASE("shapes that are written out follow the batch") {
  const ImportedModel truth = with_batch(attention("N", "0 5 3 4", "0 5 12"), 7);
  for (const char* apart : {"2 5 3 4", "2 -1 3 4", "-1 5 3 4"}) {
    const ImportedModel model = with_batch(attention("2", apart, "2 5 12"), 7);
    for (const char* tensor : {"q4", "heads", "scores", "y"}) CHECK(shape_of(model, tensor) == shape_of(truth, tensor));
    CHECK(model.graph.nodes().size() == truth.graph.nodes().size());
  }
  CHECK(shape_of(with_batch(attention("2", "2 5 3 4", "10 12"), 1), "y") == Shape{5, 12});
  // 3 batch elements and 3 heads: only the order of the factors tells them apart
  CHECK(shape_of(with_batch(attention("3", "3 5 3 4", "3 5 12"), 4), "heads") == Shape{4, 3, 5, 4});
}

TEST_CASE("constants with a row per sample follow the batch when the rows are equal") {
  const auto masked = [](const std::vector<float>& mask) {
    ModelBuilder m;
    m.input("x", {"2", "3"});
    constant(m, "mask", {2, 3}, mask);
    m.node("Add", {"x", "mask"}, {"y"});
    return m.output("y");
  };
  const ImportedModel model = with_batch(masked({0, 1, 2, 0, 1, 2}), 4);
  CHECK(shape_of(model, "y") == Shape{4, 3});
  CHECK(shape_of(model, "mask") == Shape{4, 3});
  CHECK(refusal(masked({0, 1, 2, 0, 1, 3}), 4).find("other numbers for every sample") != std::string::npos);
  // fewer than the file has: without care the mask would broadcast the single sample to two
  CHECK(shape_of(with_batch(masked({0, 1, 2, 0, 1, 2}), 1), "y") == Shape{1, 3});
}

TEST_CASE("indices that count the samples go on counting, others are refused") {
  const auto picking = [](const std::vector<std::int64_t>& rows) {
    ModelBuilder m;
    m.input("x", {"2", "3"}).integers("rows", rows);
    m.node("Relu", {"x"}, {"r"});
    set(m.node("Gather", {"r", "rows"}, {"y"}), "axis", std::int64_t{0});
    return m.output("y");
  };
  CHECK(shape_of(with_batch(picking({0, 1}), 5), "y") == Shape{5, 3});
  CHECK(refusal(picking({1, 0}), 5).find("picks the same samples") != std::string::npos);
  CHECK(refusal(picking({0}), 5).find("the_Gather") != std::string::npos);
}

TEST_CASE("weights that are expanded to the batch, and what is drawn for every sample") {
  ModelBuilder token;
  token.input("x", {"2", "4", "3"}).floats("token", {1, 1, 3}, {1, 2, 3}).integers("to", {2, 1, 3});
  token.node("Expand", {"token", "to"}, {"tokens"});
  set(token.node("Concat", {"tokens", "x"}, {"y"}), "axis", std::int64_t{1});
  token.output("y");
  CHECK(shape_of(with_batch(token, 6), "y") == Shape{6, 5, 3});

  ModelBuilder depth;  // stochastic depth: a dropout of ones, one number per sample
  depth.input("x", {"2", "3"}).floats("ratio", {}, {0.5F});
  constant(depth, "ones", {2, 1}, {1, 1});
  depth.node("Dropout", {"ones", "ratio"}, {"keep"});
  depth.node("Mul", {"x", "keep"}, {"y"});
  depth.output("y");
  CHECK(shape_of(with_batch(depth, 6), "keep") == Shape{6, 1});
}

TEST_CASE("a weight with a row per sample of the file is refused") {
  ModelBuilder m;
  m.input("x", {"2", "3"}).floats("w", {2, 3}, {1, 1, 1, 1, 1, 1});
  m.node("Mul", {"x", "w"}, {"y"});
  m.output("y");
  CHECK(refusal(m, 4).find("is trained") != std::string::npos);
}

TEST_CASE("what mixes samples with numbers of the file is refused by node") {
  ModelBuilder similar;  // contrastive: all samples against all, the diagonal taken out
  similar.input("x", {"2", "3"});
  constant(similar, "eye", {2, 2}, {1, 0, 0, 1});
  set(similar.node("Transpose", {"x"}, {"t"}), "perm", std::vector<std::int64_t>{1, 0});
  similar.node("MatMul", {"x", "t"}, {"s"});
  similar.node("Sub", {"s", "eye"}, {"y"});
  similar.output("y");
  CHECK(refusal(similar, 4).find("the_Sub") != std::string::npos);

  ModelBuilder mean;  // a mean over the batch whose number of samples is written out
  mean.input("x", {"2", "3"}).floats("count", {}, {2}).integers("axes", {0});
  set(mean.node("ReduceSum", {"x", "axes"}, {"s"}), "keepdims", std::int64_t{0});
  mean.node("Div", {"s", "count"}, {"y"});
  mean.output("y");
  CHECK(refusal(mean, 4).find("number of samples written out") != std::string::npos);

  ModelBuilder half;
  half.input("x", {"2", "3"}).integers("from", {0}).integers("to", {1}).integers("axes", {0});
  half.node("Slice", {"x", "from", "to", "axes"}, {"y"});
  half.output("y");
  CHECK(refusal(half, 4).find("the same rows out of the batch") != std::string::npos);
}

TEST_CASE("a batch of 1 is reported as ambiguous") {
  const ImportedModel model = with_batch(attention("1", "1 5 3 4", "1 5 12"), 3);
  CHECK(shape_of(model, "heads") == Shape{3, 3, 5, 4});
  const auto told = [&](const std::string& warning) { return warning.find("a dimension of 1 may be the batch") != std::string::npos; };
  CHECK(std::any_of(model.warnings.begin(), model.warnings.end(), told));
}

TEST_CASE("exports at two batches agree in every tensor", "[models][slow]") {
  namespace files = std::filesystem;
  const files::path zoo = "../shared/models/zoo";
  if (!files::exists(zoo)) {
    WARN("skipped: " << zoo << " is not here");
    return;
  }
  int pairs = 0;
  for (const char* name :
       {"bn1dseq.train", "convnext_tiny.train", "gru_lm.eval", "grouproll.train", "timedist.train", "unet2d_pad.train", "maxvit_t.train"}) {
    const std::string two = (zoo / (std::string(name) + "b2.onnx")).string(), six = (zoo / (std::string(name) + "b6.onnx")).string();
    if (!files::exists(two) || !files::exists(six)) continue;
    ImportOptions options;
    options.batch = 6;
    const ImportedModel rewritten = import_onnx(two, options), truth = import_onnx(six, options);
    for (const auto& [tensor, type] : truth.tensors) {
      INFO(name << " " << tensor);
      const bool shared = rewritten.tensors.contains(tensor) && tensor != "/r/Constant_output_0";  // read whole and in parts
      if (shared) CHECK(rewritten.tensors.at(tensor) == type);
    }
    CHECK(rewritten.graph.nodes().size() >= truth.graph.nodes().size());
    ++pairs;
  }
  CHECK(pairs > 0);
}

}  // namespace rehearsal::formats::testing
