#include "plan/lowering/prefetch.hpp"

#include <algorithm>
#include <deque>
#include <vector>

#include "plan/lowering/reordering.hpp"

namespace rehearsal::plan {
namespace {

/// Is instruction `at` the packing of a stored part, and the next one its gather?
bool begins_gather(const Role& role, const Body& body, std::size_t at) {
  if (at + 1 >= body.instructions.size()) return false;
  const Instruction &pack = body.instructions[at], &gather = body.instructions[at + 1];
  return pack.kind == InstructionKind::Pack && role.buffers[base_of(role, pack.inputs[0])].lifetime == Lifetime::Persistent &&
         gather.kind == InstructionKind::Collective && gather.inputs[0] == pack.outputs[0] &&
         role.collectives[static_cast<std::size_t>(gather.collective)].kind == CollectiveKind::AllGather;
}

/// The instructions of a body in their new order.
class Reordering {
 public:
  Reordering(const Role& role, const Body& body, std::int64_t bytes_ahead) : role_(role), body_(body) {
    find_gathers();
    for (const std::size_t gather : gathers_) room_ = std::max(room_, bytes_of(gather));
    room_ += bytes_ahead;
    for (std::size_t at = 0; at < body.instructions.size(); ++at) pass(at);
  }
  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }

 private:
  /// But for what the body writes itself, as an update does that goes on with what it made.
  void find_gathers() {
    begins_.assign(body_.instructions.size(), false);
    std::vector<bool> written(role_.buffers.size(), false);
    const auto is_written = [&](BufferIndex b) { return b != kNoBuffer && written[base_of(role_, b)]; };
    for (std::size_t at = 0; at < begins_.size(); ++at) {
      const Instruction& i = body_.instructions[at];
      begins_[at] = begins_gather(role_, body_, at) && std::ranges::none_of(i.inputs, is_written);
      if (begins_[at]) gathers_.push_back(at);
      for (const BufferIndex b : i.outputs)
        if (b != kNoBuffer) written[base_of(role_, b)] = true;
    }
  }

  void pass(std::size_t at) {
    if (begins_[at]) {
      while (!ahead_.empty() && ahead_.front() != at) drop_first();
      if (ahead_.empty()) start_next();
      drop_first();
      return;
    }
    if (at > 0 && begins_[at - 1]) return;  // moved with its packing
    while (next_ < gathers_.size() && (ahead_.empty() || bytes_ + bytes_of(gathers_[next_]) <= room_)) start_next();
    order_.push_back(at);
  }

  void start_next() {
    const std::size_t at = gathers_[next_++];
    order_.push_back(at);
    order_.push_back(at + 1);
    ahead_.push_back(at);
    bytes_ += bytes_of(at);
  }
  void drop_first() {
    bytes_ -= bytes_of(ahead_.front());
    ahead_.pop_front();
  }
  /// What is gathered into a place that it keeps until the backward pass has used it takes little for being early.
  [[nodiscard]] std::int64_t bytes_of(std::size_t gather) const {
    const auto& vector = role_.buffers[body_.instructions[gather].outputs[0]];
    return vector.category == MemoryCategory::Parameters ? 0 : vector.bytes;
  }

  const Role& role_;
  const Body& body_;
  std::int64_t room_ = 0, bytes_ = 0;
  std::vector<bool> begins_;  ///< [instruction]: it packs what is gathered ahead
  std::vector<std::size_t> gathers_, order_;
  std::size_t next_ = 0;
  std::deque<std::size_t> ahead_;  ///< started, and not yet passed
};

}  // namespace

void prefetch_parameters(Role& role, std::int64_t bytes_ahead) {
  std::vector<std::vector<std::size_t>> orders;
  for (const Body& body : role.bodies) orders.push_back(Reordering(role, body, bytes_ahead).order());
  reorder(role, orders);
}

}  // namespace rehearsal::plan
