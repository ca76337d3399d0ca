#include "exec/play/row_end.hpp"

#include <algorithm>

#include "exec/play/device_messages.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kWish = 2, kVerdict = 3;  // tags of the service channel, beside the communicator's own

/// Steps that a replica may be ahead of another: what it may be in meetings, and the steps to the next one.
std::int64_t steps_of_lead(const plan::Plan& plan, const StepRow& row) {
  const auto longest = row.end - row.first, staleness = staleness_in_run(plan);
  return staleness >= longest ? longest : std::min(longest, (staleness + 1) * plan.local_steps);
}

}  // namespace

RowEnd::RowEnd(Executor& executor, const Training& training, const StepRow& row)
    : executor_(executor), world_(training.world), end_(row.end), heard_(row.first - 1), under_way_(std::make_unique<OpenMessages>()) {
  std::int64_t passes_ahead = 0;
  for (const auto& role : training.program.roles) passes_ahead = std::max(passes_ahead, static_cast<std::int64_t>(role.opening.size()));
  const auto micro_batches = training.program.micro_batches;
  const auto steps_ahead = (passes_ahead + micro_batches - 1) / micro_batches;
  // Every stage needs what the first one computes, which runs so far ahead of itself; and its step s may begin passes of s + steps_ahead.
  lag_ = steps_ahead + 1;
  notice_ = lag_ + steps_ahead;
  if (training.program.plan.meets_one_by_one()) {
    lag_ = steps_of_lead(training.program.plan, row);
    notice_ = lag_ + 1;  // a rank that hears it before step s + lag still plays that one
  }
  for (int peer = 1; peer < world_.size() && world_.rank() == 0; ++peer) expect(under_way_->wishes, peer, kWish);
}

RowEnd::~RowEnd() {
  const auto busy = [](const RowMessages& messages) {
    return std::any_of(messages.begin(), messages.end(), [](const RowMessage& m) { return m.request.active; });
  };
  const bool failed = busy(under_way_->sent) || busy(under_way_->wishes) || busy(under_way_->verdict);
  if (failed) static_cast<void>(under_way_.release());  // of a rank that is about to end: MPI may still write into it
}

std::int64_t RowEnd::before(std::int64_t step, bool stop) {
  if (world_.rank() == 0) {
    say(step, stop);
  } else {
    if (stop) wish(true);
    hear_until(step - lag_);
  }
  return end_;
}

void RowEnd::say(std::int64_t step, bool stop) {
  for (auto& message : under_way_->wishes) stop = (world_.done(message.request) && message.value != 0) || stop;
  if (stop) end_ = std::min(end_, step + notice_);
  for (int peer = 1; peer < world_.size(); ++peer) send(peer, kVerdict, end_);
  auto& sent = under_way_->sent;
  while (!sent.empty() && world_.done(sent.front().request)) sent.pop_front();
}

void RowEnd::hear_until(std::int64_t step) {
  for (; heard_ < std::min(step, end_ - 1); ++heard_) {
    expect(under_way_->verdict, 0, kVerdict);
    wait(under_way_->verdict.back(), "where the row of steps ends");
    end_ = under_way_->verdict.back().value;
    under_way_->verdict.clear();
  }
}

void RowEnd::wish(bool stop) {
  if (!wished_) send(0, kWish, stop ? 1 : 0);
  wished_ = true;
}

void RowEnd::close() {
  if (world_.rank() != 0) {
    wish(false);
    hear_until(end_ - 1);
  }
  for (auto& message : under_way_->wishes) wait(message, "whether the row of steps is to end");
  for (auto& message : under_way_->sent) wait(message, "where the row of steps ends");
}

void RowEnd::send(int peer, int tag, std::int64_t value) {
  auto& message = under_way_->sent.emplace_back();
  message.value = value;
  message.request = world_.send(peer, &message.value, sizeof message.value, Channel::Service, tag);
}

void RowEnd::expect(RowMessages& messages, int peer, int tag) {
  auto& message = messages.emplace_back();
  message.request = world_.receive(peer, &message.value, sizeof message.value, Channel::Service, tag);
}

void RowEnd::wait(RowMessage& message, const char* what) {
  world_.wait(message.request, what, [this] { executor_.progress(); });
}

}  // namespace rehearsal::exec
