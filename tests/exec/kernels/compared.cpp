#include "tests/exec/kernels/compared.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/image_order.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exec {
namespace {

/// In f32 the reference kernels themselves are 1.2e-5 away where attention sums terms that cancel.
double tolerance(DType type) {
  if (type == DType::F64) return 1e-12;
  return type == DType::F32 ? 2e-5 : type == DType::F16 ? 0x1p-9 : 0x1p-6;
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = a[i].values.size() == b[i].values.size() &&
           std::memcmp(a[i].values.data(), b[i].values.data(), a[i].values.size() * sizeof(double)) == 0;
  return same;
}

/// The largest difference, or that of a number and none.
double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (const double difference = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]); !(difference <= most)) {
      most = difference;
      if (most != most) break;
    }
  return most;
}

bool has_row(const std::string& op) {
  for (const KernelRow& row : cuda::body_kernels())
    if (row.op == op) return true;
  return false;
}

void compare_images(const OneNode& node, Accuracy accuracy) {
  for (const DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    INFO(node.op << " in " << name(type) << ", images " << plan::name(node.images));
    const OneNode operands = rounded(node, type);
    const auto found = run(operands, type), expected = run_reference(operands);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("result " << i << ", at most " << apart(found[i].values, expected[i].values) << " apart");
      const auto& [a, b] = std::tie(found[i].values, expected[i].values);
      if (accuracy == Accuracy::Exact)
        CHECK(a == b);
      else if (accuracy == Accuracy::OfWeights && size_of(type) == 2)
        CHECK((close(a, b, tolerance(type)) || apart(a, b) <= tolerance(type)));
      else
        CHECK(close(a, b, tolerance(type)));
    }
    CHECK(same_bits(found, run(operands, type)));
  }
}

}  // namespace

void compare_mixed(const OneNode& node) {
  INFO(node.op << ", operands of several types");
  const auto found = run(node, DType::F32), expected = run_reference(node, DType::F32);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("result " << i << ", at most " << apart(found[i].values, expected[i].values) << " apart");
    CHECK(close(found[i].values, expected[i].values, tolerance(found[i].dtype.value_or(DType::F32))));
  }
  CHECK(same_bits(found, run(node, DType::F32)));
}

Array numbers(graph::Shape shape, double seed) {
  Array array = Array::range(std::move(shape), seed, 1);
  for (double& v : array.values) v = std::sin(v * 12.9898 + seed);
  return array;
}

Array positive(graph::Shape shape, double seed) {
  Array array = numbers(std::move(shape), seed);
  for (double& v : array.values) v = v * v + 0.01;
  return array;
}

Array scalar(double value, DType type) { return {{}, {value}, type}; }

void compare(const OneNode& node, Accuracy accuracy) {
  REQUIRE(has_row(node.op));
  compare_images(node, accuracy);
  if (std::none_of(node.inputs.begin(), node.inputs.end(), [](const auto& input) { return input && is_image(input->shape); })) return;
  OneNode channels_last = node;
  channels_last.images = plan::Format::ChannelsLast;
  compare_images(channels_last, accuracy);
}

}  // namespace rehearsal::exec
