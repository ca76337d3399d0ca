#pragma once
// A step as a Petri net: what can happen when everything that it waits for has happened (C. A. Petri 1962; T. Murata, "Petri Nets:
// Properties, Analysis and Applications", Proceedings of the IEEE 77, 1989).

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Every arc has weight 1.
struct PetriNet {
  struct Place {
    std::string name;
    int tokens = 0;  ///< before the first transition fires
  };
  struct Transition {
    std::string name;
    std::vector<std::size_t> takes, gives;  ///< places
  };
  std::vector<Place> places;
  std::vector<Transition> transitions;
};

/// One replica, a rank for each stage (representatives()). A transition for every message and collective of every micro-batch, and one for
/// every run of kernels between which nobody waits; a place for the order of each stream, one for each thing that is waited for, and one
/// for each message under way. In a step with a flush every transition fires once, in whatever order, and the tokens end in the places
/// "end of rank R's ...". Without a flush, what an earlier step leaves behind is there at the beginning.
[[nodiscard]] PetriNet petri_net_of(const Program&, const graph::Graph&);

/// A place/transition net in the Petri Net Markup Language (ISO/IEC 15909-2:2011).
[[nodiscard]] std::string to_pnml(const PetriNet&, const std::string& name);

}  // namespace rehearsal::plan
