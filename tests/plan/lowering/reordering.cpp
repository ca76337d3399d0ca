// Gathers that begin earlier than they are wanted and sums that are taken in later than they arrive, instruction by instruction.
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "plan/lowering/check_role.hpp"
#include "plan/lowering/deferral.hpp"
#include "plan/lowering/prefetch.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

/// A role with one body, whose instructions have names of a letter and a number.
class Written {
 public:
  explicit Written(BodyKind kind) { role.bodies.push_back({kind, 0, {}}); }

  BufferIndex buffer(const std::string& name, std::int64_t bytes, Lifetime lifetime = Lifetime::Transient) {
    const auto [at, fresh] = buffers_.try_emplace(name, static_cast<BufferIndex>(role.buffers.size()));
    if (!fresh) return at->second;
    Buffer b;
    b.name = name;
    b.bytes = bytes;
    b.lifetime = lifetime;
    role.buffers.push_back(b);
    return at->second;
  }
  Instruction& add(const std::string& name, InstructionKind kind, std::vector<BufferIndex> from, std::vector<BufferIndex> to) {
    Instruction i;
    i.kind = kind;
    i.inputs = std::move(from);
    i.outputs = std::move(to);
    i.node = static_cast<graph::NodeId>(names_.size());  // says which it is
    if (kind == InstructionKind::Collective)
      i.stream = Stream::Collective, i.collective = static_cast<std::int32_t>(role.collectives.size());
    names_.push_back(name);
    role.bodies.front().instructions.push_back(i);
    return role.bodies.front().instructions.back();
  }
  void collective(const std::string& name, CollectiveKind kind, BufferIndex vector) {
    add(name, InstructionKind::Collective, {vector}, {vector});
    role.collectives.push_back({kind, "ring"});
  }
  /// Parameter `n`, packed, gathered and used.
  void gathered(const std::string& n, std::int64_t bytes) {
    const auto vector = buffer("vector" + n, bytes), part = buffer("part" + n, 10, Lifetime::Persistent);
    add("p" + n, InstructionKind::Pack, {part}, {vector});
    collective("g" + n, CollectiveKind::AllGather, vector);
    add("k" + n, InstructionKind::Kernel, {vector}, {buffer("result" + n, 10)});
  }
  /// Gradient `n`, made, summed and unpacked.
  void summed(const std::string& n, std::int64_t bytes) {
    const auto vector = buffer("vector" + n, bytes);
    add("k" + n, InstructionKind::Kernel, {}, {vector});
    collective("s" + n, CollectiveKind::ReduceScatter, vector);
    add("u" + n, InstructionKind::Unpack, {vector}, {buffer("gradient" + n, 10)});
  }
  [[nodiscard]] std::string order() const {
    std::string text;
    for (const auto& i : role.bodies.front().instructions) text += (text.empty() ? "" : " ") + names_[graph::index(i.node)];
    return text;
  }
  [[nodiscard]] std::string prefetched(std::int64_t bytes) const {
    auto copy = *this;
    prefetch_parameters(copy.role, bytes);
    return copy.order();
  }
  [[nodiscard]] std::string deferred(std::int64_t bytes) const {
    auto copy = *this;
    defer_sums(copy.role, bytes);
    return copy.order();
  }

  Role role;

 private:
  std::vector<std::string> names_;
  std::map<std::string, BufferIndex> buffers_;
};

}  // namespace

TEST_CASE("gathers begin as far ahead as there is room for vectors beside the largest") {
  Written w(BodyKind::Forward);
  w.add("k", InstructionKind::Kernel, {}, {w.buffer("input", 10)});
  for (const char* n : {"0", "1", "2", "3"}) w.gathered(n, 100);
  // One at a time: the next one begins when the one before is there.
  CHECK(w.prefetched(0) == "p0 g0 k p1 g1 k0 p2 g2 k1 p3 g3 k2 k3");
  CHECK(w.prefetched(99) == w.prefetched(0));
  CHECK(w.prefetched(100) == "p0 g0 p1 g1 k p2 g2 k0 p3 g3 k1 k2 k3");
  CHECK(w.prefetched(300) == "p0 g0 p1 g1 p2 g2 p3 g3 k k0 k1 k2 k3");
  // What is kept until the backward pass has used it takes nothing for being early.
  for (auto& b : w.role.buffers) b.category = MemoryCategory::Parameters;
  CHECK(w.prefetched(0) == w.prefetched(300));
}

TEST_CASE("a large gather has room, and small ones beside it only as much as is left") {
  Written w(BodyKind::Forward);
  w.gathered("0", 50);
  w.gathered("1", 200);
  w.gathered("2", 50);
  // The first is wanted at once. Beside the large one there is no room.
  CHECK(w.prefetched(0) == "p0 g0 p1 g1 k0 p2 g2 k1 k2");
  CHECK(w.prefetched(50) == "p0 g0 p1 g1 p2 g2 k0 k1 k2");
}

