#include "plan/memory/check_messages.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "plan/memory/places.hpp"
#include "plan/memory/under_way.hpp"

namespace rehearsal::plan {
namespace {

/// Bytes of one of a rank's arenas.
struct MessageBytes {
  bool on_host = false;
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] bool overlaps(const MessageBytes& o) const { return on_host == o.on_host && begin < o.end && o.begin < end; }
};

/// One end of a message between stages: sending stage, receiving stage, channel, number of the micro-batch.
using Address = std::tuple<int, int, std::uint32_t, std::int64_t>;

/// Which ends of messages have begun, on all ranks.
class Mail {
 public:
  void begin(const Address& address, bool sends) { (sends ? sent_ : received_).insert(address); }
  [[nodiscard]] bool met(const Address& address) const { return sent_.contains(address) && received_.contains(address); }

 private:
  std::set<Address> sent_, received_;
};

/// What a rank began and has not waited for.
struct Open {
  UnderWay message;
  BufferIndex buffer = kNoBuffer;
  MessageBytes range;
  bool writes = false;             ///< into its memory: all but what is only sent
  std::optional<Address> address;  ///< of messages between stages; a collective is one of equals, which all come to it
};

/// One rank's way through several steps in a row.
class MessageWalk {
 public:
  MessageWalk(const Program& program, int rank, std::int64_t steps, Mail& mail)
      : program_(program), rank_(rank), role_(program.role(rank)), places_(role_), mail_(mail) {
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step == 0) add_slots(role_.opening, {0, steps});
      add_slots(role_.slots, {step, steps});
    }
    for (BufferIndex b = 0; b < role_.buffers.size(); ++b)
      if (b == role_.arrivals) arrivals_ = range_of(b);
  }

  /// Goes on until it waits for another rank. True when it went on.
  bool advance() {
    bool moved = false;
    for (; at_ < slots_.size(); ++at_, instruction_ = 0, slot_begun_ = false) {
      if (!begin_slot()) return moved;
      const auto& instructions = role_.bodies[slot().body].instructions;
      for (; instruction_ < instructions.size(); ++instruction_, moved = true) {
        const auto& i = instructions[instruction_];
        if (!runs(program_, role_, i, slot().micro_batch)) continue;
        if (!await_dependencies(i)) return moved;
        if (takes_part(program_, rank_, i)) touch(i);
        if (communicates(i)) begin(i);
      }
      if (!end_slot()) return moved;
      moved = true;
    }
    return moved;
  }
  [[nodiscard]] bool ended() const { return at_ == slots_.size(); }
  /// What it waits for, and where.
  [[nodiscard]] std::string waiting() const { return place() + " waits for " + awaited_; }

 private:
  [[nodiscard]] std::string place() const {
    return "stage " + std::to_string(role_.stage) + ", step " + std::to_string(slots_[at_].step) + ", micro-batch " +
           std::to_string(slot().micro_batch) + ", " + std::string(name(role_.bodies[slot().body].kind)) + "." +
           std::to_string(instruction_);
  }

  struct Played {
    Slot slot;
    std::int64_t step = 0;
    bool ends_step = false, ends_row = false;
  };
  struct Row {
    std::int64_t step = 0, steps = 1;
  };

  void add_slots(const std::vector<Slot>& slots, const Row& row) {
    for (const auto& s : slots)
      if (row.step + s.micro_batch / program_.micro_batches < row.steps) slots_.push_back({s, row.step});
    if (slots_.empty() || &slots != &role_.slots) return;
    slots_.back().ends_step = true;
    slots_.back().ends_row = row.step + 1 == row.steps;
  }

  [[nodiscard]] const Slot& slot() const { return slots_[at_].slot; }
  [[nodiscard]] std::int64_t step() const { return slots_[at_].step; }

  bool begin_slot() {
    if (slot_begun_) return true;
    now_ = moment_of(program_, role_, slot(), step());
    if (!await_those([&](const Open& o) { return awaited_by_slot(program_, role_, slot(), step(), o.message); })) return false;
    slot_begun_ = true;
    return true;
  }

  bool end_slot() {
    const auto& played = slots_[at_];
    if (!played.ends_step || !awaited_behind_step(program_, played.ends_row)) return true;
    return await_those([](const Open&) { return true; });
  }

  bool await_dependencies(const Instruction& i) {
    for (const auto& d : i.after) {
      const auto number = number_of(program_, step(), micro_batch_of(program_, role_, slot(), d));
      const auto meant = [&](const Open& o) {
        return o.message.body == d.body && o.message.instruction == d.instruction &&
               number_of(program_, o.message.step, o.message.micro_batch) == number;
      };
      if (!await_those(meant)) return false;
    }
    return true;
  }

  /// False while one of them has not met its other end. What a collective waits for are the collectives before it.
  template <class Meant>
  bool await_those(const Meant& meant) {
    const auto last = std::find_if(open_.rbegin(), open_.rend(), [&](const Open& o) { return !o.address && meant(o); });
    const auto collectives = open_.rend() - last;
    std::ptrdiff_t place = 0;
    std::erase_if(open_, [&](const Open& o) {
      const bool before = place++ < collectives;
      return o.address ? meant(o) && mail_.met(*o.address) : before;
    });
    const auto left = std::find_if(open_.begin(), open_.end(), meant);
    if (left != open_.end()) awaited_ = text_of(*left);
    return left == open_.end();
  }

  [[nodiscard]] std::string text_of(const Open& o) const {
    const auto& body = role_.bodies[o.message.body];
    return std::string(name(body.kind)) + "." + std::to_string(o.message.instruction) + " (" +
           std::string(name(body.instructions[o.message.instruction].kind)) + " of " + role_.buffers[o.buffer].name + ") of step " +
           std::to_string(o.message.step) + ", micro-batch " + std::to_string(o.message.micro_batch);
  }

  [[nodiscard]] MessageBytes range_of(BufferIndex b) const {
    const auto at = places_.at(b, now_);
    return {role_.buffers[b].on_host, at, at + role_.buffers[b].bytes};
  }

  void touch(const Instruction& i) const {
    const bool collective = i.kind == InstructionKind::Collective;  // runs when those before it have ended
    for (const auto b : i.inputs)
      if (b != kNoBuffer) hold(i, b, collective, false);
    for (const auto b : i.outputs)
      if (b != kNoBuffer) hold(i, b, collective, true);
    if (i.workspace != kNoBuffer) hold(i, i.workspace, false, true);
  }

  void hold(const Instruction& i, BufferIndex b, bool collective, bool writes) const {
    const auto range = range_of(b);
    for (const auto& o : open_) {
      if (collective && !o.address) continue;
      const bool clash = (writes || o.writes) && range.overlaps(o.range);
      if (clash || (writes && !o.address && range.overlaps(arrivals_))) refuse(i, b, o, writes);
    }
  }

  [[noreturn]] void refuse(const Instruction& i, BufferIndex b, const Open& o, bool writes) const {
    throw InternalError(place() + ": " + std::string(name(i.kind)) + (writes ? " writes " : " reads ") + role_.buffers[b].name + " while " +
                        text_of(o) + " may still be under way in the same memory");
  }

  void begin(const Instruction& i) {
    Open o;
    o.message = {slot().body, static_cast<std::uint32_t>(instruction_), step(), slot().micro_batch};
    o.writes = i.kind != InstructionKind::Send;
    o.buffer = o.writes ? i.outputs.front() : i.inputs.front();
    o.range = range_of(o.buffer);
    if (i.kind != InstructionKind::Collective) {
      const auto& info = role_.messages[static_cast<std::size_t>(i.message)];
      const int other = role_.stage + info.stage_offset;
      const auto number = number_of(program_, step(), slot().micro_batch);
      o.address = o.writes ? Address{other, role_.stage, info.channel, number} : Address{role_.stage, other, info.channel, number};
      mail_.begin(*o.address, !o.writes);
    }
    open_.push_back(std::move(o));
  }

  const Program& program_;
  int rank_;
  const Role& role_;
  Places places_;
  Mail& mail_;
  std::vector<Played> slots_;
  std::size_t at_ = 0, instruction_ = 0;
  bool slot_begun_ = false;
  Moment now_;
  MessageBytes arrivals_;
  std::string awaited_;
  std::vector<Open> open_;  ///< in the order in which they began
};

/// Until every stage is past what it began with, and has used each version of its weights.
std::int64_t steps_to_play(const Program& program) {
  if (!crosses_steps(program)) return 1;
  std::int64_t ahead = 0, versions = 1;
  for (const auto& role : program.roles) {
    ahead = std::max(ahead, static_cast<std::int64_t>(role.opening.size()));
    versions = std::max<std::int64_t>(versions, role.delay + 1);
  }
  return 2 * versions + (ahead + program.micro_batches - 1) / program.micro_batches + 1;
}

}  // namespace

void check_messages(const Program& program) {
  Mail mail;
  std::deque<MessageWalk> walks;
  for (const int rank : representatives(program)) walks.emplace_back(program, rank, steps_to_play(program), mail);
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& walk : walks) moved = walk.advance() || moved;
  }
  std::string waiting;
  for (const auto& walk : walks)
    if (!walk.ended()) waiting += (waiting.empty() ? "" : "; ") + walk.waiting();
  if (!waiting.empty()) throw InternalError(to_text(program.plan) + ": stages wait for each other for ever: " + waiting);
}

}  // namespace rehearsal::plan
