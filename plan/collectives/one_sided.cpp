// Rows whose parts are put into the memory of the rank that needs them, with a counter that notifies it, instead of being sent and
// received: the steps of other rows, by MPI's one-sided communication.

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// A put with its notification passes the network once, as a message does, so the time is that of the messages.
CollectiveRow by_puts(CollectiveRow row, std::string_view name, std::string_view description) {
  row.name = name;
  row.description = description;
  row.one_sided = true;
  return row;
}

}  // namespace

CollectiveRow one_sided_ring_all_reduce() {
  return by_puts(
      ring_all_reduce(), "one-sided-ring",
      "the ring, by puts with notification (Grünewald, Simmendinger: The GASPI API specification and its implementation GPI 2.0, "
      "PGAS 2013)");
}

CollectiveRow one_sided_recursive_doubling_all_reduce() {
  return by_puts(recursive_doubling_all_reduce(), "one-sided-doubling",
                 "recursive doubling, by puts with notification (a butterfly, as GPI-2's gaspi_allreduce)");
}

CollectiveRow one_sided_halving_doubling_all_reduce() {
  return by_puts(halving_doubling_all_reduce(), "one-sided-halving-doubling", "halving and doubling, by puts with notification");
}

CollectiveRow one_sided_ring_reduce_scatter() {
  return by_puts(ring_reduce_scatter(), "one-sided-ring", "the ring, by puts with notification");
}

CollectiveRow one_sided_ring_all_gather() { return by_puts(ring_all_gather(), "one-sided-ring", "the ring, by puts with notification"); }

CollectiveRow one_sided_binomial_broadcast() {
  return by_puts(binomial_broadcast(), "one-sided-binomial", "the binomial tree, by puts with notification");
}

CollectiveRow one_sided_binomial_reduce() {
  return by_puts(binomial_reduce(), "one-sided-binomial", "the binomial tree, by puts with notification");
}

CollectiveRow one_sided_pairwise_all_to_all() {
  return by_puts(pairwise_all_to_all(), "one-sided-pairwise", "a put to every rank, with notification");
}

}  // namespace rehearsal::plan