TEST_CASE("what the body makes itself, and what is no stored part, is gathered where it stands") {
  Written w(BodyKind::Update);
  w.add("k", InstructionKind::Kernel, {}, {w.buffer("input", 10)});
  w.gathered("0", 100);
  w.add("w", InstructionKind::Kernel, {}, {w.buffer("part1", 10, Lifetime::Persistent)});
  w.gathered("1", 100);
  w.buffer("part2", 10, Lifetime::Transient);
  w.gathered("2", 100);
  CHECK(w.prefetched(500) == "p0 g0 k k0 w p1 g1 k1 p2 g2 k2");
  Written sums(BodyKind::Forward);
  sums.add("k", InstructionKind::Kernel, {}, {sums.buffer("input", 10)});
  sums.add("p", InstructionKind::Pack, {sums.buffer("part", 10, Lifetime::Persistent)}, {sums.buffer("vector", 10)});
  sums.collective("s", CollectiveKind::AllReduce, sums.buffer("vector", 10));
  sums.add("p1", InstructionKind::Pack, {sums.buffer("part", 10)}, {sums.buffer("other", 10)});
  CHECK(sums.prefetched(500) == "k p s p1");
}

TEST_CASE("what waits for instructions that move waits for them where they are then") {
  Written w(BodyKind::Forward);
  w.add("k", InstructionKind::Kernel, {}, {w.buffer("input", 10)});
  w.gathered("0", 100);
  w.role.bodies.front().instructions.back().after = {{0, 2}};
  w.role.bodies.push_back({BodyKind::Backward, 0, {w.role.bodies.front().instructions.back()}});
  prefetch_parameters(w.role, 0);
  CHECK(w.order() == "p0 g0 k k0");
  CHECK(w.role.bodies[0].instructions.back().after == std::vector<Dependency>{{0, 1}});
  CHECK(w.role.bodies[1].instructions.back().after == std::vector<Dependency>{{0, 1}});
}

TEST_CASE("sums are taken in when their memory is wanted, or behind the last") {
  Written w(BodyKind::Backward);
  for (const char* n : {"0", "1", "2"}) w.summed(n, 100);
  CHECK(w.deferred(0) == "k0 s0 k1 u0 s1 k2 u1 s2 u2");
  CHECK(w.deferred(99) == w.deferred(0));
  CHECK(w.deferred(100) == "k0 s0 k1 s1 k2 u0 s2 u1 u2");
  CHECK(w.deferred(200) == "k0 s0 k1 s1 k2 s2 u0 u1 u2");
  Written forward(BodyKind::Forward);
  forward.summed("0", 100);
  forward.add("k", InstructionKind::Kernel, {}, {});
  CHECK(forward.deferred(500) == "k0 s0 u0 k");
}

TEST_CASE("who reads what is made of a sum, or waits for it, finds it taken in, and what came before it, too") {
  Written w(BodyKind::Backward);
  w.summed("0", 100);
  w.summed("1", 100);
  w.add("a", InstructionKind::Accumulate, {w.buffer("gradient1", 10)}, {w.buffer("total", 10)});
  w.add("k", InstructionKind::Kernel, {}, {w.buffer("other", 10)});
  CHECK(w.deferred(500) == "k0 s0 k1 s1 k u0 u1 a");
  auto reading = w;
  reading.add("r", InstructionKind::Kernel, {reading.buffer("gradient0", 10)}, {});
  CHECK(reading.deferred(500) == "k0 s0 k1 s1 k u0 r u1 a");
  auto waiting = w;
  waiting.add("w", InstructionKind::Kernel, {}, {}).after = {{0, 5}};  // for u1
  CHECK(waiting.deferred(500) == "k0 s0 k1 s1 k u0 u1 a w");
  auto elsewhere = w;
  elsewhere.add("w", InstructionKind::Kernel, {}, {}).after = {{1, 5}};
  elsewhere.role.bodies.push_back({BodyKind::Forward, 0, std::vector<Instruction>(6)});
  CHECK(elsewhere.deferred(500) == "k0 s0 k1 s1 k w u0 u1 a");
  // Of two sums at once nothing can be taken in apart.
  auto both = w;
  both.add("b", InstructionKind::Accumulate, {both.buffer("gradient0", 10)}, {both.buffer("gradient1", 10)});
  CHECK(both.deferred(500) == "k0 s0 k1 s1 k u0 u1 a b");
}

TEST_CASE("a buffer that is part of itself or of none, and a sum over micro-batches that reads itself first") {
  Written w(BodyKind::Forward);
  const auto whole = w.buffer("whole", 64, Lifetime::Step), part = w.buffer("part", 32, Lifetime::Step);
  w.add("k", InstructionKind::Accumulate, {whole}, {whole});
  auto& buffers = w.role.buffers;
  CHECK_NOTHROW(check_role(w.role, "a pass"));  // what the micro-batch before has left
  buffers[part].part_of = whole;
  CHECK_NOTHROW(check_role(w.role, "a pass"));
  buffers[part].part_offset = 33;
  CHECK_THROWS_WITH(check_role(w.role, "a pass"), contains("part ends behind whole"));
  buffers[part].part_offset = -1;
  CHECK_THROWS_WITH(check_role(w.role, "a pass"), contains("part ends behind whole"));
  buffers[part].part_offset = 32;
  CHECK_NOTHROW(check_role(w.role, "a pass"));
  for (const BufferIndex wrong : {part, BufferIndex{2}, BufferIndex{1000}}) {
    buffers[part].part_of = wrong;
    CHECK_THROWS_WITH(check_role(w.role, "a pass"), contains("is part of a buffer that is not there"));
  }
  buffers[part].part_of = kNoBuffer;
  buffers[whole].lifetime = Lifetime::Saved;
  CHECK_THROWS_WITH(check_role(w.role, "a pass"), contains("reads whole, which nothing has written"));
}
