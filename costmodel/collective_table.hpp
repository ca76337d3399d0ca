#pragma once
// How the vendors' collective libraries (NCCL, RCCL) move a vector: a table of algorithms and protocols, evaluated for every question.
// The least time is what the library would choose. A new algorithm is a row of costmodel/constants/collectives.json.
// Sources of the structure: NCCL's tuning model (rings, trees, NVLS; the protocols LL, LL128 and Simple) and nccl-tests; of the numbers:
// scripts/fit-collectives, docs/collectives.md.

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/collective_kind.hpp"

namespace rehearsal::costmodel {

/// A release of the library, "2.18".
struct LibraryRelease {
  int major = 0, minor = 0;
  friend auto operator<=>(const LibraryRelease&, const LibraryRelease&) = default;
};
/// Nothing where `text` is not two numbers with a dot between.
[[nodiscard]] std::optional<LibraryRelease> library_release(std::string_view text);
/// The newest that the numbers were fitted to.
inline constexpr LibraryRelease kNewestRelease{2, 29};

/// What stands for a collective inside a training step: the table, or the closed form of CollectiveLibrary::seconds(), which is fitted to
/// steps.
enum class StepModel : std::uint8_t { Form, Table };
enum class LinkFamily : std::uint8_t { Nvlink, Pcie };  ///< Nvlink: Infinity Fabric and others that join accelerators, too

/// One generation of links inside a node.
struct FabricRow {
  std::string name;
  LinkFamily links = LinkFamily::Nvlink;
  std::vector<std::string> generations;  ///< of devices; none: every one that no row before names
  double start = 0;                      ///< us until the first message leaves
  double hop = 0;                        ///< us of a message from device to device (protocol LL)
  double share = 1;                      ///< of a port's bandwidth that a ring reaches
  double turn = 0;                       ///< hops' worth of bytes that a round costs beside its hops, on a switch
  double beyond_pair = 1;                ///< of that share where more than two devices take part: past a PCI Express switch
  double nvls = 0;                       ///< of a port's bandwidth that sums in the switch reach; 0: the switch cannot add
  StepModel steps = StepModel::Form;
};

enum class Inside : std::uint8_t {
  Ring,    ///< f(g-1) hops, (f(g-1) + turn)/g·S bytes (S for broadcast and reduce)
  Switch,  ///< the switch adds and spreads: one hop, (g+1)/g·S bytes
  Pairs,   ///< every rank with every other: g-1 hops, (g-1)/g·S bytes
};
/// f(N-1) steps between nodes, or f·log2 N; or one to the switches that add and one back, with S of the vector where a ring has 2(N-1)/N·S.
enum class Between : std::uint8_t { Ring, Tree, Switch };
enum class Reach : std::uint8_t { Any, Node, Nodes, LoneRanks };  ///< where the library has it: LoneRanks: one rank a node

/// An algorithm with a protocol. Seconds of a vector of S bytes over g ranks of each of N nodes:
///   t = fabric.start + start + knee·m/(m + knee_bytes) + hops·fabric.hop·hop + steps·node_step + max(inside, cards) + rest·min(..)
///   inside = bytes through a port / (port·fabric.share·share) · (1 + ramp·F/(S + F)),  m = S/n
///   F: what the port carries in ramp_time: small vectors do not fill it
struct ProtocolRow {
  std::string algorithm, protocol;  ///< "ring", "LL128"
  LinkFamily links = LinkFamily::Nvlink;
  std::array<bool, kCollectiveKinds> kinds{};
  Inside inside = Inside::Ring;
  Between between = Between::Ring;
  Reach where = Reach::Any;
  LibraryRelease since;
  int least_ranks = 1;  ///< in a node
  double start = 0, hop = 1, share = 1, ramp = 0, ramp_time = 0, knee = 0, knee_bytes = 1;
  double node_step = 0;   ///< us of a message between nodes, over InfiniBand
  double card_share = 1;  ///< of the cards' bandwidth: flags travel with the data
};

/// What the network between nodes adds.
struct CardFacts {
  double share = 1;                ///< of a card's bandwidth that large vectors reach
  double ramp = 0, ramp_time = 0;  ///< as in ProtocolRow
  double rest = 0;                 ///< of the faster level that the slower does not hide
  double usual_latency = 2;        ///< us of the card that `node_step` is for
};

struct CollectiveTable {
  std::vector<FabricRow> fabrics;
  std::vector<ProtocolRow> rows;
  CardFacts cards;
  /// The first row of `links` that names `generation`, or none.
  [[nodiscard]] const FabricRow& fabric(LinkFamily links, std::string_view generation) const;
};

/// Throws BadInput naming `where` and the key that is missing, unknown or outside its bounds, or links that no fabric or row is for.
[[nodiscard]] CollectiveTable collective_table_from_json_text(const std::string& text, const std::string& where);
/// The table that travels inside the library.
[[nodiscard]] const CollectiveTable& collective_table();

/// f above: how often a ring goes round, 2 for all-reduce (sums, then results), else 1.
[[nodiscard]] double rounds(CollectiveKind);
/// Broadcast and reduce pass the whole vector through every port of a ring, others what belongs to the other ranks.
[[nodiscard]] bool passes_whole(CollectiveKind);

}  // namespace rehearsal::costmodel
