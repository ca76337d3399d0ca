#pragma once
// Blink (Wang et al., MLSys 2020): where devices are wired unevenly, a ring leaves links idle. Spanning trees are packed into the links
// instead, each carries a share of the vector up to its root and down again, in chunks, and all links work.

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "plan/collectives/collective.hpp"

namespace rehearsal::plan {

/// Which ranks of a group are wired to each other: link bandwidth between ranks a and b, each way, at [a * ranks + b]; symmetric, 0 where
/// there is no link. Any unit.
struct Wiring {
  int ranks = 1;
  std::vector<double> capacity;
  [[nodiscard]] double between(int a, int b) const;
};

/// The eight GPUs of a DGX-1 (V100) are joined by 24 NVLinks in a hybrid cube mesh (NVIDIA DGX-1 With Tesla V100 System Architecture,
/// WP-08437-002, figure 4); a job that was given some of them finds an uneven rest. `gpus`: which ones, 0 ... 7.
[[nodiscard]] Wiring dgx1_wiring(const std::vector<int>& gpus);

class PackedTrees {
 public:
  struct Tree {
    int root = 0;
    double share = 0;         ///< of the vector; all together are 1
    std::vector<int> parent;  ///< by rank; of the root: -1
    std::vector<int> depth, height;
    int levels = 0;
  };

  /// Throws Refusal when the wiring does not connect all ranks.
  explicit PackedTrees(const Wiring&);

  [[nodiscard]] const std::vector<Tree>& trees() const { return trees_; }
  /// Bytes of the vector that all links together take per byte of capacity: 1 / the fullest link's load. Unit of Wiring::capacity.
  [[nodiscard]] double rate() const;
  /// Steps of an all-reduce.
  [[nodiscard]] std::vector<CollectiveStep> steps(int rank, std::int64_t count) const;
  /// What goes from one rank to another in a slot: of a chunk of the vector the shares of all trees, upwards to be added, or down.
  struct Message {
    int from = 0, to = 0;
    double share = 0;
    bool reduce = false;
  };
  /// Seconds from when both ends of a message have come to its slot until each of them is done with it.
  struct Ends {
    Seconds sent, received;
  };
  /// Of messages that begin together, in their order; `chunk`: of the whole vector.
  using SlotEnds = std::function<std::vector<Ends>(std::span<const Message>, Bytes chunk)>;
  /// Chunks fill the trees, keep all their edges busy and drain away: 2 L + k - 1 slots for L levels of the highest tree and k chunks. A
  /// rank comes to its next slot when its messages of this one are done.
  [[nodiscard]] Seconds time(Bytes size, const SlotEnds&) const;

 private:
  /// Where an edge begins or ends to be at work.
  [[nodiscard]] std::set<int> changes(int chunks) const;
  [[nodiscard]] std::vector<Message> at_work(int slot, int chunks) const;

  Wiring wiring_;
  std::vector<Tree> trees_;
};

}  // namespace rehearsal::plan
