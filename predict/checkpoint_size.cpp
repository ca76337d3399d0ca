#include "predict/checkpoint_size.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace rehearsal::predict {
namespace {

bool is_saved(const plan::Buffer& b, const graph::Graph& g) {
  if (b.lifetime != plan::Lifetime::Persistent || b.part_of != plan::kNoBuffer || b.tensor == graph::TensorId::None) return false;
  const auto role = g[b.tensor].role;
  return role == graph::TensorRole::Parameter || role == graph::TensorRole::Slot || role == graph::TensorRole::State;
}

/// Bytes that a role saves, by the axes that do not split them: there only the ranks at 0 write.
using Shared = std::map<std::vector<bool>, double>;

/// Which each rank saves: what it keeps beside tensors, and the optimizer's state of a replica that trains by itself.
bool is_own(const plan::Buffer& b, const graph::Graph& g, const plan::Plan& plan) {
  if (plan::is_kept_vector(b)) return !b.common;
  return plan.local_steps > 0 && is_saved(b, g) && g[b.tensor].role == graph::TensorRole::Slot && is_float(b.dtype);
}

/// Which the ranks of the first replica save.
double common_bytes(const plan::Role& role) {
  double bytes = 0;
  for (const auto& b : role.buffers)
    if (plan::is_kept_vector(b) && b.common) bytes += static_cast<double>(b.bytes);
  return bytes;
}

Shared saved_of(const plan::Role& role, const graph::Graph& g, const plan::Plan& plan) {
  Shared saved;
  for (const auto& b : role.buffers) {
    if (is_own(b, g, plan)) saved[{}] += static_cast<double>(b.bytes);
    if (!is_saved(b, g)) continue;
    std::vector<bool> alike(b.layout.size());
    for (std::size_t a = 0; a < alike.size(); ++a) alike[a] = !b.layout[a].split();
    saved[alike] += static_cast<double>(b.bytes) * b.versions;
  }
  return saved;
}

bool writes(const plan::Coordinates& at, const std::vector<bool>& alike) {
  for (std::size_t a = 0; a < alike.size(); ++a)
    if (alike[a] && at[a] != 0) return false;
  return true;
}

}  // namespace

CheckpointSize checkpoint_size(const plan::Program& program, const graph::Graph& g, const platforms::Platform& platform) {
  std::vector<Shared> of_role;
  for (const auto& role : program.roles) of_role.push_back(saved_of(role, g, program.plan));
  CheckpointSize size;
  std::map<int, Bytes> of_node;
  const auto dp = static_cast<std::size_t>(std::ranges::find(program.axes, "dp", &plan::MeshAxisInfo::name) - program.axes.begin());
  for (int rank = 0; rank < program.ranks; ++rank) {
    const auto at = plan::position(program, rank, 0);
    Bytes own(dp < program.axes.size() && plan::coordinate(program, rank, dp) > 0 ? 0 : common_bytes(program.role(rank)));
    for (const auto& [alike, bytes] : of_role[program.role_of[static_cast<std::size_t>(rank)]])
      if (writes(at, alike)) own += Bytes(bytes);
    size.all += own;
    size.of_rank = std::max(size.of_rank, own);
    of_node[platforms::place(platform, rank).node] += own;
  }
  for (const auto& [node, bytes] : of_node) size.of_node = std::max(size.of_node, bytes);
  return size;
}

CheckpointSize checkpoint_size(Bytes all, int ranks, const platforms::Platform& platform) {
  const auto of_rank = all / ranks;
  int in_node = 0;
  for (const auto& group : platform.nodes) in_node = std::max(in_node, std::min(group.devices, ranks));
  return {all, of_rank, of_rank * in_node};
}

}  // namespace rehearsal::predict
