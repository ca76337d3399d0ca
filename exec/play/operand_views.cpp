#include "exec/play/operand_views.hpp"

#include <algorithm>

namespace rehearsal::exec {

using plan::BufferIndex;

OperandViews::OperandViews(const plan::Program& program, const graph::Graph& graph, int rank, const LocalMemory& memory)
    : program_(program), g_(graph), role_(program.role(rank)), rank_(rank), memory_(memory), origin_of_(role_.buffers.size()) {
  for (const auto& b : role_.buffers) {
    auto& types = types_.emplace_back();
    for (const auto& shape : b.shapes) types.push_back({b.dtype, shape});
  }
}

const graph::TensorType& OperandViews::type(BufferIndex b, std::size_t variant) const {
  return types_[b][std::min(variant, types_[b].size() - 1)];
}

void OperandViews::set(const plan::Instruction& i, const Pass& pass) {
  inputs_.clear();
  outputs_.clear();
  for (const auto b : i.inputs) inputs_.push_back(view(b, pass));
  for (const auto b : i.outputs) outputs_.push_back(view(b, pass));
}

TensorView OperandViews::view(BufferIndex b, const Pass& pass) {
  if (b == plan::kNoBuffer) return {};
  const auto& buffer = role_.buffers[b];
  TensorView v{memory_.at(b, pass.now), &type(b, pass.variant), buffer.format, nullptr, nullptr};
  const bool is_part = std::any_of(buffer.layout.begin(), buffer.layout.end(), [](const plan::AxisLayout& l) { return l.split(); });
  if (is_part || buffer.turn.any()) {
    v.origin = &origin(b, pass.micro_batch);
    v.global_shape = &g_[buffer.tensor].type.shape;
  }
  return v;
}

const graph::Shape& OperandViews::origin(BufferIndex b, int micro_batch) {
  auto& known = origin_of_[b];
  if (known.micro_batch == micro_batch) return known.first;
  known = {micro_batch, {}};
  for (const auto& set : plan::region(program_, role_.buffers[b], plan::position(program_, rank_, micro_batch)))
    known.first.push_back(set.empty() ? 0 : set.front().begin);
  return known.first;
}

HostCopies::HostCopies(ComputeDevice& device, std::span<const TensorView> views) : views_(views.begin(), views.end()) {
  if (device.is_host()) return;
  for (auto& view : views_) {
    if (view.data == nullptr) continue;
    auto& bytes = bytes_.emplace_back(static_cast<std::size_t>(graph::size_of(*view.type).value()));
    device.download(bytes.data(), view.data, bytes.size());
    view.data = bytes.data();
  }
}

}  // namespace rehearsal::exec
