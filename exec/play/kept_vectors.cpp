#include "exec/play/kept_vectors.hpp"

#include <algorithm>

namespace rehearsal::exec {
namespace {

struct Coordinate {
  int at = 0, of = 1;
};

Coordinate coordinate_on(const plan::Program& program, int rank, std::string_view axis) {
  const auto found = std::ranges::find(program.axes, axis, &plan::MeshAxisInfo::name);
  if (found == program.axes.end()) return {};
  return {plan::coordinate(program, rank, static_cast<std::size_t>(found - program.axes.begin())), found->size};
}

std::string text_of(const Coordinate& c) { return std::to_string(c.at) + "/" + std::to_string(c.of); }

/// ".tp0/2", of each axis whose ranks have other parts.
std::string of_parts(const plan::Program& program, int rank) {
  std::string text;
  for (const std::string axis : {"tp", "cp"})
    if (const auto c = coordinate_on(program, rank, axis); c.of > 1) text += "." + axis + text_of(c);
  return text;
}

}  // namespace

std::string of_replica(const plan::Program& program, int rank) { return kReplica + text_of(coordinate_on(program, rank, "dp")); }

std::vector<KeptVector> kept_vectors(const plan::Program& program, int rank) {
  const auto replica = of_replica(program, rank), parts = of_parts(program, rank);
  const bool first = coordinate_on(program, rank, "dp").at == 0;
  const auto& buffers = program.role(rank).buffers;
  std::vector<KeptVector> all;
  for (plan::BufferIndex b = 0; b < buffers.size(); ++b)
    if (plan::is_kept_vector(buffers[b]))
      all.push_back({b, buffers[b].name + parts + (buffers[b].common ? "" : replica), first || !buffers[b].common});
  return all;
}

void KeptVectors::read(const KeptVector& v, std::byte* to) const {
  const auto kept = memory_.stored(buffer(v), 0);
  device_.download(to, kept.data(), kept.size());
}

void KeptVectors::write(const KeptVector& v, std::span<const std::byte> from) const {
  device_.upload(memory_.stored(buffer(v), 0).data(), from.data(), from.size());
}

}  // namespace rehearsal::exec
