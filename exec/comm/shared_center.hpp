#pragma once
// Weights that several replicas have in common and each meets at its own pace: a parameter server. Its parts lie in the memory of some of
// the replicas, where the others add to them and read them by one-sided communication, so that nobody serves.
// Synchronous, asynchronous and stale-synchronous (Ho et al.: More effective distributed ML via a stale synchronous parallel parameter
// server, NIPS 2013) differ in how long a replica waits for the others.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "exec/comm/transfers.hpp"
#include "plan/servers.hpp"

namespace rehearsal::exec {

/// A vector of the center, in the order in which replicas meet about them.
struct CenterVector {
  std::int64_t count = 0;
  DType dtype = DType::F32;  ///< or F64
};

struct CenterLayout {
  std::vector<int> group;  ///< world ranks of the replicas
  plan::Servers servers;   ///< of the group: each has a block of every vector
  std::vector<CenterVector> vectors;
  std::int64_t staleness = 0;  ///< meetings that a replica may be ahead of the slowest
};

/// At every meeting a replica adds to each vector once and reads each once, all of the one before all of the other. Of meeting n, counted
/// from 0, what comes first waits until all replicas have done the other thing in meeting n - 1 - staleness, what comes second until they
/// have done the first in n - staleness. With staleness 0 every replica reads the same numbers.
class SharedCenter {
 public:
  enum class Act : std::uint8_t {
    Begin,  ///< the center is what this replica has; all replicas have the same
    Add,
    Read,
    Agree  ///< reads, once all replicas have added as often as this one. No meeting
  };
  struct Call {
    Act act = Act::Add;
    int vector = 0;
    void* data = nullptr;  ///< as many elements as the vector
  };

  /// All ranks together, as is the end, those with other groups included.
  SharedCenter(Communicator&, CenterLayout);
  ~SharedCenter();
  SharedCenter(const SharedCenter&) = delete;
  SharedCenter& operator=(const SharedCenter&) = delete;

  /// Calls are done in the order in which they were started, those of all vectors together: nothing moves before the last of them was
  /// started. `what` names the tensor, as in Transfers.
  std::uint32_t start(const Call&, std::string_view what);
  [[nodiscard]] bool done(std::uint32_t number) const;
  [[nodiscard]] TransferTimes times(std::uint32_t number) const;
  [[nodiscard]] bool busy() const;
  /// True when anything moved.
  bool progress();
  /// "rank 2 to meet about 'fc1.weight'"
  [[nodiscard]] std::string awaited() const;
  /// Meetings from now on are of all replicas at once, or no longer.
  void meet_at_once(bool);
  /// Of the reads since this was last asked: the most meetings that another replica was behind in adding.
  [[nodiscard]] std::int64_t take_staleness();
  /// Invalidates all numbers; all must be done.
  void forget();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::exec
