#include "exec/comm/one_sided.hpp"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "exec/comm/mpi_error.hpp"

namespace rehearsal::exec {
namespace {

using PartCounter = std::uint64_t;
constexpr std::size_t kCacheLine = 64;

/// Messages to or from one rank. Places are taken in turn; counters count parts since the window was made.
struct PutQueue {
  struct Message {
    const std::byte* data = nullptr;  ///< of a put
    OneSided::Take take;              ///< of a receive
    std::size_t bytes = 0, moved = 0;
  };
  std::deque<Message> waiting;
  std::uint64_t started = 0, ended = 0;  ///< messages
  PartCounter parts = 0;                 ///< put or taken; told to the other rank
  MPI_Aint places = -1;                  ///< where the first place is in the receiver's memory

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
  Impl(Communicator& world, std::span<const int> senders, const Places& places)
      : world_(world), places_(places), out_(ranks()), in_(ranks()), exceptions_at_start_(std::uncaught_exceptions()) {
    const std::size_t counters = (2 * ranks() * sizeof(PartCounter) + kCacheLine - 1) / kCacheLine * kCacheLine;
    const std::size_t area = places.bytes * places.each;
    ensure(places.bytes % kCacheLine == 0 && places.each > 0, "places begin and end at cache lines");
    for (std::size_t n = 0; n < senders.size(); ++n)
      in_[static_cast<std::size_t>(senders[n])].places = static_cast<MPI_Aint>(counters + n * area);
    allocate(counters + senders.size() * area);
    tell_places();
  }

  /// A rank that leaves by an exception waits for nobody; MPI ends with the process.
  ~Impl() {
    if (std::uncaught_exceptions() > exceptions_at_start_) return;
    try {
      world_.barrier("the end of one-sided messages");
    } catch (const Error&) {
      return;
    }
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    MPI_Comm_free(&ranks_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

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
    int found = 0;  // a transport may need the receiver to look
    if (!moved) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ranks_, &found, MPI_STATUS_IGNORE);
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }

  void allocate(std::size_t bytes) {
    constexpr const char* kWhat = "making memory for one-sided messages";
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &ranks_), kWhat);
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Win_allocate(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, ranks_, static_cast<void*>(&memory_), &window_), kWhat);
    MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
    int* model = nullptr;
    int known = 0;
    check_mpi(MPI_Win_get_attr(window_, MPI_WIN_MODEL, static_cast<void*>(&model), &known), kWhat);
    if (known == 0 || *model != MPI_WIN_UNIFIED)
      throw EnvironmentFailure(
          "this MPI does not show a rank what others put into its memory (MPI_WIN_UNIFIED), so that no one-sided "
          "collective can run; use one that sends messages, as allreduce=ring");
    std::fill_n(memory_, 2 * ranks() * sizeof(PartCounter), std::byte{0});
    check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), kWhat);
    check_mpi(MPI_Win_sync(window_), kWhat);
  }

  void tell_places() {
    std::vector<double> own;
    for (const auto& queue : in_) own.push_back(static_cast<double>(queue.places));
    const auto all = world_.exchange(own, "where one-sided messages arrive");
    for (std::size_t peer = 0; peer < ranks(); ++peer)
      out_[peer].places = static_cast<MPI_Aint>(all[peer * ranks() + static_cast<std::size_t>(world_.rank())]);
  }

  // Where a rank's counters are in the memory of another.
  [[nodiscard]] static MPI_Aint freed_by(int rank) { return static_cast<MPI_Aint>(static_cast<std::size_t>(rank) * sizeof(PartCounter)); }
  [[nodiscard]] MPI_Aint put_by(int rank) const { return freed_by(world_.size() + rank); }
  [[nodiscard]] PartCounter read(MPI_Aint at) const {
    return std::atomic_ref(*reinterpret_cast<PartCounter*>(memory_ + at)).load(std::memory_order_acquire);
  }
  [[nodiscard]] MPI_Aint place(const PutQueue& queue) const {
    return queue.places + static_cast<MPI_Aint>(queue.parts % places_.each * places_.bytes);
  }
  [[nodiscard]] std::size_t next_part(const PutQueue& queue) const {
    return std::min(places_.bytes, queue.waiting.front().bytes - queue.waiting.front().moved);
  }

  [[nodiscard]] bool may_put(int peer) { return !out(peer).waiting.empty() && out(peer).parts - read(freed_by(peer)) < places_.each; }
  [[nodiscard]] bool has_arrived(int peer) { return !in(peer).waiting.empty() && read(put_by(peer)) > in(peer).parts; }

  void put_part(int peer) {
    const std::string what = "putting a part into the memory of rank " + std::to_string(peer);
    auto& queue = out(peer);
    const auto bytes = next_part(queue);
    const auto count = static_cast<int>(bytes);
    const auto* from = queue.waiting.front().data + queue.waiting.front().moved;
    check_mpi(MPI_Put(from, count, MPI_BYTE, peer, place(queue), count, MPI_BYTE, window_), what);
    check_mpi(MPI_Win_flush(peer, window_), what);  // the part is there before its counter says so
    queue.move(bytes);
    notify(peer, put_by(world_.rank()), queue.parts, what);
  }

  void take_part(int peer) {
    auto& queue = in(peer);
    check_mpi(MPI_Win_sync(window_), "reading what was put");
    const auto bytes = next_part(queue);
    const auto& message = queue.waiting.front();
    message.take(memory_ + place(queue), message.moved, bytes);
    queue.move(bytes);
    notify(peer, freed_by(world_.rank()), queue.parts, "freeing a place for rank " + std::to_string(peer));
  }

  void notify(int peer, MPI_Aint counter, const PartCounter& value, const std::string& what) {
    check_mpi(MPI_Accumulate(&value, 1, MPI_UINT64_T, peer, counter, 1, MPI_UINT64_T, MPI_REPLACE, window_), what);
    check_mpi(MPI_Win_flush(peer, window_), what);
  }

  Communicator& world_;
  Places places_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* memory_ = nullptr;
  std::vector<PutQueue> out_, in_;  ///< by rank
  int exceptions_at_start_;
};

OneSided::OneSided(Communicator& world, std::span<const int> senders, const Places& places)
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
