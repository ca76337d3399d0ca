#include "exec/comm/one_sided.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "exec/comm/remote_memory.hpp"

namespace rehearsal::exec {
namespace {

/// Messages to or from one rank. Places are taken in turn; counters count parts since the window was made.
struct PutQueue {
  struct Message {
    const std::byte* data = nullptr;  ///< of a put
    OneSided::Take take;              ///< of a receive
    std::size_t bytes = 0, moved = 0;
  };
  std::deque<Message> waiting;
  std::uint64_t started = 0, ended = 0;  ///< messages
  RemoteMemory::Counter parts = 0;       ///< put or taken; told to the other rank
  std::int64_t places = -1;              ///< where the first place is in the receiver's memory

  std::uint64_t add(Message message) {
    waiting.push_back(std::move(message));
    return ++started;
  }
  void move(std::size_t bytes) {
    auto& first = waiting.front();
    first.moved += bytes;
    ++parts;
    if (first.moved < first.bytes) return;
    waiting.pop_front();
    ++ended;
  }
};

}  // namespace

/// The memory of a rank: a counter for every rank of the places that it has freed, a counter for every rank of the parts that it has put,
/// and places for every sender.
class OneSided::Impl {
 public:
  Impl(Communicator& world, std::span<const int> senders, const ArrivalPlaces& places)
      : world_(world), places_(places), out_(ranks()), in_(ranks()), window_(world, counters() + senders.size() * area()) {
    ensure(places.bytes % RemoteMemory::kLine == 0 && places.each > 0, "places begin and end at cache lines");
    for (std::size_t n = 0; n < senders.size(); ++n)
      in_[static_cast<std::size_t>(senders[n])].places = static_cast<std::int64_t>(counters() + n * area());
    tell_places();
  }

  Request start(PutQueue& queue, int peer, PutQueue::Message message, bool receives) {
    Request request;
    request.peer = peer;
    request.bytes = message.bytes;
    request.receives = receives;
    request.active = message.bytes > 0;
    ensure(!request.active || queue.places >= 0, "one-sided messages come from ranks that were named as senders");
    if (request.active) request.handle = queue.add(std::move(message));
    progress();
    return request;
  }
  PutQueue& out(int peer) { return out_[static_cast<std::size_t>(peer)]; }
  PutQueue& in(int peer) { return in_[static_cast<std::size_t>(peer)]; }

  void progress() {
    bool moved = false;
    for (int peer = 0; peer < world_.size(); ++peer) {
      while (may_put(peer)) put_part(peer), moved = true;
      while (has_arrived(peer)) take_part(peer), moved = true;
    }
    if (!moved) window_.look();
  }

 private:
  using Counter = RemoteMemory::Counter;
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  [[nodiscard]] std::size_t counters() const {
    return (2 * ranks() * sizeof(Counter) + RemoteMemory::kLine - 1) / RemoteMemory::kLine * RemoteMemory::kLine;
  }
  [[nodiscard]] std::size_t area() const { return places_.bytes * places_.each; }

  void tell_places() {
    std::vector<double> own;
    for (const auto& queue : in_) own.push_back(static_cast<double>(queue.places));
    const auto all = world_.exchange(own, "where one-sided messages arrive");
    for (std::size_t peer = 0; peer < ranks(); ++peer)
      out_[peer].places = static_cast<std::int64_t>(all[peer * ranks() + static_cast<std::size_t>(world_.rank())]);
  }

  // Where a rank's counters are in the memory of another.
  [[nodiscard]] static std::int64_t freed_by(int rank) { return rank * static_cast<std::int64_t>(sizeof(Counter)); }
  [[nodiscard]] std::int64_t put_by(int rank) const { return freed_by(world_.size() + rank); }
  [[nodiscard]] std::int64_t place(const PutQueue& queue) const {
    return queue.places + static_cast<std::int64_t>(queue.parts % places_.each * places_.bytes);
  }
  [[nodiscard]] std::size_t next_part(const PutQueue& queue) const {
    return std::min(places_.bytes, queue.waiting.front().bytes - queue.waiting.front().moved);
  }

  [[nodiscard]] bool may_put(int peer) {
    return !out(peer).waiting.empty() && out(peer).parts - window_.counter(freed_by(peer)) < places_.each;
  }
  [[nodiscard]] bool has_arrived(int peer) { return !in(peer).waiting.empty() && window_.counter(put_by(peer)) > in(peer).parts; }

  void put_part(int peer) {
    const std::string what = "putting a part into the memory of rank " + std::to_string(peer);
    auto& queue = out(peer);
    const auto bytes = next_part(queue);
    window_.put({peer, place(queue)}, queue.waiting.front().data + queue.waiting.front().moved, bytes, what);
    queue.move(bytes);
    window_.set_counter({peer, put_by(world_.rank())}, queue.parts, what);  // the part is there before its counter says so
  }

  void take_part(int peer) {
    auto& queue = in(peer);
    window_.see();
    const auto bytes = next_part(queue);
    const auto& message = queue.waiting.front();
    message.take(window_.memory() + place(queue), message.moved, bytes);
    queue.move(bytes);
    window_.set_counter({peer, freed_by(world_.rank())}, queue.parts, "freeing a place for rank " + std::to_string(peer));
  }

  Communicator& world_;
  ArrivalPlaces places_;
  std::vector<PutQueue> out_, in_;  ///< by rank
  RemoteMemory window_;
};

std::vector<int> senders_in(std::span<const plan::CollectiveStep> steps, std::span<const int> group, int me) {
  std::set<int> senders;
  for (const auto& step : steps)
    if (step.receive_from >= 0) senders.insert(group[static_cast<std::size_t>(step.receive_from)]);
  senders.erase(me);
  return {senders.begin(), senders.end()};
}

OneSided::OneSided(Communicator& world, std::span<const int> senders, const ArrivalPlaces& places)
    : impl_(std::make_unique<Impl>(world, senders, places)) {}
OneSided::~OneSided() = default;

Request OneSided::put(int peer, const void* data, std::size_t bytes) {
  return impl_->start(impl_->out(peer), peer, {static_cast<const std::byte*>(data), {}, bytes, 0}, false);
}

Request OneSided::receive(int peer, std::size_t bytes, Take take) {
  return impl_->start(impl_->in(peer), peer, {nullptr, std::move(take), bytes, 0}, true);
}

bool OneSided::done(Request& request) {
  if (!request.active) return true;
  impl_->progress();
  const auto& queue = request.receives ? impl_->in(request.peer) : impl_->out(request.peer);
  if (queue.ended < request.handle) return false;
  request.active = false;
  return true;
}

}  // namespace rehearsal::exec
