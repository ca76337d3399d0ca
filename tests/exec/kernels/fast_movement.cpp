// Fast kernels that pad, resize, fill, and pick elements: against the reference in every type, and orders where images have two.

#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/narrow.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/against_reference.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::Shape;
using plan::Format;
using Sizes = std::vector<std::int64_t>;

namespace {

void check_padding(const Shape& x, const graph::Attributes& by, const Shape& padded, std::size_t axes) {
  graph::Attributes back = by;
  back.set("shape", Sizes(x.end() - static_cast<std::ptrdiff_t>(axes), x.end()));
  for (const auto now : {Format::Plain, Format::ChannelsLast})
    for (const int threads : {1, 2}) {
      check({"Pad", by, {x}}, now, "native:pad", threads);
      check({"PadGrad", back, {padded}}, now, "native:pad", threads);
    }
}

}  // namespace

TEST_CASE("fast padding agrees with the reference in every mode") {
  // before and behind 3 x 5 pixels: 1 + 3 + 2 and 2 + 5 + 1
  for (const auto* mode : {"constant", "reflect", "edge", "wrap"})
    check_padding({2, 4, 3, 5}, {{"pads", Sizes{1, 2, 2, 1}}, {"mode", std::string(mode)}, {"value", 0.5}}, {2, 4, 6, 8}, 2);
  check_padding({2, 4, 3, 5}, {{"pads", Sizes{2, 0, 0, 1, 0, -1}}, {"value", -2.0}}, {2, 7, 3, 4}, 3);  // channels; one column cut off
  check_padding({6, 300}, {{"pads", Sizes{1, 0, 2, 0}}}, {9, 300}, 2);                                  // whole rows
  check_padding({40, 900}, {{"pads", Sizes{0, 1}}}, {40, 901}, 1);
  check_padding({3, 5}, {{"pads", Sizes{0, 0, 0, 0}}}, {3, 5}, 2);  // nothing
}

TEST_CASE("fast resizing agrees with the reference") {
  struct Way {
    std::string mode;
    std::int64_t antialias;
  };
  for (const auto& [mode, antialias] : std::vector<Way>{{"nearest", 0}, {"linear", 0}, {"cubic", 0}, {"linear", 1}})
    for (const auto& to : std::vector<Sizes>{{10, 12}, {3, 4}, {5, 6}, {5, 12}}) {
      const graph::Attributes by{{"mode", mode}, {"sizes", to}, {"antialias", antialias}};
      auto back = by;
      back.set("shape", Sizes{5, 6});
      for (const auto now : {Format::Plain, Format::ChannelsLast}) {
        check({"Resize", by, {{2, 7, 5, 6}}}, now, "native:resize", 2);
        check({"ResizeGrad", back, {{2, 7, to[0], to[1]}}}, now, "native:resize", 2);
      }
    }
}

TEST_CASE("elements are picked, replaced and their gradients added as by the reference") {
  const DType f = DType::F32, i = DType::I64;
  for (const std::int64_t axis : {0, 1, 2})
    for (const int threads : {1, 2}) {
      const graph::Attributes along{{"axis", axis}};
      auto back = along;
      back.set("shape", Shape{7, 5, 6});
      back.set("size", Shape{7, 5, 6}[static_cast<std::size_t>(axis)]);
      Shape picked{7, 5, 6};  // indices are 0, 1 and 2 in turn, so that lines of 4 have one of them twice
      picked[static_cast<std::size_t>(axis)] = 4;
      check({"GatherElements", along, {{7, 5, 6}, picked}, {f, i}}, Format::Plain, "native:gather", threads);
      check({"GatherElementsGrad", back, {picked, picked}, {f, i}}, Format::Plain, "native:gather", threads);
      check({"ScatterElements", along, {{7, 5, 6}, picked, picked}, {f, i, f}}, Format::Plain, "native:gather", threads);
    }
  for (const int threads : {1, 2})
    check({"ScatterElements", {{"reduction", std::string("add")}}, {{7, 5}, {4, 5}, {4, 5}}, {f, i, f}}, Format::Plain, "native:gather",
          threads);
  check({"ScatterElements", {{"reduction", std::string("mul")}}, {{7, 5}, {4, 5}, {4, 5}}, {f, i, f}}, Format::Plain, "reference:any");
  check({"StopGradient", {}, {{3, 4, 5}}}, Format::ChannelsLast, "native:copy", 2);
}

