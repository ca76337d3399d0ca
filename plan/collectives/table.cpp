#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "plan/collectives/rows.hpp"

namespace rehearsal::plan {

void add_step(std::vector<CollectiveStep>& steps, CollectiveStep step) {
  if (step.send_count == 0) step.send_to = -1;
  if (step.receive_count == 0) step.receive_from = -1;
  if (step.send_to >= 0 || step.receive_from >= 0) steps.push_back(step);
}

Seconds message_time(const CollectiveLinks& links, bool outer, Bytes size) {
  return outer ? links.outer_latency + size / links.outer_bandwidth : links.inner_latency + size / links.inner_bandwidth;
}

std::span<const CollectiveRow> collective_table() {
  static const std::array kTable{ring_all_reduce(),         recursive_doubling_all_reduce(), halving_doubling_all_reduce(),
                                 hierarchical_all_reduce(), ring_reduce_scatter(),           ring_all_gather(),
                                 binomial_broadcast()};
  return kTable;
}

const CollectiveRow& collective(CollectiveKind kind, std::string_view name_of_row) {
  std::string known;
  for (const auto& row : collective_table()) {
    if (row.kind != kind) continue;
    if (row.name == name_of_row) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw BadInput(std::string(name(kind)),
                 "'" + std::string(name_of_row) + "' is not known; known algorithms: " + (known.empty() ? "none" : known));
}

const CollectiveRow& best_collective(CollectiveKind kind, int ranks, Bytes size, const CollectiveLinks& links) {
  const CollectiveRow* best = nullptr;
  for (const auto& row : collective_table())
    if (row.kind == kind && (best == nullptr || row.closed_form(ranks, size, links) < best->closed_form(ranks, size, links))) best = &row;
  if (best == nullptr) throw InternalError("no algorithm for this kind of collective: " + std::string(name(kind)));
  return *best;
}

}  // namespace rehearsal::plan
