#include "exec/play/stored_tensors.hpp"

namespace rehearsal::exec {

using graph::TensorId;

const plan::Buffer* StoredTensors::buffer(TensorId t) const {
  for (const auto& b : role_.buffers)
    if (is_stored(b) && b.tensor == t) return &b;
  return nullptr;
}

std::vector<TensorId> StoredTensors::all() const {
  std::vector<TensorId> tensors;
  for (const auto& b : role_.buffers)
    if (is_stored(b)) tensors.push_back(b.tensor);
  return tensors;
}

void StoredTensors::read(TensorId t, std::int64_t updates, std::byte* to) const {
  const auto block = memory_.stored(*buffer(t), updates);
  device_.download(to, block.data(), block.size());
}

void StoredTensors::write(TensorId t, std::int64_t updates, std::span<const std::byte> block) {
  for (const auto& b : role_.buffers)
    if (is_stored(b) && b.tensor == t) device_.upload(memory_.stored(b, updates).data(), block.data(), block.size());
}

std::optional<KeptResult> StoredTensors::result(TensorId t, const graph::TensorType& type, const plan::Moment& now) const {
  for (plan::BufferIndex b = 0; b < role_.buffers.size(); ++b) {
    const auto& buffer = role_.buffers[b];
    if (buffer.tensor != t || role_.buffers[plan::base_of(role_, b)].lifetime == plan::Lifetime::Transient) continue;
    KeptResult kept{type, buffer.format, std::vector<std::byte>(static_cast<std::size_t>(graph::size_of(type).value()))};
    device_.download(kept.bytes.data(), memory_.at(b, now), kept.bytes.size());
    return kept;
  }
  return std::nullopt;
}

}  // namespace rehearsal::exec