TEST_CASE("tensors of 16 bits are filled without a wide copy") {
  const auto& schema = graph::op_table()[graph::op("ConstantOfShape")];
  for (const DType type : {DType::BF16, DType::F16}) {
    const graph::Attributes attributes{{"shape", Sizes{3, 5}}, {"dtype", std::string(name(type))}, {"value", -1.5}};
    const std::vector<std::optional<graph::TensorType>> result{graph::TensorType{type, {3, 5}}};
    const std::vector<Format> none, plain{Format::Plain};
    const CpuBackend backend("onednn");
    const auto offer = backend.offer({schema, attributes, {}, result, none, 2});
    CHECK(offer.implementation == "native:fill");
    CHECK(offer.workspace.value() == 0);
    std::vector<std::uint16_t> filled(15);
    const auto kernel = backend.make("native:fill", {schema, attributes, {}, result, none, plain, 2});
    kernel->run({}, std::vector<TensorView>{{filled.data(), &*result[0]}}, {});
    std::vector<float> wide(15);
    widen(filled.data(), type, wide.data(), 15);
    CHECK(wide == std::vector<float>(15, -1.5F));  // which both types hold exactly
  }
}

TEST_CASE("numbers are widened and narrowed alike by any number of threads, each once") {
  constexpr std::int64_t kCount = 5 * 16384 + 3;  // parts of five threads at most
  for (const DType type : {DType::BF16, DType::F16}) {
    std::vector<float> numbers(kCount), wide(kCount), alone(kCount);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0F + static_cast<float>(i) / 65536.0F;
    std::vector<std::uint16_t> bits(kCount + 1, 7), expected(kCount + 1, 7);
    narrow(numbers.data(), type, expected.data(), kCount);
    widen(expected.data(), type, alone.data(), kCount);
    for (const int threads : {2, 3, 7}) {
      narrow(numbers.data(), type, bits.data(), kCount, threads);
      widen(bits.data(), type, wide.data(), kCount, threads);
      CHECK(bits == expected);  // and nothing behind the last
      CHECK(wide == alone);
    }
  }
}

TEST_CASE("channels that go last, or come from there, stay where they are in memory") {
  const CpuBackend backend("onednn");
  const auto& schema = graph::op_table()[graph::op("Transpose")];
  const auto offered = [&](const Sizes& perm, const Shape& x, const Shape& y, Format now) {
    const std::vector<std::optional<graph::TensorType>> from{graph::TensorType{DType::BF16, x}}, to{graph::TensorType{DType::BF16, y}};
    const std::vector<Format> formats{now};
    const auto offer = backend.offer({schema, {{"perm", perm}}, from, to, formats, 1});
    return std::pair(offer.input_formats[0], offer.output_formats[0]);
  };
  CHECK(offered({0, 2, 3, 1}, {2, 3, 4, 5}, {2, 4, 5, 3}, Format::ChannelsLast) == std::pair(Format::ChannelsLast, Format::Plain));
  CHECK(offered({0, 2, 3, 1}, {2, 3, 4, 5}, {2, 4, 5, 3}, Format::Plain) == std::pair(Format::Plain, Format::Plain));
  CHECK(offered({0, 3, 1, 2}, {2, 4, 5, 3}, {2, 3, 4, 5}, Format::Plain) == std::pair(Format::Plain, Format::ChannelsLast));
  // keys of a sequence
  CHECK(offered({0, 2, 1}, {2, 3, 4}, {2, 4, 3}, Format::Plain) == std::pair(Format::Plain, Format::Plain));
}
