// Rows whose parts are put into the memory of the rank that needs them, with a counter that notifies it, instead of being sent and
// received: the steps of other rows, by MPI's one-sided communication.

#include <algorithm>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

struct RowByPuts {
  CollectiveKind kind;
  std::string_view by_messages, name, description;
};
constexpr RowByPuts kByPuts[] = {
    {CollectiveKind::AllReduce, "ring", "one-sided-ring",
     "the ring, by puts with notification (Grünewald, Simmendinger: The GASPI API specification and its implementation GPI 2.0, "
     "PGAS 2013)"},
    {CollectiveKind::AllReduce, "recursive-doubling", "one-sided-doubling",
     "recursive doubling, by puts with notification (a butterfly, as GPI-2's gaspi_allreduce)"},
    {CollectiveKind::AllReduce, "halving-doubling", "one-sided-halving-doubling", "halving and doubling, by puts with notification"},
    {CollectiveKind::ReduceScatter, "ring", "one-sided-ring", "the ring, by puts with notification"},
    {CollectiveKind::AllGather, "ring", "one-sided-ring", "the ring, by puts with notification"},
    {CollectiveKind::Broadcast, "binomial", "one-sided-binomial", "the binomial tree, by puts with notification"},
    {CollectiveKind::Reduce, "binomial", "one-sided-binomial", "the binomial tree, by puts with notification"},
    {CollectiveKind::AllToAll, "pairwise", "one-sided-pairwise", "a put to every rank, with notification"},
};

}  // namespace

void add_one_sided_rows(std::vector<CollectiveRow>& rows) {
  for (const auto& [kind, by_messages, name, description] : kByPuts) {
    const auto of_kind = [&](const CollectiveRow& row) { return row.kind == kind; };
    // A put with its notification passes the network once, as a message does, so the time is that of the messages.
    auto row = *std::ranges::find_if(rows, [&](const CollectiveRow& other) { return of_kind(other) && other.name == by_messages; });
    row.name = name;
    row.description = description;
    row.one_sided = true;
    rows.insert(std::find_if(rows.rbegin(), rows.rend(), of_kind).base(), row);
  }
}

}  // namespace rehearsal::plan
