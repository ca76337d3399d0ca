// Batch, group and instance normalization of the fast kernels: against the reference in every order and type, and alike on any number of
// threads.

#include <cstring>

#include "exec/host/cpu_backend.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/against_reference.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::Shape;
using plan::Format;
using Types = std::vector<std::optional<graph::TensorType>>;

namespace {

constexpr DType kSums = DType::F64;

/// The five kernels of group normalization. Sums are `half` the count in both rows: mean 0.5, variance 0.25.
std::vector<Case> cases_of_groups(const Shape& x, std::int64_t groups) {
  const std::int64_t count = graph::element_count(x) / x[0] / groups;
  const graph::Attributes by{{"num_groups", groups}, {"count", count}};
  const Shape sums{2, x[0], groups}, v{x[1]};
  const DType f = DType::F32;
  const double half = 0.5 * static_cast<double>(count);
  return {{"GroupNormSums", {{"num_groups", groups}}, {x}},
          {"GroupNormApply", by, {x, sums, v, v}, {f, kSums, f, f}, {0, half}},
          {"GroupNormGradSums", by, {x, sums, v, x}, {f, kSums, f, f}, {0, half}},
          {"GroupNormGradInput", by, {x, sums, v, x, sums}, {f, kSums, f, f, kSums}, {0, half}},
          {"GroupNormGradParameters", by, {x, sums, x}, {f, kSums, f}, {0, half}}};
}

/// The bytes of all results of a kernel whose operands are counted up in steps of 1/64.
std::vector<std::uint16_t> results_of(const Case& c, Format order, int threads) {
  const auto& schema = graph::op_table()[graph::op(c.op)];
  Types inputs, outputs;
  std::vector<std::vector<double>> memory;  // as wide as the widest type
  std::vector<Format> from, to;
  std::vector<TensorView> in, out;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    inputs.push_back(graph::TensorType{c.types.empty() ? DType::BF16 : c.types[i], c.shapes[i]});
    from.push_back(c.shapes[i] == c.shapes[0] ? order : Format::Plain);
  }
  for (auto& type : schema.infer({inputs, {}, c.attributes})) outputs.emplace_back(std::move(type));
  for (const auto& type : outputs) to.push_back(type->shape == c.shapes[0] ? order : Format::Plain);
  const auto views = [&](const Types& types, const std::vector<Format>& formats, std::vector<TensorView>& seen) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      memory.emplace_back(static_cast<std::size_t>(graph::element_count(types[i]->shape)));
      seen.push_back({nullptr, &*types[i], formats[i]});
    }
  };
  views(inputs, from, in);
  views(outputs, to, out);
  for (std::size_t i = 0; i < memory.size(); ++i) (i < in.size() ? in[i] : out[i - in.size()]).data = memory[i].data();
  for (std::size_t i = 0; i < in.size(); ++i)
    for (std::size_t e = 0; e < memory[i].size(); ++e) {
      if (inputs[i]->dtype == DType::F64)
        memory[i][e] = 1000.0 + static_cast<double>(e % 7);
      else
        in[i].as<std::uint16_t>()[e] = static_cast<std::uint16_t>(0x3E00 + e * 37 % 400);  // bf16 of 0.125 to 3
    }
  const CpuBackend backend("onednn");
  const auto kernel = backend.make("native:normalization", {schema, c.attributes, inputs, outputs, from, to, threads});
  std::vector<double> workspace(static_cast<std::size_t>(kernel->workspace_bytes()) / sizeof(double) + 1);
  kernel->run(in, out, {0, 0, workspace.data()});
  std::vector<std::uint16_t> bytes;
  for (const auto& view : out) {
    const auto* first = view.as<std::uint16_t>();
    bytes.insert(bytes.end(), first, first + static_cast<std::size_t>(graph::size_of(*view.type).value()) / sizeof(std::uint16_t));
  }
  return bytes;
}

}  // namespace

TEST_CASE("fast group normalizations agree with the reference") {
  struct Groups {
    Shape x;
    std::int64_t groups;
  };
  const std::vector<Groups> all = {{{2, 6, 5, 7}, 1},    {{2, 6, 5, 7}, 2}, {{2, 6, 5, 7}, 6},   {{1, 64, 9, 5}, 8},   {{3, 20, 11}, 4},
                                   {{2, 8, 3, 4, 5}, 2}, {{3, 12}, 3},      {{2, 17, 3, 3}, 17}, {{2, 3, 90, 101}, 3},  // parts of rows
                                   {{2, 2, 2}, 2}};  // sums shaped as the image
  for (const auto& [x, groups] : all)
    for (const auto& c : cases_of_groups(x, groups))
      for (const auto now : {Format::Plain, Format::ChannelsLast})
        for (const int threads : {1, 2}) check(c, now, "native:normalization", threads);
}

TEST_CASE("fast normalizations take vectors without pixels") {
  const std::int64_t batch = 6, channels = 40;
  const Shape x{batch, channels}, sums{2, channels}, v{channels};
  const graph::Attributes count{{"count", batch}};
  check({"BatchNormSums", count, {x}}, Format::Plain, "native:normalization", 2);
  check({"BatchNormApply", count, {x, sums, v, v}, {DType::F32, kSums}, {0, 3}}, Format::Plain, "native:normalization");
  check({"BatchNormGradSums", count, {x, sums, x}, {DType::F32, kSums}, {0, 3}}, Format::Plain, "native:normalization", 2);
}

TEST_CASE("fast group normalizations are the same to the bit for any number of threads") {
  // three samples of 1,600 pixels of 64 channels: two parts of sums each, of 1,024 rows and of 576
  for (auto c : cases_of_groups({3, 64, 40, 40}, 8)) {
    for (auto& type : c.types)
      if (type == DType::F32) type = DType::BF16;
    for (const auto order : {Format::Plain, Format::ChannelsLast}) {
      const auto alone = results_of(c, order, 1);
      for (const int threads : {2, 3, 7}) {
        INFO(c.op << ' ' << name(order) << " on " << threads << " threads");
        CHECK(results_of(c, order, threads) == alone);
      }
    }
  }
}
