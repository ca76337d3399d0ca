#include "plan/memory/in_use.hpp"

#include <algorithm>
#include <set>

#include "plan/memory/planner.hpp"

namespace rehearsal::plan {
namespace {

/// Positions on the axis of a step's instructions, slot by slot; both ends belong to it.
struct UsedSpan {
  std::int64_t first = -1, last = -1;
  bool begins = false;  ///< what takes it is made in this step
};

/// When a body uses a buffer.
struct BufferUse {
  BufferIndex buffer = kNoBuffer;
  std::int64_t first = 0, last = 0;
  bool made = false;  ///< written before it is read
};

std::vector<BufferUse> uses_of(const Role& role, const Body& body) {
  std::map<BufferIndex, BufferUse> uses;
  for (std::size_t i = 0; i < body.instructions.size(); ++i) {
    const auto touch = [&](BufferIndex buffer, bool writes) {
      if (buffer == kNoBuffer) return;
      const auto base = base_of(role, buffer);
      const auto at = static_cast<std::int64_t>(i);
      uses.try_emplace(base, BufferUse{base, at, at, writes}).first->second.last = at;
    };
    const auto& instruction = body.instructions[i];
    for (const auto buffer : instruction.inputs) touch(buffer, false);
    for (const auto buffer : instruction.outputs) touch(buffer, true);
    touch(instruction.workspace, true);
  }
  std::vector<BufferUse> result;
  for (const auto& [base, use] : uses) result.push_back(use);
  return result;
}

std::int64_t size_of(const Buffer& buffer) { return version_stride(buffer.bytes) * buffer.versions; }

/// Adds up what begins and ends, position by position.
class Account {
 public:
  Account(const Program& program, const Role& role) : program_(program), role_(role) {
    // Beside an outline buffers are messages, which are parts of what it counts.
    const bool outlined = role.outline.resident > 0;
    for (const auto& body : role.bodies) uses_.push_back(outlined ? std::vector<BufferUse>{} : uses_of(role, body));
    std::int64_t length = 0;
    for (const auto& slot : role.slots) length += static_cast<std::int64_t>(role.bodies[slot.body].instructions.size());
    changes_.assign(static_cast<std::size_t>(length) + 1, 0);
  }

  std::vector<std::int64_t> bytes() {
    std::int64_t now = role_.outline.resident;
    for (const auto& buffer : role_.buffers)
      if (buffer.part_of == kNoBuffer && !buffer.on_host && is_apart(buffer.lifetime)) now += size_of(buffer);
    std::int64_t at = 0;
    for (const auto& slot : role_.slots) {
      pass(slot, at);
      at += static_cast<std::int64_t>(role_.bodies[slot.body].instructions.size());
    }
    for (const auto& [key, span] : saved_) add(whole(span, key.second), size_of(role_.buffers[key.first]));
    for (const auto& [key, span] : passes_) add(whole(span, key.second), role_.outline.kept_by_pass);
    if (passing_.first >= 0) add(passing_, role_.outline.at_work);
    if (passing_.last + 1 < static_cast<std::int64_t>(changes_.size()) - 1)
      add({passing_.last + 1, static_cast<std::int64_t>(changes_.size()) - 2, true}, role_.outline.behind);
    for (auto& change : changes_) change = now += change;
    changes_.pop_back();
    return std::move(changes_);
  }

 private:
  void pass(const Slot& slot, std::int64_t start) {
    const auto& body = role_.bodies[slot.body];
    for (const auto& use : uses_[slot.body]) {
      const auto& buffer = role_.buffers[use.buffer];
      if (buffer.on_host || is_apart(buffer.lifetime)) continue;
      if (buffer.lifetime == Lifetime::Saved)
        enter(saved_[{use.buffer, slot.micro_batch}], {start + use.first, start + use.last, use.made});
      else
        add({start + use.first, start + use.last, true}, size_of(buffer));
    }
    const auto length = static_cast<std::int64_t>(body.instructions.size());
    if (!per_micro_batch(body.kind) || length == 0) return;
    const bool forward = body.kind == BodyKind::Forward;
    if (!forward) backward_.insert(slot.micro_batch);
    enter(passes_[{body.chunk, slot.micro_batch}], {start, start + length - 1, forward});
    enter(passing_, {start, start + length - 1, true});
  }

  static void enter(UsedSpan& span, const UsedSpan& use) {
    if (span.first < 0) span.begins = use.begins;
    span.first = span.first < 0 ? use.first : std::min(span.first, use.first);
    span.last = std::max(span.last, use.last);
  }

  /// What an earlier step began is there from the start, what a later one ends to the end. Without overlapping steps there is no such
  /// thing.
  [[nodiscard]] UsedSpan whole(UsedSpan span, std::int32_t micro_batch) const {
    if (!crosses_steps(program_)) return span;
    if (!span.begins) span.first = 0;
    if (!backward_.contains(micro_batch)) span.last = static_cast<std::int64_t>(changes_.size()) - 2;
    return span;
  }

  void add(const UsedSpan& span, std::int64_t bytes) {
    changes_[static_cast<std::size_t>(span.first)] += bytes;
    changes_[static_cast<std::size_t>(span.last) + 1] -= bytes;
  }

  const Program& program_;
  const Role& role_;
  std::vector<std::vector<BufferUse>> uses_;  ///< by body
  std::map<std::pair<BufferIndex, std::int32_t>, UsedSpan> saved_;
  std::map<std::pair<std::uint16_t, std::int32_t>, UsedSpan> passes_;  ///< by chunk and micro-batch
  std::set<std::int32_t> backward_;                                    ///< micro-batches with such a pass in the step
  UsedSpan passing_;
  std::vector<std::int64_t> changes_;
};

}  // namespace

BytesInUse::BytesInUse(const Program& program, const Role& role) : bytes_(Account(program, role).bytes()) {
  std::size_t at = 0;
  for (const auto& slot : role.slots) {
    start_.try_emplace({slot.body, slot.micro_batch}, at);
    at += role.bodies[slot.body].instructions.size();
  }
}

std::int64_t BytesInUse::at(std::uint16_t body, std::uint32_t instruction, std::int32_t micro_batch) const {
  const auto slot = start_.find({body, micro_batch});
  return slot == start_.end() ? 0 : bytes_[slot->second + instruction];
}

std::int64_t BytesInUse::peak() const { return bytes_.empty() ? 0 : *std::ranges::max_element(bytes_); }

}  // namespace rehearsal::plan
