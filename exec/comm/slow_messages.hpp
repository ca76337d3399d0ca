#pragma once
// Holds messages of training back for a random while, as a network with much else to do does: what reads or writes memory too early then
// reads or writes other numbers. For tests.

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>

#include "exec/comm/communicator.hpp"

namespace rehearsal::exec {

class SlowMessages {
 public:
  SlowMessages(std::uint64_t seed, double longest_seconds) : seed_(seed), longest_(longest_seconds) {}

  struct Outgoing {
    int peer = -1;
    const void* data = nullptr;
    std::size_t bytes = 0;
    Channel channel = Channel::Pipeline;
    int tag = 0;
  };
  /// What take() and the request call it by. Messages of equal peer, channel and tag keep their order.
  [[nodiscard]] std::uint64_t hold(const Outgoing&);
  /// Calls `post` for every message whose time has come.
  template <class Post>
  void release(const Post& post) {
    const double now = now_seconds();
    for (auto& [number, held] : held_)
      if (!held.posted && held.due <= now) held.request = post(held.message), held.posted = true;
  }
  /// The request of a message that was released; nullptr before.
  [[nodiscard]] Request* posted(std::uint64_t number);
  void forget(std::uint64_t number) { held_.erase(number); }

 private:
  struct Held {
    Outgoing message;
    double due = 0;
    bool posted = false;
    Request request;
  };
  std::uint64_t seed_, count_ = 0;
  double longest_;
  std::map<std::uint64_t, Held> held_;  ///< in the order in which they were sent
  std::map<std::tuple<int, Channel, int>, double> last_due_;
};

}  // namespace rehearsal::exec
