// Cases of convolution, pooling, normalization, resize, padding and dropout.

#include "graph/composites.hpp"
#include "tests/exec/gradients.hpp"

namespace rehearsal::exec {
namespace {

using Integers = std::vector<std::int64_t>;
using Operands = std::vector<graph::TensorId>;
constexpr std::int64_t kYes = 1;

graph::Attributes with(graph::Attributes attributes, const char* key, graph::AttributeValue value) {
  attributes.set(key, std::move(value));
  return attributes;
}

graph::Attributes pool(Integers kernel, Integers strides, Integers pads) {
  return {{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}, {"pads", std::move(pads)}};
}

Operands batch_norm(graph::GraphBuilder& builder, const Operands& operands, const graph::Attributes&) {
  return {add_batch_norm(builder, {.x = operands[0], .scale = operands[1], .bias = operands[2], .epsilon = 1e-3})};
}
Operands group_norm(graph::GraphBuilder& builder, const Operands& operands, const graph::Attributes& attributes) {
  return {add_group_norm(builder, {operands[0], operands[1], operands[2], attributes.integer("num_groups", 1), 1e-3})};
}
/// The saved statistics are results too, but no gradient flows through them.
Operands layer_norm(graph::GraphBuilder& builder, const Operands& operands, const graph::Attributes& attributes) {
  return {builder.add("LayerNormalization", operands, attributes).front()};
}
/// As a model that names only the first result.
Operands layer_norm_alone(graph::GraphBuilder& builder, const Operands& operands, const graph::Attributes& attributes) {
  return builder.add("LayerNormalization", operands, attributes, {"", graph::Phase::Forward, graph::NodeId::None, {"normalized"}});
}
Operands rms_norm_alone(graph::GraphBuilder& builder, const Operands& operands, const graph::Attributes& attributes) {
  return builder.add("RMSNormalization", operands, attributes, {"", graph::Phase::Forward, graph::NodeId::None, {"normalized"}});
}
Operands rms_norm(graph::GraphBuilder& builder, const Operands& operands, const graph::Attributes& attributes) {
  return {builder.add("RMSNormalization", operands, attributes).front()};
}

}  // namespace

GradientCases convolution_cases() {
  const graph::Attributes uneven = {{"strides", Integers{2, 1}}, {"dilations", Integers{1, 2}}, {"pads", Integers{1, 0, 2, 3}}};
  return {
      {"Conv", {drawn({2, 3, 5, 5}), drawn({4, 3, 3, 3}), drawn({4})}, {{"pads", Integers{1, 1, 1, 1}}}},
      {"Conv", {drawn({1, 4, 6, 7}), drawn({6, 2, 3, 2})}, with(uneven, "group", std::int64_t{2})},
      {"Conv",
       {drawn({2, 3, 4, 4}), drawn({3, 1, 2, 2}), drawn({3})},
       {{"group", std::int64_t{3}}, {"strides", Integers{2, 2}}}},                 // depthwise
      {"Conv", {drawn({2, 2, 7}), drawn({3, 2, 2})}, {{"strides", Integers{3}}}},  // the last element is in no window
      {"Conv", {drawn({1, 2, 3, 4, 3}), drawn({2, 2, 2, 3, 1})}, {{"pads", Integers{0, 1, 0, 1, 0, 0}}}},
      {"Conv", {drawn({1, 1, 2}), drawn({1, 1, 3})}, {{"pads", Integers{4, 3}}}},  // whole windows of padding
      {"ConvTranspose", {drawn({2, 3, 4, 3}), drawn({3, 2, 2, 2}), drawn({2})}, {{"strides", Integers{2, 2}}}},
      {"ConvTranspose",
       {drawn({1, 4, 3, 4}), drawn({4, 3, 3, 2})},
       with(with(uneven, "group", std::int64_t{2}), "output_padding", Integers{1, 0})},
      {"ConvTranspose",
       {drawn({1, 2, 5}), drawn({2, 3, 3})},
       {{"dilations", Integers{3}}, {"output_padding", Integers{2}}, {"pads", Integers{1, 2}}}},  // >= stride
      {"ConvTranspose", {drawn({1, 2, 2, 3, 2}), drawn({2, 1, 2, 2, 2})}, {{"strides", Integers{2, 1, 2}}}},
  };
}

GradientCases pooling_cases() {
  const graph::Attributes plain = pool({2, 3}, {2, 2}, {0, 1, 1, 2}), line = pool({3}, {2}, {1, 1});
  GradientCases cases;
  for (const char* op : {"MaxPool", "AveragePool"}) {
    cases.push_back({op, {drawn({2, 3, 5, 6})}, plain});
    cases.push_back({op, {drawn({1, 2, 8})}, with(line, "ceil_mode", kYes)});
    cases.push_back({op, {drawn({1, 2, 9})}, with(line, "dilations", Integers{2})});
    cases.push_back({op, {drawn({1, 1, 3, 4, 3})}, pool({2, 2, 2}, {1, 2, 1}, {0, 0, 0, 0, 0, 1})});
  }
  cases.push_back({"AveragePool", {drawn({2, 3, 5, 6})}, with(plain, "count_include_pad", kYes)});
  cases.push_back({"AveragePool", {drawn({1, 2, 8})}, with(with(line, "ceil_mode", kYes), "count_include_pad", kYes)});
  return cases;
}

GradientCases normalization_cases() {
  const graph::Attributes last = {{"axis", std::int64_t{-1}}, {"epsilon", 1e-3}}, inner = {{"axis", std::int64_t{1}}};
  return {
      {"BatchNormApply", {drawn({3, 2, 2, 3}), drawn({2}), drawn({2})}, {}, 1e-6, batch_norm},
      {"BatchNormApply", {drawn({5, 3}), drawn({3}), drawn({3})}, {}, 1e-6, batch_norm},
      {"BatchNormInference", {drawn({2, 3, 4}), drawn({3}), drawn({3}), fixed({3}), fixed({3}, 0.5, 2)}, {}},
      {"BatchNormInference", {drawn({2, 3, 4}), drawn({3}), drawn({3}), drawn({3}), drawn({3}, 0.5, 2)}, {}},
      {"GroupNormApply", {drawn({2, 6, 3}), drawn({6}), drawn({6})}, {{"num_groups", std::int64_t{2}}}, 1e-6, group_norm},
      {"GroupNormApply",
       {drawn({2, 3, 2, 2}), drawn({3}), drawn({3})},
       {{"num_groups", std::int64_t{3}}},
       1e-6,
       group_norm},  // instance normalization
      {"LayerNormalization", {drawn({2, 3, 5}), drawn({5}), drawn({5})}, last, 1e-6, layer_norm},
      {"LayerNormalization", {drawn({2, 3, 4}), drawn({3, 4})}, inner, 1e-6, layer_norm},
      {"LayerNormalization", {drawn({2, 4})}, last, 1e-6, layer_norm_alone},
      {"LayerNormalization", {drawn({2, 4}), absent(), drawn({4})}, last, 1e-6, layer_norm},
      {"RMSNormalization", {drawn({2, 3, 5}), drawn({5})}, last, 1e-6, rms_norm},
      {"RMSNormalization", {drawn({2, 2, 3})}, inner, 1e-6, rms_norm},
      {"RMSNormalization", {drawn({2, 4}), drawn({4})}, last, 1e-6, rms_norm_alone},
  };
}

GradientCases resize_cases() {
  GradientCases cases;
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"}) {
      cases.push_back(
          {"Resize",
           {drawn({1, 2, 3, 5})},
           {{"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string(coordinates)}, {"sizes", Integers{7, 4}}}});
    }
  }
  cases.push_back({"Resize", {drawn({2, 3, 2, 3, 2})}, {{"mode", std::string("linear")}, {"sizes", Integers{4, 6, 4}}}});
  cases.push_back(
      {"Resize",
       {drawn({1, 1, 4})},
       {{"mode", std::string("cubic")}, {"exclude_outside", kYes}, {"sizes", Integers{7}}, {"scales", std::vector<double>{1.8}}}});
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    cases.push_back({"Pad", {drawn({2, 3, 4})}, {{"mode", std::string(mode)}, {"pads", Integers{2, 1, 0, 3}}, {"value", 0.5}}});
    cases.push_back({"Pad", {drawn({1, 5, 4})}, {{"mode", std::string(mode)}, {"pads", Integers{-1, 2, 1, -2}}}});
  }
  return cases;
}

GradientCases dropout_cases() { return {{"Dropout", {drawn({4, 6})}, {{"ratio", 0.3}, {"stream", std::int64_t{11}}}}}; }

}  // namespace rehearsal::exec
