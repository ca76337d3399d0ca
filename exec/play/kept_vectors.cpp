#include "exec/play/unsent.hpp"

#include <algorithm>

namespace rehearsal::exec {

std::string of_replica(const plan::Program& program, int rank) {
  const auto dp = static_cast<std::size_t>(std::ranges::find(program.axes, "dp", &plan::MeshAxisInfo::name) - program.axes.begin());
  if (dp == program.axes.size()) return "@0/1";
  return "@" + std::to_string(plan::coordinate(program, rank, dp)) + "/" + std::to_string(program.axes[dp].size);
}

std::vector<UnsentVector> unsent_vectors(const plan::Program& program, int rank) {
  const auto replica = of_replica(program, rank);
  const auto& buffers = program.role(rank).buffers;
  std::vector<UnsentVector> all;
  for (plan::BufferIndex b = 0; b < buffers.size(); ++b)
    if (plan::is_unsent(buffers[b])) all.push_back({b, buffers[b].name + replica});
  return all;
}

void UnsentGradients::read(const UnsentVector& v, std::byte* to) const {
  const auto kept = memory_.stored(buffer(v), 0);
  device_.download(to, kept.data(), kept.size());
}

void UnsentGradients::write(const UnsentVector& v, std::span<const std::byte> from) const {
  device_.upload(memory_.stored(buffer(v), 0).data(), from.data(), from.size());
}

}  // namespace rehearsal::exec
