#include "exec/comm/shared_center.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "exec/comm/remote_memory.hpp"

namespace rehearsal::exec {
namespace {

std::int64_t whole_lines(std::int64_t bytes) {
  constexpr auto kBytes = static_cast<std::int64_t>(RemoteMemory::kLine);
  return (bytes + kBytes - 1) / kBytes * kBytes;
}

}  // namespace

/// The memory of a rank: for every replica three counters of what it has done, then the blocks of this rank, where it is a server.
class SharedCenter::Impl {
 public:
  Impl(Communicator& world, CenterLayout layout)
      : world_(world), layout_(std::move(layout)), me_(position_of(world.rank())), window_(world, static_cast<std::size_t>(laid_out())) {
    world.barrier("the center of replicas");  // all memory is zero behind it
  }

  std::uint32_t start(const Call& call, std::string_view what) {
    calls_.push_back({call, what, {now_seconds(), 0}});
    progress();
    return static_cast<std::uint32_t>(calls_.size() - 1);
  }
  [[nodiscard]] bool done(std::uint32_t number) const { return number < ended_; }
  [[nodiscard]] TransferTimes times(std::uint32_t number) const { return calls_[number].times; }
  [[nodiscard]] bool busy() const { return ended_ < calls_.size(); }

  bool progress() {
    const bool is_whole = static_cast<std::int64_t>(calls_.size() - ended_) >= vectors();
    const bool moved = busy() && is_whole && awaited_rank() < 0;
    if (moved) perform();
    if (!moved && busy()) window_.look();
    return moved;
  }

  [[nodiscard]] std::string awaited() const {
    return "rank " + std::to_string(std::max(0, awaited_rank())) + " to meet about '" + std::string(calls_[ended_].what) + "'";
  }
  void meet_at_once(bool yes) { at_once_ = yes; }
  [[nodiscard]] std::int64_t take_staleness() { return std::exchange(staleness_, 0); }
  void forget() {
    ensure(!busy(), "what was started at the center is forgotten when all is done");
    calls_.clear();
    ended_ = 0;
  }

 private:
  using Counter = RemoteMemory::Counter;
  static constexpr std::array<Act, 3> kCounted{Act::Begin, Act::Add, Act::Read};
  struct Started {
    Call call;
    std::string_view what;
    TransferTimes times;
  };

  [[nodiscard]] int replicas() const { return static_cast<int>(layout_.group.size()); }
  [[nodiscard]] int servers() const { return layout_.servers.count(replicas()); }
  [[nodiscard]] std::int64_t vectors() const { return static_cast<std::int64_t>(layout_.vectors.size()); }
  [[nodiscard]] int position_of(int rank) const { return static_cast<int>(std::ranges::find(layout_.group, rank) - layout_.group.begin()); }
  /// World rank of a server.
  [[nodiscard]] int rank_of_server(int server) const {
    return layout_.group[static_cast<std::size_t>(layout_.servers.replica(server, replicas()))];
  }

  /// Blocks of a server begin where the largest blocks of the vectors before would end. Returns the bytes of all.
  std::int64_t laid_out() {
    auto at = whole_lines(static_cast<std::int64_t>(kCounted.size() * sizeof(Counter)) * replicas());
    for (const auto& vector : layout_.vectors) {
      begins_.push_back(at);
      at += whole_lines((vector.count + servers() - 1) / servers() * static_cast<std::int64_t>(size_of(vector.dtype)));
    }
    return at;
  }

  [[nodiscard]] std::int64_t counter_of(int replica, Act act) const {
    return static_cast<std::int64_t>(sizeof(Counter)) * (replica * static_cast<std::int64_t>(kCounted.size()) + static_cast<int>(act));
  }
  [[nodiscard]] std::int64_t count_of(int replica, Act act) const {
    return static_cast<std::int64_t>(window_.counter(counter_of(replica, act)));
  }

