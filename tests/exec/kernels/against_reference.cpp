#include "tests/exec/kernels/against_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "base/hash.hpp"
#include "costmodel/calibration.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/narrow.hpp"
#include "exec/play/interpreter.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exec {
namespace {

using plan::Format;
using Types = std::vector<std::optional<graph::TensorType>>;

/// Memory of exactly so many bytes, 64-byte aligned, with a guard behind it; nobody has written to it, and reals there are no numbers.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes_ + 127) / 64 * 64)));
    std::memset(data_.get(), 0xFF, (bytes_ + 127) / 64 * 64);
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] bool guarded() const {
    return std::all_of(data_.get() + bytes_, data_.get() + (bytes_ + 127) / 64 * 64, [](std::byte b) { return b == std::byte{0xFF}; });
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

Memory zeroed(const graph::TensorType& type) {
  Memory m(static_cast<std::int64_t>(graph::size_of(type).value()));
  std::memset(m.data(), 0, m.size());
  return m;
}

double draw(std::uint64_t operand, std::int64_t i) {
  return 2.0 * static_cast<double>(Hasher().add(operand).add(i).value() % 100003) / 100003.0 - 1.0;
}

void fill(const Memory& m, const graph::TensorType& type, std::uint64_t operand, double constant) {
  const auto count = graph::element_count(type.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = constant != 0 ? constant : draw(operand, i);
    switch (type.dtype) {
      case DType::F32:
        reinterpret_cast<float*>(m.data())[i] = static_cast<float>(v);
        break;
      case DType::BF16:
      case DType::F16: {
        const auto wide = static_cast<float>(v);
        narrow(&wide, type.dtype, m.data() + 2 * i, 1);
        break;
      }
      case DType::F64:
        reinterpret_cast<double*>(m.data())[i] = v;
        break;
      case DType::I64:
        reinterpret_cast<std::int64_t*>(m.data())[i] = constant != 0 ? static_cast<std::int64_t>(constant) : i % 3;
        break;
      case DType::Bool:
        reinterpret_cast<bool*>(m.data())[i] = v > 0;
        break;
      default:
        FAIL("a type that this test does not fill");
    }
  }
}

/// One node with its operands in plain order.
struct Node {
  explicit Node(const Case& c) : schema(graph::op_table()[graph::op(c.op)]), attributes(c.attributes) {
    for (std::size_t i = 0; i < c.shapes.size(); ++i)
      inputs.push_back(i < c.types.size() && c.types[i] == DType::Count
                           ? std::nullopt
                           : std::optional(graph::TensorType{i < c.types.size() ? c.types[i] : DType::F32, c.shapes[i]}));
    for (auto& type : schema.infer({inputs, {}, attributes})) outputs.emplace_back(std::move(type));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back(inputs[i] ? zeroed(*inputs[i]) : Memory(0));
      if (inputs[i]) fill(operands.back(), *inputs[i], i + 1, i < c.constants.size() ? c.constants[i] : 0.0);
    }
  }
  const graph::OpSchema& schema;
  graph::Attributes attributes;
  Types inputs, outputs;
  std::vector<Memory> operands;
};

std::vector<Memory> run(const Node& node, Kernel& kernel, std::span<const Format> from, std::span<const Format> to) {
  std::vector<Memory> own, results;
  std::vector<TensorView> in, out;
  own.reserve(node.inputs.size());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    in.emplace_back();
    if (!node.inputs[i]) continue;
    own.push_back(zeroed(*node.inputs[i]));
    reorder({node.operands[i].data(), own.back().data(), Format::Plain, from[i]}, *node.inputs[i], 1);
    in.back() = {own.back().data(), &*node.inputs[i], from[i]};
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    results.emplace_back(static_cast<std::int64_t>(graph::size_of(*node.outputs[i]).value()));
    out.push_back({results.back().data(), &*node.outputs[i], to[i]});
  }
  const Memory workspace(kernel.workspace_bytes());
  for (int repetition = 0; repetition < 2; ++repetition) kernel.run(in, out, {0, 0, workspace.data()});
  CHECK(workspace.guarded());
  std::vector<Memory> plain;
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].guarded());
    plain.push_back(zeroed(*node.outputs[i]));
    reorder({results[i].data(), plain.back().data(), to[i], Format::Plain}, *node.outputs[i], 1);
  }
  return plain;
}

double element(const Memory& m, DType type, std::int64_t i) {
  if (is_narrow(type)) {
    float wide;
    widen(m.data() + 2 * i, type, &wide, 1);
    return static_cast<double>(wide);
  }
  return type == DType::F64 ? reinterpret_cast<const double*>(m.data())[i]
                            : static_cast<double>(reinterpret_cast<const float*>(m.data())[i]);
}

