#include "exec/play/interpreter.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "exec/kernels/reference/widened.hpp"
#include "graph/training.hpp"

namespace rehearsal::exec {

using graph::index;
using graph::TensorId;

/// A node with its kernel and what the kernel is called with.
struct Interpreter::Task {
  std::unique_ptr<Kernel> kernel;
  std::vector<TensorView> inputs, outputs;
};

namespace {

/// The first reference kernel that accepts; else nullptr, with every reason.
std::unique_ptr<Kernel> first_that_accepts(const KernelRequest& request, std::string& reasons) {
  for (const KernelRow& row : reference_kernels()) {
    if (row.op != request.schema.name) continue;
    std::string reason;
    if (auto kernel = row.make(request, reason)) return kernel;
    reasons += "; " + std::string(row.implementation) + ": " + reason;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Kernel> make_reference_kernel(const KernelRequest& request) {
  std::string reasons;
  if (auto kernel = first_that_accepts(request, reasons)) return kernel;
  if (auto kernel = reference::make_widened(request, first_that_accepts, reasons)) return kernel;
  throw Refusal("no reference kernel runs " + std::string(request.schema.name) + reasons);
}

namespace {

std::unique_ptr<Kernel> kernel_of(const graph::Node& node, const graph::NodeView& view) {
  const std::vector<plan::Format> inputs(view.inputs.size(), plan::Format::Plain), outputs(view.outputs.size(), plan::Format::Plain);
  try {
    return make_reference_kernel({graph::schema(node), node.attributes, view.inputs, view.outputs, inputs, outputs, 1});
  } catch (const Refusal& refusal) {
    throw Refusal("node '" + node.name + "': " + refusal.what());
  }
}

}  // namespace

Interpreter::Interpreter(const graph::Graph& graph, std::uint64_t seed) : graph_(graph), seed_(seed) {
  for (const graph::Tensor& tensor : graph.tensors()) {
    auto& bytes = values_.emplace_back(static_cast<std::size_t>(graph::element_count(tensor.type.shape)) * size_of(tensor.type.dtype));
    if (tensor.contents.known())
      graph::read_into(tensor.contents, tensor.type.shape, tensor.type.dtype, {seed, graph::initial_stream(tensor.name)}, bytes.data());
  }
  const auto view_of = [&](TensorId t) {
    return t == TensorId::None ? TensorView{} : TensorView{.data = values_[index(t)].data(), .type = &graph[t].type};
  };
  for (const graph::Node& node : graph.nodes()) {
    const graph::NodeTypes types(graph, node);
    auto task = std::make_unique<Task>();
    task->kernel = kernel_of(node, types.view());
    for (const TensorId t : node.inputs) task->inputs.push_back(view_of(t));
    for (const TensorId t : node.outputs) task->outputs.push_back(view_of(t));
    tasks_.push_back(std::move(task));
  }
}

Interpreter::~Interpreter() = default;

void Interpreter::set(TensorId tensor, std::span<const std::byte> elements) {
  auto& bytes = values_[index(tensor)];
  if (bytes.size() != elements.size()) {
    throw BadInput("tensor '" + graph_[tensor].name + "'",
                   "has " + std::to_string(bytes.size()) + " bytes, was given " + std::to_string(elements.size()));
  }
  std::copy(elements.begin(), elements.end(), bytes.begin());
}

void Interpreter::set_reals(TensorId tensor, std::span<const double> values) {
  const graph::TensorType& type = graph_[tensor].type;
  const auto stored = std::as_bytes(values);
  const graph::Contents contents{DType::F64,
                                 graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(stored.begin(), stored.end())}};
  graph::read_into(contents, type.shape, type.dtype, {}, values_[index(tensor)].data());
}

void Interpreter::set_value(TensorId tensor, const graph::Value& value) {
  const graph::TensorType& type = graph_[tensor].type;
  graph::read_into(graph::contents_of(value), type.shape, type.dtype, {}, values_[index(tensor)].data());
}

template <class Belongs>
void Interpreter::run_those(std::int64_t step, Belongs belongs) {
  const RunContext context{seed_, step, nullptr};
  for (std::size_t n = 0; n < tasks_.size(); ++n) {
    const auto& node = graph_.nodes()[n];
    if (!belongs(node)) continue;
    tasks_[n]->kernel->run(tasks_[n]->inputs, tasks_[n]->outputs, context);
    for (const TensorId t : node.outputs)
      if (touch_ && t != TensorId::None) touch_(t, values_[index(t)]);
  }
  for (std::size_t t = 0; t < values_.size(); ++t) {
    const auto& tensor = graph_.tensors()[t];
    if (tensor.stored_in != TensorId::None && belongs(graph_[tensor.producer])) set(tensor.stored_in, values_[t]);
  }
}

void Interpreter::run(std::int64_t step) {
  run_those(step, [](const graph::Node&) { return true; });
}

void Interpreter::run_phase(graph::Phase phase, std::int64_t step) {
  run_those(step, [phase](const graph::Node& n) { return n.phase == phase; });
}

std::span<const std::byte> Interpreter::get(TensorId tensor) const { return values_[index(tensor)]; }

std::vector<double> Interpreter::get_reals(TensorId tensor) const {
  const graph::Value value = get_value(tensor);
  return value.integral() ? std::vector<double>(value.integers.begin(), value.integers.end()) : value.reals;
}

graph::Value Interpreter::get_value(TensorId tensor) const {
  const graph::TensorType& type = graph_[tensor].type;
  const graph::Contents contents{type.dtype, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(values_[index(tensor)])}};
  if (is_integer(type.dtype)) return {type, graph::read_integers(contents, type.shape), {}};
  return {type, {}, graph::read_reals(contents, type.shape, 0, 0)};
}

}  // namespace rehearsal::exec
