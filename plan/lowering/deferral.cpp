#include "plan/lowering/deferral.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include "plan/lowering/reordering.hpp"

namespace rehearsal::plan {
namespace {

bool is_dealt_out_sum(const Role& role, const Instruction& i) {
  return i.kind == InstructionKind::Collective &&
         role.collectives[static_cast<std::size_t>(i.collective)].kind == CollectiveKind::ReduceScatter;
}

bool takes_in(const Instruction& i) {
  return i.stream == Stream::Compute && (i.kind == InstructionKind::Unpack || i.kind == InstructionKind::Restore ||
                                         i.kind == InstructionKind::Accumulate || i.kind == InstructionKind::Reorder);
}

/// The instructions of a body in their new order.
class Deferral {
 public:
  Deferral(const Role& role, std::uint16_t body, std::int64_t bytes_behind) : role_(role), number_(body) {
    const auto& instructions = role.bodies[body].instructions;
    for (const auto& i : instructions)
      if (is_dealt_out_sum(role, i)) room_ = std::max(room_, bytes_of(i));
    room_ += bytes_behind;
    for (std::size_t at = 0; at < instructions.size(); ++at) pass(at, instructions[at]);
    while (!waiting_.empty()) take_in_first();
  }
  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }

 private:
  struct Waiting {
    std::set<BufferIndex> buffers;    ///< the message, and what is made of it
    std::vector<std::size_t> behind;  ///< what takes it in
    std::int64_t bytes = 0;
  };

  void pass(std::size_t at, const Instruction& i) {
    const auto buffers = buffers_of(i);
    const auto touched = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return touches(w, i, buffers); });
    if (touched != waiting_.end() && takes_in(i) &&
        std::none_of(touched + 1, waiting_.end(), [&](const Waiting& w) { return touches(w, i, buffers); })) {
      touched->behind.push_back(at);
      touched->buffers.insert(buffers.begin(), buffers.end());
      return;
    }
    for (auto last = waiting_.size(); last-- > 0;) {
      if (!touches(waiting_[last], i, buffers)) continue;
      for (auto n = last + 1; n > 0; --n) take_in_first();
      break;
    }
    const bool sum = is_dealt_out_sum(role_, i);
    while (sum && !waiting_.empty() && bytes_ + bytes_of(i) > room_) take_in_first();
    order_.push_back(at);
    if (!sum) return;
    waiting_.push_back({buffers, {}, bytes_of(i)});
    bytes_ += bytes_of(i);
  }

  void take_in_first() {
    order_.insert(order_.end(), waiting_.front().behind.begin(), waiting_.front().behind.end());
    bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
  }

  [[nodiscard]] std::int64_t bytes_of(const Instruction& sum) const { return role_.buffers[sum.outputs.front()].bytes; }

  [[nodiscard]] bool touches(const Waiting& w, const Instruction& i, const std::set<BufferIndex>& buffers) const {
    if (std::any_of(buffers.begin(), buffers.end(), [&](BufferIndex b) { return w.buffers.contains(b); })) return true;
    return std::any_of(i.after.begin(), i.after.end(), [&](const Dependency& d) {
      return d.body == number_ && std::find(w.behind.begin(), w.behind.end(), d.instruction) != w.behind.end();
    });
  }

  [[nodiscard]] std::set<BufferIndex> buffers_of(const Instruction& i) const {
    std::set<BufferIndex> found;
    const auto add = [&](BufferIndex b) {
      if (b != kNoBuffer) found.insert(base_of(role_, b));
    };
    for (const auto b : i.inputs) add(b);
    for (const auto b : i.outputs) add(b);
    return found;
  }

  const Role& role_;
  std::uint16_t number_;
  std::int64_t room_ = 0, bytes_ = 0;
  std::deque<Waiting> waiting_;  ///< started, and not yet taken in
  std::vector<std::size_t> order_;
};

}  // namespace

void defer_sums(Role& role, std::int64_t bytes_behind) {
  std::vector<std::vector<std::size_t>> orders;
  for (std::size_t b = 0; b < role.bodies.size(); ++b) {
    const bool backward = role.bodies[b].kind == BodyKind::Backward;
    orders.push_back(backward ? Deferral(role, static_cast<std::uint16_t>(b), bytes_behind).order() : same_order(role.bodies[b]));
  }
  reorder(role, orders);
}

}  // namespace rehearsal::plan
