#include "costmodel/library_offer.hpp"

namespace rehearsal::costmodel {

std::string reason_of(const LibraryOffer& offer, CollectiveKind kind) {
  const auto& row = *offer.row;
  switch (offer.why_not) {
    case NotOffered::No:
      break;
    case NotOffered::Links:
      return row.links == LinkFamily::Nvlink ? "no NVLink or the like between the devices of a node" : "for PCI Express alone";
    case NotOffered::Kind:
      return "does no " + std::string(name(kind));
    case NotOffered::NoSwitch:
      return "no switch joins the devices of a node";
    case NotOffered::SwitchAddsNot:
      return "the switch between the devices of a node does not add";
    case NotOffered::NetworkAddsNot:
      return "the switches between nodes do not add (topology.adds)";
    case NotOffered::OneNode:
      return "all ranks are in one node";
    case NotOffered::SeveralNodes:
      return "the ranks are in several nodes";
    case NotOffered::SharedNode:
      return "several ranks share a node";
    case NotOffered::OpenRing:
      return "the wires between these ranks close no ring";
    case NotOffered::FewRanks:
      return "fewer than " + std::to_string(row.least_ranks) + " of the ranks are in a node";
    case NotOffered::Release:
      return "taken from release " + std::to_string(row.since.major) + "." + std::to_string(row.since.minor);
  }
  return {};
}

}  // namespace rehearsal::costmodel