/// Largest difference over the largest element.
double difference(const Memory& a, const Memory& b, const graph::TensorType& type) {
  double largest = 1e-30, apart = 0;
  for (std::int64_t i = 0; i < graph::element_count(type.shape); ++i) {
    const double x = element(a, type.dtype, i), y = element(b, type.dtype, i);
    largest = std::max(largest, std::fabs(y));
    apart = std::max(apart, std::isfinite(x) ? std::fabs(x - y) : HUGE_VAL);
  }
  return apart / largest;
}

/// Of results beside those of the reference, which differ by what sums in another order do; and each is rounded to its type once, so that
/// numbers of 16 bits may be one unit in the last place apart (IEEE 754-2019, 3.3: 8 and 11 digits).
double tolerance(DType type) { return type == DType::BF16 ? 0x1p-7 : type == DType::F16 ? 0x1p-10 : 1e-5; }

}  // namespace

std::string compared(const Case& c, Format now, int threads, std::string_view by) {
  INFO(c.op << " {" << c.attributes.to_text() << "} operand 0 " << graph::to_text(c.shapes[0]) << ' ' << name(now) << " threads "
            << threads);
  const Node node(c);
  const DType own = node.inputs[0]->dtype;
  std::vector<Format> formats;
  for (const auto& type : node.inputs)
    formats.push_back(type && type->shape.size() >= 3 && type->shape == node.inputs[0]->shape ? now : Format::Plain);
  const CpuBackend backend("onednn");
  const auto offers = backend.offers({node.schema, node.attributes, node.inputs, node.outputs, formats, threads});
  const auto named = std::ranges::find(offers, by, &plan::KernelOffer::implementation);
  if (!by.empty()) REQUIRE(named != offers.end());
  const auto& wanted = by.empty() ? offers.front() : *named;
  const std::vector<Format> plain(std::max(node.inputs.size(), node.outputs.size()), Format::Plain);
  const auto oracle = make_reference_kernel({node.schema, node.attributes, node.inputs, node.outputs,
                                             std::span(plain).first(node.inputs.size()), std::span(plain).first(node.outputs.size()), 1});
  const auto slow = run(node, *oracle, plain, plain);
  for (const auto& offer : offers) {
    if (offer.implementation != wanted.implementation && !costmodel::names_version(offer.implementation)) continue;
    INFO(offer.implementation);
    const auto kernel = backend.make(offer.implementation, {node.schema, node.attributes, node.inputs, node.outputs, offer.input_formats,
                                                            offer.output_formats, threads});
    CHECK(static_cast<double>(kernel->workspace_bytes()) <= offer.workspace.value());
    const auto fast = run(node, *kernel, offer.input_formats, offer.output_formats);
    for (std::size_t i = 0; i < fast.size(); ++i)
      CHECK(difference(fast[i], slow[i], *node.outputs[i]) <= std::max(tolerance(own), tolerance(node.outputs[i]->dtype)));
  }
  return wanted.implementation;
}

bool alike_on_threads(const Case& c, std::initializer_list<int> threads) {
  const Node node(c);
  const std::vector<Format> now(node.inputs.size(), Format::ChannelsLast);
  const CpuBackend backend("onednn");
  std::vector<std::vector<Memory>> all;
  for (const int t : threads) {
    const auto offer = backend.offer({node.schema, node.attributes, node.inputs, node.outputs, now, t});
    const auto kernel = backend.make(
        offer.implementation, {node.schema, node.attributes, node.inputs, node.outputs, offer.input_formats, offer.output_formats, t});
    all.push_back(run(node, *kernel, offer.input_formats, offer.output_formats));
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    for (std::int64_t n = 0; n < graph::element_count(node.outputs[i]->shape); ++n)
      if (std::isnan(element(all.front()[i], node.outputs[i]->dtype, n))) return false;  // made of what nobody wrote
  return std::ranges::all_of(all, [&](const auto& results) {
    return std::ranges::equal(results, all.front(),
                              [](const Memory& a, const Memory& b) { return std::memcmp(a.data(), b.data(), a.size()) == 0; });
  });
}

Case in_type(Case c, DType narrow) {
  c.types.resize(c.shapes.size(), DType::F32);
  for (auto& type : c.types)
    if (type == DType::F32) type = narrow;
  return c;
}

void check(const Case& c, Format now, std::string_view wants, int threads) {
  CHECK(compared(c, now, threads) == wants);
  if (!c.types.empty() && c.types[0] != DType::F32) return;
  for (const auto type : {DType::BF16, DType::F16}) {
    const auto found = compared(in_type(c, type), now, threads);
    const auto name = std::string(wants.substr(std::min(wants.find(':'), wants.size())));
    const bool own = found == "amx" + name || found == "dots" + name;            // by the processor's units
    const bool product = c.op == "ConvGradWeight" && found == "onednn:product";  // of single pixels, by the processor's units
    CHECK((found == wants || own || found == "widened:" + std::string(wants) || product));
  }
}

}  // namespace rehearsal::exec
