#include "plan/lowering/check_role.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/memory/under_way.hpp"

namespace rehearsal::plan {
namespace {

class RoleCheck {
 public:
  RoleCheck(const Role& role, std::string_view pass) : r_(role), pass_(pass) {}

  void run() {
    for (std::size_t b = 0; b < r_.buffers.size(); ++b) check_buffer(b);
    note_writers();
    for (body_ = 0; body_ < r_.bodies.size(); ++body_)
      for (at_ = 0; at_ < r_.bodies[body_].instructions.size(); ++at_) check(r_.bodies[body_].instructions[at_]);
    for (body_ = 0; body_ < r_.bodies.size(); ++body_) check_overwritten();
    if (!r_.slots.empty()) check_slots();
    if (r_.memory.arena_bytes > 0) check_places();
  }

 private:
  struct Writer {
    std::size_t body, instruction;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw InternalError("lowering, after '" + std::string(pass_) + "', stage " + std::to_string(r_.stage) + ": " + what);
  }
  [[noreturn]] void fail_here(const std::string& what) const {
    const auto& i = r_.bodies[body_].instructions[at_];
    fail("instruction " + std::to_string(at_) + " of body " + std::to_string(body_) + " (" + std::string(name(i.kind)) + ") " + what);
  }

  void check_buffer(std::size_t b) const {
    const auto& buffer = r_.buffers[b];
    if (buffer.part_of == kNoBuffer) return;
    if (buffer.part_of >= r_.buffers.size() || buffer.part_of == b) fail(buffer.name + " is part of a buffer that is not there");
    const auto& whole = r_.buffers[buffer.part_of];
    if (buffer.part_offset < 0 || buffer.part_offset + buffer.bytes > whole.bytes)
      fail(buffer.name + " ends behind " + whole.name + ", which it is part of");
  }

  /// The first instruction that writes a buffer, by body: loops run several times, and a body may read what a later one wrote in the
  /// micro-batch before.
  void note_writers() {
    writers_.resize(r_.buffers.size());
    for (std::size_t body = 0; body < r_.bodies.size(); ++body) {
      const auto& list = r_.bodies[body].instructions;
      for (std::size_t n = 0; n < list.size(); ++n)
        for (const auto b : list[n].outputs)
          if (b < r_.buffers.size()) writers_[base_of(r_, b)].push_back({body, n});
    }
  }

  /// What is sent is not overwritten before: the writer, or one before it on its stream, waits for the message.
  void check_overwritten() {
    const auto& list = r_.bodies[body_].instructions;
    for (std::size_t m = 0; m < list.size(); ++m)
      if (list[m].kind == InstructionKind::Send) check_message(body_, m);
  }
  /// In its body, and of an update in those behind it.
  void check_message(std::size_t body, std::size_t m) {
    const auto& message = r_.bodies[body].instructions[m];
    const Dependency on_message{static_cast<std::uint16_t>(body), static_cast<std::uint32_t>(m)};
    std::map<Stream, bool> waited;
    for (body_ = body; body_ < r_.bodies.size(); ++body_) {
      if (body_ > body && (r_.bodies[body].kind != BodyKind::Update || r_.bodies[body_].kind != BodyKind::Update)) break;
      const auto& list = r_.bodies[body_].instructions;
      for (at_ = body_ == body ? m + 1 : 0; at_ < list.size(); ++at_) {
        const auto& i = list[at_];
        if (std::ranges::find(i.after, on_message) != i.after.end()) waited[i.stream] = true;
        if (!std::ranges::any_of(i.outputs, [&](BufferIndex b) { return b != kNoBuffer && is_sent(message, b); })) continue;
        if (!waited[i.stream] && i.stream != message.stream) fail_here("writes what is still being sent");
        body_ = body;
        return;
      }
    }
    body_ = body;
  }
  [[nodiscard]] bool is_sent(const Instruction& message, BufferIndex b) const {
    return std::ranges::any_of(message.inputs, [&](BufferIndex sent) { return sent != kNoBuffer && base_of(r_, sent) == base_of(r_, b); });
  }

  template <class List, class Index>
  void need(const List& list, Index index, const char* what) const {
    if (index != static_cast<Index>(-1) && static_cast<std::size_t>(index) >= list.size())
      fail_here(std::string("names a ") + what + " that is not there");
  }

  void check(const Instruction& i) const {
    for (const auto* list : {&i.inputs, &i.outputs})
      for (const auto b : *list) need(r_.buffers, b, "buffer");
    need(r_.buffers, i.workspace, "workspace");
    need(r_.kernels, i.kernel, "kernel");
    need(r_.attributes, i.attributes, "set of attributes");
    need(r_.messages, i.message, "message");
    need(r_.collectives, i.collective, "collective");
    need(r_.redistributions, i.redistribution, "redistribution");
    for (const auto& d : i.after) check_dependency(i, d);
    for (const auto b : i.inputs)
      if (b != kNoBuffer) check_read(b);
  }

  void check_dependency(const Instruction& i, const Dependency& d) const {
    if (d.body >= r_.bodies.size() || d.instruction >= r_.bodies[d.body].instructions.size())
      fail_here("waits for an instruction that is not there");
    if (d.body == body_ && d.instruction >= at_) fail_here("waits for what comes behind it");
    if (d.body == body_ && r_.bodies[d.body].instructions[d.instruction].stream == i.stream && waits_for_its_stream(i))
      fail_here("waits for its own stream, which runs in order anyway");
  }

  void check_read(BufferIndex b) const {
    const auto base = base_of(r_, b);
    const auto& buffer = r_.buffers[base];
    if (buffer.lifetime == Lifetime::Persistent) return;
    const auto& writers = writers_[base];
    const bool before = std::ranges::any_of(writers, [&](const Writer& w) { return w.body != body_ || w.instruction < at_; });
    const bool adds = buffer.lifetime == Lifetime::Step && std::ranges::any_of(writers, [&](const Writer& w) { return w.body == body_; });
    if (!before && !adds) fail_here("reads " + buffer.name + ", which nothing has written");
  }

  void check_slots() const {
    std::vector<bool> runs(r_.bodies.size(), false);
    for (const auto* slots : {&r_.opening, &r_.slots})
      for (const Slot& slot : *slots) {
        if (slot.body >= r_.bodies.size()) fail("a slot runs a body that is not there");
        runs[slot.body] = true;
      }
    for (std::size_t b = 0; b < runs.size(); ++b)
      if (!runs[b] && !r_.bodies[b].instructions.empty() && has_micro_batches(r_.bodies[b]))
        fail("body " + std::to_string(b) + " never runs");
  }

  /// Of a bidirectional pipeline's two copies one has none where there are too few.
  [[nodiscard]] bool has_micro_batches(const Body& body) const {
    return !per_micro_batch(body.kind) || static_cast<std::size_t>(body.first) < r_.variant_of.size();
  }

  void check_places() const {
    for (const Buffer& b : r_.buffers) {
      if (b.part_of != kNoBuffer || b.offset < 0) continue;
      const auto end = b.on_host ? r_.memory.host_bytes : r_.memory.arena_bytes;
      if (b.offset + b.bytes > end) fail(b.name + " ends behind its arena");
    }
  }

  const Role& r_;
  std::string_view pass_;
  std::vector<std::vector<Writer>> writers_;
  std::size_t body_ = 0, at_ = 0;
};

}  // namespace

void check_role(const Role& role, std::string_view after_pass) { RoleCheck(role, after_pass).run(); }

}  // namespace rehearsal::plan
