#include "tests/exec/kernels/one_node.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/image_order.hpp"
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

using Formats = std::vector<plan::Format>;

/// A kernel, where it runs, and the order of the images that it takes and makes.
struct Made {
  std::unique_ptr<Kernel> kernel;
  ComputeDevice& device;
  Formats inputs, outputs;
};

/// The first of `tested` that takes the node, otherwise a reference kernel.
Made make(const plan::LocalNode& node, const UnderTest& tested) {
  std::string reason = "no row";
  const auto first = [&](std::span<const KernelRow> rows, ComputeDevice& device) {
    for (const KernelRow& row : rows) {
      if (row.op != node.schema.name) continue;
      Formats inputs(node.inputs.size(), plan::Format::Plain), outputs(node.outputs.size(), plan::Format::Plain);
      if (row.formats != nullptr && !row.formats(node, inputs, outputs)) continue;
      if (auto kernel = row.make({node.schema, node.attributes, node.inputs, node.outputs, inputs, outputs, 1, &device}, reason))
        return Made{std::move(kernel), device, inputs, outputs};
    }
    return Made{nullptr, device, {}, {}};
  };
  if (auto made = first(tested.kernels, tested.device); made.kernel) return made;
  static const auto kHost = make_host();
  if (auto made = first(reference_kernels(), *kHost); made.kernel) return made;
  throw InternalError("no kernel for " + std::string(node.schema.name) + ": " + reason);
}

std::vector<std::byte> in_order(const std::vector<std::byte>& bytes, const graph::TensorType& type, plan::Format from, plan::Format to) {
  std::vector<std::byte> result(bytes.size());
  reorder({bytes.data(), result.data(), from, to}, type, 1);
  return result;
}

/// Buffers of all operands or results on a device, and views of them. Results start as NaN, so that an element nobody writes shows.
struct Buffers {
  ComputeDevice& device;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<TensorView> views;

  explicit Buffers(ComputeDevice& where) : device(where) {}

  void add(const std::optional<graph::TensorType>& type, const std::optional<Array>& array, plan::Format format) {
    if (!type) {
      bytes.emplace_back();
      memory.emplace_back();
      views.emplace_back();
      return;
    }
    const auto count = static_cast<std::size_t>(graph::element_count(type->shape));
    const auto plain = bytes_of(array ? *array : Array{type->shape, std::vector<double>(count, std::nan(""))}, type->dtype);
    bytes.push_back(in_order(plain, *type, plan::Format::Plain, format));
    memory.push_back(std::make_unique<DeviceMemory>(device, static_cast<std::int64_t>(bytes.back().size())));
    device.upload(memory.back()->data(), bytes.back().data(), bytes.back().size());
    views.push_back({memory.back()->data(), &*type, format});
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
  for (std::size_t i = 0; i < node.output_types.size(); ++i) outputs.at(i)->dtype = node.output_types[i];
  Formats now;
  for (const auto& input : inputs) now.push_back(input && is_image(input->shape) ? node.images : plan::Format::Plain);
  const auto [kernel, device, asked, made] = make({schema, node.attributes, inputs, outputs, now}, tested);
  Buffers from(device), to(device);
  for (std::size_t i = 0; i < inputs.size(); ++i) from.add(inputs[i], node.inputs[i], asked[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) to.add(outputs[i], std::nullopt, made[i]);
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
  for (std::size_t i = 0; i < outputs.size(); ++i)
    results.push_back(array_of(in_order(to.bytes[i], *outputs[i], made[i], plan::Format::Plain), *outputs[i]));
  return results;
}

/// A node with its kernel and its buffers; the types must not move.
struct Together {
  Types inputs, outputs;
  std::shared_ptr<Kernel> kernel;
  std::unique_ptr<Buffers> from, to;
};

std::unique_ptr<Together> prepared_together(const UnderTest& tested, const OneNode& node, DType dtype) {
  const graph::OpSchema& schema = graph::op_table()[graph::op(node.op)];
  auto one = std::make_unique<Together>();
  for (const auto& input : node.inputs) one->inputs.emplace_back(graph::TensorType{input->dtype.value_or(dtype), input->shape});
  for (auto& type : schema.infer({one->inputs, {}, node.attributes})) one->outputs.emplace_back(std::move(type));
  auto made = make({schema, node.attributes, one->inputs, one->outputs, Formats(one->inputs.size(), plan::Format::Plain)}, tested);
  one->kernel = std::move(made.kernel);
  one->from = std::make_unique<Buffers>(made.device);
  one->to = std::make_unique<Buffers>(made.device);
  for (std::size_t i = 0; i < one->inputs.size(); ++i) one->from->add(one->inputs[i], node.inputs[i], plan::Format::Plain);
  for (const auto& output : one->outputs) one->to->add(output, std::nullopt, plan::Format::Plain);
  return one;
}

}  // namespace

std::vector<std::vector<Array>> run_together(const std::vector<OneNode>& nodes, DType dtype) {
  const auto tested = under_test();
  std::vector<std::unique_ptr<Together>> all;
  std::vector<KernelRun> runs;
  for (const auto& node : nodes) {
    all.push_back(prepared_together(tested, node, dtype));
    runs.push_back({*all.back()->kernel, all.back()->from->views, all.back()->to->views});
    if (!all.front()->kernel->joins(*all.back()->kernel)) throw InternalError("kernels of " + node.op + " do not join");
  }
  auto& device = all.front()->from->device;
  RunContext context;
  context.stream = device.stream();
  all.front()->kernel->run_together(runs, context);
  device.wait();
  std::vector<std::vector<Array>> results;
  for (const auto& one : all) {
    one->to->fetch();
    auto& arrays = results.emplace_back();
    for (std::size_t i = 0; i < one->outputs.size(); ++i) arrays.push_back(array_of(one->to->bytes[i], *one->outputs[i]));
  }
  return results;
}

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
