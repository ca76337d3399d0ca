#pragma once
// What the vendor's collective library answers for one row of its table: a time, or why it cannot be had.

#include <cstdint>
#include <string>

#include "costmodel/collective_table.hpp"

namespace rehearsal::costmodel {

enum class NotOffered : std::uint8_t {
  No,              ///< it is offered
  Links,           ///< the row is for other links
  Kind,            ///< of collective
  NoSwitch,        ///< joins a node's devices
  SwitchAddsNot,   ///< the one that joins a node's devices
  NetworkAddsNot,  ///< the switches between nodes
  OneNode,         ///< has all ranks
  SeveralNodes,    ///< have them
  SharedNode,      ///< by several ranks
  OpenRing,        ///< the wires between these ranks close none
  FewRanks,        ///< in a node
  Release,         ///< too old
};

struct LibraryOffer {
  const ProtocolRow* row;  ///< of collective_table()
  NotOffered why_not;
  double seconds;  ///< where it is offered
};
/// Of a row that is not offered for such a collective: "came with 2.17".
[[nodiscard]] std::string reason_of(const LibraryOffer&, CollectiveKind);

}  // namespace rehearsal::costmodel