  /// How often all replicas must have done something before the next calls may be.
  struct Wait {
    Act act;
    std::int64_t times;
  };
  [[nodiscard]] Wait waits_for() const {
    const auto act = calls_[ended_].call.act;
    if (act == Act::Begin) return {Act::Begin, 0};
    if (act == Act::Agree) return {Act::Add, count_of(me_, Act::Add)};
    const auto other = act == Act::Add ? Act::Read : Act::Add;
    const auto number = count_of(me_, act);
    const bool second = count_of(me_, other) > number;  // in this meeting
    const auto bound = at_once_ ? 0 : layout_.staleness;
    return {other, number + 1 - (second ? bound : bound + 1)};
  }
  /// The first that is behind; -1: none is.
  [[nodiscard]] int awaited_rank() const {
    const auto wait = waits_for();
    const auto begun = calls_[ended_].call.act == Act::Begin ? 0 : count_of(me_, Act::Begin);
    for (int replica = 0; replica < replicas(); ++replica)
      if (count_of(replica, wait.act) < wait.times || count_of(replica, Act::Begin) < begun)
        return layout_.group[static_cast<std::size_t>(replica)];
    return -1;
  }

  /// Of all vectors.
  void perform() {
    window_.see();
    const auto act = calls_[ended_].call.act;
    const auto end = ended_ + layout_.vectors.size();
    for (auto n = ended_; n < end; ++n) {
      ensure(calls_[n].call.act == act && calls_[n].call.vector == static_cast<int>(n - ended_), "vectors of a center follow each other");
      calls_[n].times.start = std::max(calls_[n].times.start, last_end_);
      issue(calls_[n].call);
    }
    window_.complete("meeting other replicas");
    last_end_ = now_seconds();
    for (; ended_ < end; ++ended_) calls_[ended_].times.end = last_end_;
    if (act == Act::Read) note_staleness();
    if (act == Act::Agree) return;
    const auto now = static_cast<Counter>(count_of(me_, act) + 1);
    for (const int rank : layout_.group) window_.set_counter({rank, counter_of(me_, act)}, now, "meeting rank " + std::to_string(rank));
  }

  void issue(const Call& call) {
    const auto& vector = layout_.vectors[static_cast<std::size_t>(call.vector)];
    for (int server = 0; server < servers(); ++server) {
      const auto block = plan::block(vector.count, servers(), server);
      if (block.count() > 0) issue(call, server, block);
    }
  }

  void issue(const Call& call, int server, plan::Range block) {
    const auto& vector = layout_.vectors[static_cast<std::size_t>(call.vector)];
    const RemoteMemory::Address place{rank_of_server(server), begins_[static_cast<std::size_t>(call.vector)]};
    const auto each = static_cast<std::int64_t>(size_of(vector.dtype));
    auto* own = static_cast<std::byte*>(call.data) + block.begin * each;
    const std::string what = "meeting at rank " + std::to_string(place.rank);
    if (call.act == Act::Add)
      window_.add(place, own, block.count(), vector.dtype, what);
    else if (call.act != Act::Begin)
      window_.read(place, own, block.count(), vector.dtype, what);
    else if (place.rank == world_.rank())
      std::memcpy(window_.memory() + place.at, own, static_cast<std::size_t>(block.count() * each));
  }

  void note_staleness() {
    for (int replica = 0; replica < replicas(); ++replica)
      staleness_ = std::max(staleness_, count_of(me_, Act::Add) - count_of(replica, Act::Add));
  }

  Communicator& world_;
  CenterLayout layout_;
  int me_;
  std::vector<std::int64_t> begins_;  ///< of the blocks of every vector, in the memory of a server
  RemoteMemory window_;
  std::vector<Started> calls_;
  std::size_t ended_ = 0;
  std::int64_t staleness_ = 0;
  double last_end_ = 0;
  bool at_once_ = false;
};

SharedCenter::SharedCenter(Communicator& world, CenterLayout layout) : impl_(std::make_unique<Impl>(world, std::move(layout))) {}
SharedCenter::~SharedCenter() = default;
std::uint32_t SharedCenter::start(const Call& call, std::string_view what) { return impl_->start(call, what); }
bool SharedCenter::done(std::uint32_t number) const { return impl_->done(number); }
TransferTimes SharedCenter::times(std::uint32_t number) const { return impl_->times(number); }
bool SharedCenter::busy() const { return impl_->busy(); }
bool SharedCenter::progress() { return impl_->progress(); }
std::string SharedCenter::awaited() const { return impl_->awaited(); }
void SharedCenter::meet_at_once(bool yes) { impl_->meet_at_once(yes); }
std::int64_t SharedCenter::take_staleness() { return impl_->take_staleness(); }
void SharedCenter::forget() { impl_->forget(); }

}  // namespace rehearsal::exec
