// Where a model changes its gradients without the file saying how: told by the exporter's notes, or by a row of zeros, and warned of.

#include "formats/onnx/notes.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats::testing {
namespace {

void written_at(onnx::NodeProto& node, const std::string& stack) {
  auto& entry = *node.add_metadata_props();
  entry.set_key("pkg.torch.onnx.stack_trace");
  entry.set_value(stack);
}

bool warns_of(const ImportedModel& model, const std::string& part, const std::string& tensor) {
  return std::any_of(model.warnings.begin(), model.warnings.end(), [&](const std::string& warning) {
    return warning.find(part) != std::string::npos && warning.find("'" + tensor + "'") != std::string::npos;
  });
}

/// x w behind Exp, which stands where `stack` says; with `of_weight` it is of the weight, else of the input alone.
ImportedModel exponential(const std::string& stack, bool of_weight) {
  ModelBuilder m(18);
  m.input("x", {"2", "2"}).floats("fc.weight", {2, 2}, {1, 2, 3, 4}).output("y");
  m.node("MatMul", {"x", "fc.weight"}, {"h"});
  written_at(m.node("Exp", {of_weight ? "h" : "x"}, {"e"}), stack);
  m.node("Add", {"e", "h"}, {"y"});
  return m.import();
}

ImportedModel traced_table(const std::vector<float>& values) {
  ModelBuilder m(17);
  m.input("ids", {"2"}, 7).floats("embed.weight", {4, 2}, values).output("y");
  m.model().set_producer_name("pytorch");
  m.node("Gather", {"embed.weight", "ids"}, {"y"});
  return m.import();
}

}  // namespace

TEST_CASE("arguments of calls are read from the exporter's notes") {
  onnx::NodeProto node;
  CHECK(source_arguments(node).empty());
  set_source_call(node, "aten.sum.dim_IntList", {"%x", "[1, (2, 3)]", "True"});
  CHECK(source_function(node) == "aten.sum.dim_IntList");
  CHECK(source_arguments(node) == std::vector<std::string>{"%x", "[1, (2, 3)]", "True"});
  // cut off, and closed too early
  for (const std::string text : {"[target=a](args = (%x, [2", "[target=a](args = (%x]"}) {
    onnx::NodeProto broken;
    auto& entry = *broken.add_metadata_props();
    entry.set_key("pkg.torch.onnx.fx_node");
    entry.set_value(text);
    CHECK(source_arguments(broken).size() <= 1);
  }
}

TEST_CASE("a gradient through a block of no_grad, or through a function of the model's own, gets a warning") {
  const std::string block = "File \"<eval_with_key>.12\", line 5, in forward\n    exp = torch.ops.aten.exp.default(h)";
  CHECK(warns_of(exponential(block, true), "torch.no_grad()", "e"));
  CHECK(exponential(block, false).warnings.empty());  // no weight in it: nothing that could be wrong
  const std::string call = "File \"net.py\", line 24, in forward\n    y = Rounded.apply(h)", inner = "\n  File \"net.py\", line 5, in ";
  CHECK(warns_of(exponential(call + inner + "forward\n    return torch.exp(x)", true), "torch.autograd.Function", "e"));
  CHECK(exponential(call + inner + "helper\n    return torch.exp(x)", true).warnings.empty());
  CHECK(exponential("File \"net.py\", line 24, in forward\n    y = h.exp()", true).warnings.empty());
}

TEST_CASE("weights that the older exporter computed from others are doubted") {
  const auto convolution = [](const std::string& weight, const std::string& bias) {
    ModelBuilder m(17);
    m.input("x", {"1", "1", "2", "2"}).floats(weight, {1, 1, 1, 1}, {2}).floats(bias, {1}, {3}).output("y");
    m.model().set_producer_name("pytorch");
    m.node("Conv", {"x", weight, bias}, {"y"});
    return m.import();
  };
  CHECK(warns_of(convolution("onnx::Conv_7", "fc.bias"), "do_constant_folding=False", "onnx::Conv_7"));
  CHECK(convolution("fc.weight", "fc.bias").warnings.empty());
  const auto normalized = convolution("onnx::Conv_7", "onnx::Conv_8");
  REQUIRE(normalized.warnings.size() == 1);
  CHECK(normalized.warnings[0].find("BatchNormalization") != std::string::npos);
}

TEST_CASE("a table with one row of zeros may be padded, which the older exporter does not say") {
  CHECK(warns_of(traced_table({0, 0, 1, 2, 3, 4, 5, 6}), "padding_idx", "embed.weight"));
  CHECK(warns_of(traced_table({1, 2, 3, 4, 5, 6, 0, 0}), "padding_idx", "embed.weight"));
  CHECK(traced_table({0, 1, 1, 2, 3, 4, 5, 6}).warnings.empty());
  CHECK(traced_table({0, 0, 0, 0, 0, 0, 0, 0}).warnings.empty());  // not drawn yet
}

}  // namespace rehearsal::formats::testing
