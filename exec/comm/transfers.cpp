#include "exec/comm/transfers.hpp"

#include <sched.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "exec/comm/running_collective.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::size_t kLargestPiece = std::size_t{1} << 30;  // MPI counts bytes in an int

std::string quoted(std::string_view what) { return what.empty() ? "a message" : "'" + std::string(what) + "'"; }

}  // namespace

class Transfers::Impl {
 public:
  Impl(Communicator& world, std::size_t segment_bytes, std::span<std::byte> beside) : world_(world) {
    workspace_.world = &world;
    workspace_.segment_bytes = segment_bytes;
    workspace_.planned = beside;
  }

  Ticket start_message(int peer, void* data, std::size_t bytes, int tag, bool receives) {
    auto& record = add_record();
    auto* at = static_cast<std::byte*>(data);
    for (std::size_t begin = 0; begin == 0 || begin < bytes; begin += kLargestPiece) {
      const std::size_t size = std::min(kLargestPiece, bytes - begin);
      record.requests.push_back(receives ? world_.receive(peer, at + begin, size, Channel::Pipeline, tag)
                                         : world_.send(peer, at + begin, size, Channel::Pipeline, tag));
    }
    messages_.push_back(last());
    return Ticket(last());
  }

  Ticket start_collective(const CollectiveCall& call) {
    add_record();
    collectives_.emplace_back(last(), RunningCollective(call));
    const Ticket ticket{last()};
    if (collectives_.size() == 1) begin_first();
    return ticket;
  }

  void name_last(std::string_view what) { records_.back().what = what; }

  bool progress() {
    bool moved = false;
    const auto finished = [&](std::uint32_t index) {
      const bool now_done = advance_message(records_[index]);
      moved = moved || now_done;
      return now_done;
    };
    std::erase_if(messages_, finished);
    while (!collectives_.empty()) {
      moved = collectives_.front().second.advance(workspace_) || moved;
      if (!collectives_.front().second.done()) break;
      end(records_[collectives_.front().first]);
      collectives_.pop_front();
      moved = true;
      if (!collectives_.empty()) begin_first();
    }
    if (moved) waiting_.restart();
    return moved;
  }

  void idle() {
    if (progress() || !busy()) return;
    world_.require_neighbours();
    waiting_.look(now_seconds());
    if (waiting_.seconds() > world_.stall_seconds()) throw world_.stalled(awaited());
    ::sched_yield();
  }

  [[nodiscard]] bool busy() const { return !messages_.empty() || !collectives_.empty(); }
  [[nodiscard]] bool done(Ticket ticket) const { return at(ticket).done; }
  [[nodiscard]] TransferTimes times(Ticket ticket) const {
    ensure(done(ticket), "the times of a transfer are known when it is done");
    return at(ticket).times;
  }

  void take_puts_of(std::span<const int> senders) {
    one_sided_ = std::make_unique<OneSided>(world_, senders, OneSided::ArrivalPlaces());
    workspace_.one_sided = one_sided_.get();
  }

  [[nodiscard]] std::int64_t allocated_bytes() const { return static_cast<std::int64_t>(workspace_.allocated.size()); }
  void forget() {
    ensure(!busy(), "transfers are forgotten when all are done");
    records_.clear();
  }

 private:
  struct Record {
    TransferTimes times;
    std::string_view what;
    std::vector<Request> requests;  ///< of a message, in order
    std::size_t finished = 0;       ///< leading requests that are done
    bool done = false;
  };

  Record& add_record() {
    ensure(records_.size() < std::numeric_limits<std::uint32_t>::max(), "fewer than 2^32 transfers between two calls of forget()");
    auto& record = records_.emplace_back();
    record.times.start = now_seconds();
    waiting_.restart();
    return record;
  }
  [[nodiscard]] std::uint32_t last() const { return static_cast<std::uint32_t>(records_.size() - 1); }
  [[nodiscard]] const Record& at(Ticket ticket) const {
    ensure(static_cast<std::size_t>(ticket) < records_.size(), "a ticket is valid until forget()");
    return records_[static_cast<std::size_t>(ticket)];
  }

  static void end(Record& record) {
    record.times.end = now_seconds();
    record.done = true;
  }

  void begin_first() {
    auto& [index, collective] = collectives_.front();
    records_[index].times.start = now_seconds();
    collective.begin(workspace_);
    if (!collective.done()) return;
    end(records_[index]);
    collectives_.pop_front();
    if (!collectives_.empty()) begin_first();
  }

  bool advance_message(Record& record) {
    while (record.finished < record.requests.size() && world_.done(record.requests[record.finished])) ++record.finished;
    if (record.finished < record.requests.size()) return false;
    end(record);
    return true;
  }

  [[nodiscard]] std::string awaited() const {
    if (!collectives_.empty()) return collectives_.front().second.awaited() + " for " + quoted(records_[collectives_.front().first].what);
    const auto& record = records_[messages_.front()];
    const auto& request = record.requests[record.finished];
    return "rank " + std::to_string(request.peer) + (request.receives ? " to send " : " to take ") + quoted(record.what) + " (" +
           std::to_string(request.bytes) + " bytes)";
  }

  Communicator& world_;
  std::unique_ptr<OneSided> one_sided_;
  CollectiveWorkspace workspace_;
  std::deque<Record> records_;
  std::vector<std::uint32_t> messages_;  ///< under way, by index of their record
  std::deque<std::pair<std::uint32_t, RunningCollective>> collectives_;
  WaitingTime waiting_;  ///< since something moved
};

Transfers::Transfers(Communicator& world, std::size_t segment_bytes, std::span<std::byte> beside)
    : impl_(std::make_unique<Impl>(world, segment_bytes, beside)) {}

Transfers::~Transfers() {
  if (impl_->busy()) static_cast<void>(impl_.release());  // MPI may still write into it
}

void Transfers::take_puts_of(std::span<const int> senders) { impl_->take_puts_of(senders); }

Ticket Transfers::start_send(int peer, const void* data, std::size_t bytes, int tag, std::string_view what) {
  const auto ticket = impl_->start_message(peer, const_cast<void*>(data), bytes, tag, false);
  impl_->name_last(what);
  return ticket;
}

Ticket Transfers::start_receive(int peer, void* data, std::size_t bytes, int tag, std::string_view what) {
  const auto ticket = impl_->start_message(peer, data, bytes, tag, true);
  impl_->name_last(what);
  return ticket;
}

Ticket Transfers::start_collective(const CollectiveCall& call, std::string_view what) {
  const auto ticket = impl_->start_collective(call);
  impl_->name_last(what);
  return ticket;
}

bool Transfers::done(Ticket ticket) const { return impl_->done(ticket); }
bool Transfers::progress() { return impl_->progress(); }
void Transfers::idle() { impl_->idle(); }

void Transfers::wait(Ticket ticket) {
  while (!impl_->done(ticket)) impl_->idle();
}

void Transfers::wait_all() {
  while (impl_->busy()) impl_->idle();
}

TransferTimes Transfers::times(Ticket ticket) const { return impl_->times(ticket); }
std::int64_t Transfers::allocated_bytes() const { return impl_->allocated_bytes(); }
void Transfers::forget() { impl_->forget(); }

}  // namespace rehearsal::exec
