#include "tests/exec/kernels/one_node.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/under_test.hpp"

namespace rehearsal::exec {
namespace {

using Types = std::vector<std::optional<graph::TensorType>>;

graph::Contents stored_as(DType dtype, std::span<const std::byte> bytes) {
  return {dtype, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())}};
}

std::vector<std::byte> bytes_of(const Array& array, DType dtype) {
  std::vector<std::byte> bytes(array.values.size() * size_of(dtype));
  graph::read_into(stored_as(DType::F64, std::as_bytes(std::span(array.values))), {static_cast<std::int64_t>(array.values.size())}, dtype,
                   {}, bytes.data());
  return bytes;
}

Array array_of(const std::vector<std::byte>& bytes, const graph::TensorType& type) {
  return {type.shape, graph::read_reals(stored_as(type.dtype, bytes), type.shape, 0, 0), type.dtype};
}

/// A kernel, and where it runs.
struct Made {
  std::unique_ptr<Kernel> kernel;
  ComputeDevice& device;
};

/// The first of `tested` that takes the request, otherwise a reference kernel.
Made make(KernelRequest request, const UnderTest& tested) {
  std::string reason = "no row";
  request.device = &tested.device;
  const auto first = [&](std::span<const KernelRow> rows) -> std::unique_ptr<Kernel> {
    for (const KernelRow& row : rows) {
      if (row.op != request.schema.name) continue;
      if (auto kernel = row.make(request, reason)) return kernel;
    }
    return nullptr;
  };
  if (auto kernel = first(tested.kernels)) return {std::move(kernel), tested.device};
  static const auto kHost = make_host();
  request.device = kHost.get();
  if (auto kernel = first(reference_kernels())) return {std::move(kernel), *kHost};
  throw InternalError("no kernel for " + std::string(request.schema.name) + ": " + reason);
}

/// Buffers of all operands or results on a device, and views of them. Results start as NaN, so that an element nobody writes shows.
struct Buffers {
  ComputeDevice& device;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<TensorView> views;

  explicit Buffers(ComputeDevice& where) : device(where) {}

  void add(const std::optional<graph::TensorType>& type, const std::optional<Array>& array) {
    if (!type) {
      bytes.emplace_back();
      memory.emplace_back();
      views.emplace_back();
      return;
    }
    const auto count = static_cast<std::size_t>(graph::element_count(type->shape));
    bytes.push_back(bytes_of(array ? *array : Array{type->shape, std::vector<double>(count, std::nan(""))}, type->dtype));
    memory.push_back(std::make_unique<DeviceMemory>(device, static_cast<std::int64_t>(bytes.back().size())));
    device.upload(memory.back()->data(), bytes.back().data(), bytes.back().size());
    views.push_back({memory.back()->data(), &*type});
  }

  void fetch() {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (memory[i]) device.download(bytes[i].data(), memory[i]->data(), bytes[i].size());
  }

  void place(const std::vector<Block>& blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      views[i].origin = &blocks[i].origin;
      views[i].global_shape = &blocks[i].global;
    }
  }
};

}  // namespace

Array Array::range(graph::Shape shape, double first, double step) {
  Array array{std::move(shape), {}};
  for (std::int64_t i = 0; i < graph::element_count(array.shape); ++i) array.values.push_back(first + static_cast<double>(i) * step);
  return array;
}

namespace {

std::vector<Array> run_by(const UnderTest& tested, const OneNode& node, DType dtype) {
  const graph::OpSchema& schema = graph::op_table()[graph::op(node.op)];
  Types inputs, outputs;
  for (const auto& input : node.inputs)
    inputs.push_back(input ? std::optional(graph::TensorType{input->dtype.value_or(dtype), input->shape}) : std::nullopt);
  for (const auto& shape : node.output_shapes) outputs.emplace_back(graph::TensorType{dtype, shape});
  if (outputs.empty()) {
    for (auto& type : schema.infer({inputs, {}, node.attributes})) outputs.emplace_back(std::move(type));
  }
  const std::vector<plan::Format> plain(std::max(inputs.size(), outputs.size()), plan::Format::Plain);
  const auto [kernel, device] = make(
      {schema, node.attributes, inputs, outputs, std::span(plain).first(inputs.size()), std::span(plain).first(outputs.size())}, tested);
  Buffers from(device), to(device);
  for (std::size_t i = 0; i < inputs.size(); ++i) from.add(inputs[i], node.inputs[i]);
  for (const auto& type : outputs) to.add(type, std::nullopt);
  from.place(node.input_blocks);
  to.place(node.output_blocks);
  const DeviceMemory workspace(device, kernel->workspace_bytes());
  Fault fault;
  auto context = node.context;
  context.workspace = workspace.data();
  context.stream = device.stream();
  context.fault = device.is_host() ? &fault : device.fault();
  kernel->run(from.views, to.views, context);
  device.wait();
  check_fault(fault);
  to.fetch();
  std::vector<Array> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) results.push_back(array_of(to.bytes[i], *outputs[i]));
  return results;
}

}  // namespace

std::vector<Array> run(const OneNode& node, DType dtype) { return run_by(under_test(), node, dtype); }

std::vector<Array> run_reference(const OneNode& node, DType dtype) {
  static const auto kHost = make_host();
  return run_by({reference_kernels(), *kHost}, node, dtype);
}

OneNode rounded(OneNode node, DType dtype) {
  for (auto& input : node.inputs)
    if (input && !input->dtype) input->values = array_of(bytes_of(*input, dtype), {dtype, input->shape}).values;
  return node;
}

Array result_of(const OneNode& node) {
  Array result = run(node).front();
  CHECK(close(run(node, DType::F32).front().values, result.values, 1e-5));
  return result;
}

bool close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  double largest = 1e-300;
  for (const double v : b) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  const auto agree = [&](double x, double y) { return std::abs(x - y) <= tolerance * largest || x == y; };
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), agree);
}

}  // namespace rehearsal::exec
