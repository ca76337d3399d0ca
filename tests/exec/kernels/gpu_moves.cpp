// Bodies of GPU kernels that update, move and pick elements, in every floating-point type, on shapes that take more than one team, tile
// and pack: against the reference kernels in f64 on the same rounded operands, and the same bits in two runs.
#include <cmath>
#include <cstring>

#include "exec/kernels/cuda/families.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {
namespace {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<double>;

/// Numbers without a pattern in [-1, 1], no two neighbours alike.
Array numbers(graph::Shape shape, double seed = 1) {
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

/// Indices in [-size, size).
Array indices(graph::Shape shape, std::int64_t size, DType type = DType::I64) {
  Array array = Array::range(std::move(shape));
  for (double& v : array.values) v = std::floor((std::sin(v * 78.233) + 1) / 2 * 1.9999 * static_cast<double>(size)) - static_cast<double>(size);
  array.dtype = type;
  return array;
}

double tolerance(DType type) {
  if (type == DType::F64) return 1e-12;
  return type == DType::F32 ? 2e-6 : type == DType::F16 ? 0x1p-9 : 0x1p-6;
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = a[i].values.size() == b[i].values.size() &&
           std::memcmp(a[i].values.data(), b[i].values.data(), a[i].values.size() * sizeof(double)) == 0;
  return same;
}

bool has_row(const std::string& op) {
  for (const KernelRow& row : cuda::body_kernels())
    if (row.op == op) return true;
  return false;
}

enum class Accuracy : std::uint8_t { Exact, OfType };

void compare(const OneNode& node, Accuracy accuracy = Accuracy::OfType) {
  REQUIRE(has_row(node.op));
  for (const DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    INFO(node.op << " in " << name(type));
    const OneNode operands = rounded(node, type);
    const auto found = run(operands, type), expected = run_reference(operands);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (accuracy == Accuracy::Exact)
        CHECK(found[i].values == expected[i].values);
      else
        CHECK(close(found[i].values, expected[i].values, tolerance(type)));
    }
    CHECK(same_bits(found, run(operands, type)));
  }
}

}  // namespace

TEST_CASE("optimizers step alike in every type, over more than a team and with a short last pack") {
  const graph::Shape shape{131, 67};  // 8777 elements: 2195 packs of f32, the last of one
  const Array p = numbers(shape, 1), g = numbers(shape, 2), first = numbers(shape, 3), second = positive(shape, 4);
  const Array step = scalar(3, DType::I64), p_square = scalar(12, DType::F64), g_square = scalar(5, DType::F64);
  const graph::Attributes decays{{"lr", 0.1}, {"weight_decay", 0.01}, {"momentum", 0.9}};
  compare({"SgdUpdate", decays, {p, g, step, first}});
  compare({"SgdUpdate", {{"lr", 0.1}}, {p, g, step}});
  compare({"SgdUpdate", {{"lr", 0.1}, {"momentum", 0.5}, {"nesterov", 1.0}}, {p, g, step, first}});
  compare({"AdamUpdate", decays, {p, g, step, first, second}});
  compare({"AdamUpdate", {{"lr", 0.1}, {"weight_decay", 0.5}, {"decoupled", 1.0}}, {p, g, step, first, second}});
  compare({"NadamUpdate", decays, {p, g, step, first, second}});
  compare({"RmspropUpdate", decays, {p, g, step, second, first}});
  compare({"AdagradUpdate", decays, {p, g, step, second}});
  compare({"LarsUpdate", decays, {p, g, p_square, g_square, first}});
  compare({"LambDirection", decays, {p, g, step, first, second}});
  compare({"LambUpdate", decays, {p, g, p_square, g_square}});
  compare({"LambUpdate", decays, {p, g, scalar(0, DType::F64), g_square}});
  compare({"NovogradUpdate", decays, {p, g, step, g_square, first, second}});
  compare({"NovogradUpdate", decays, {p, g, scalar(1, DType::I64), g_square, first, second}});
  compare({"AdamUpdate", decays, {Array{{0}, {}}, Array{{0}, {}}, step, Array{{0}, {}}, Array{{0}, {}}}});
}

}  // namespace rehearsal::exec
