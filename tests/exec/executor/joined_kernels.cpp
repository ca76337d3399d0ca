// Which neighbours of a body are run by one launch.
#include "exec/play/joined_kernels.hpp"

#include <map>

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

/// Joins those of its own family.
class Counted final : public Kernel {
 public:
  explicit Counted(int family) : family_(family) {}
  void run(std::span<const TensorView>, std::span<const TensorView>, const RunContext&) override {}
  [[nodiscard]] bool joins(const Kernel& other) const override { return static_cast<const Counted&>(other).family_ == family_; }

 private:
  int family_;
};

/// Buffers of 8 bytes one after the other, and instructions that read one and write another.
struct Sample {
  plan::Role role;
  plan::Body body;
  Counted adam{0}, sgd{1};
  std::map<std::uint32_t, const Kernel*> others;

  explicit Sample(int buffers) {
    for (int b = 0; b < buffers; ++b) {
      plan::Buffer buffer;
      buffer.bytes = 8;
      buffer.offset = 8 * b;
      role.buffers.push_back(buffer);
    }
  }
  plan::Instruction& add(std::vector<plan::BufferIndex> from, std::vector<plan::BufferIndex> to) {
    plan::Instruction i;
    i.inputs = std::move(from), i.outputs = std::move(to);
    return body.instructions.emplace_back(i);
  }
  [[nodiscard]] std::vector<std::uint32_t> until() const {
    return joined_until(role, body, [&](std::uint32_t n) { return others.contains(n) ? others.at(n) : &adam; });
  }
};
using Ends = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("updates of different memory are one launch, up to one that reads or writes what another of them writes") {
  Sample s(10);
  s.add({0, 1}, {0});
  s.add({2, 1}, {2, plan::kNoBuffer});  // both read 1
  s.add({4, 5}, {4});
  CHECK(s.until() == Ends{3, 3, 3});
  s.add({4, 6}, {6});  // reads what the third writes
  s.add({7}, {8});
  CHECK(s.until() == Ends{3, 3, 3, 5, 5});
  s.add({9}, {7});  // writes what the fifth reads
  CHECK(s.until() == Ends{3, 3, 3, 5, 5, 6});
}

TEST_CASE("views are the memory that they lie in, and two arenas are apart") {
  Sample s(4);
  auto view = s.role.buffers[3];
  view.part_of = 0, view.part_offset = 4, view.bytes = 4;
  s.role.buffers[3] = view;
  s.add({1}, {0});
  s.add({3}, {2});  // reads the second half of 0
  CHECK(s.until() == Ends{1, 2});
  s.role.buffers[3].on_host = s.role.buffers[3].part_of == 0;
  s.role.buffers[0].on_host = true;
  CHECK(s.until() == Ends{1, 2});
  s.role.buffers[3] = s.role.buffers[1];
  s.role.buffers[3].offset = 0;  // where 0 lies in the other arena
  CHECK(s.until() == Ends{2, 2});
}

TEST_CASE("what waits, does not always run, is of another kernel or has versions is launched by itself") {
  Sample s(12);
  for (plan::BufferIndex b = 0; b < 12; b += 2) s.add({b}, {b + 1});
  CHECK(s.until() == Ends{6, 6, 6, 6, 6, 6});
  s.body.instructions[2].after = {{0, 0}};
  CHECK(s.until() == Ends{2, 2, 6, 6, 6, 6});
  s.others[4] = nullptr;  // a message
  CHECK(s.until() == Ends{2, 2, 4, 4, 5, 6});
  s.others[4] = &s.sgd;
  CHECK(s.until() == Ends{2, 2, 4, 4, 5, 6});
  s.body.instructions[3].during = plan::During::Later;
  CHECK(s.until() == Ends{2, 2, 3, 4, 5, 6});
  s.body.instructions[1].when = plan::When::LastMicroBatch;
  CHECK(s.until() == Ends{1, 2, 3, 4, 5, 6});
  Sample versions(4);
  versions.add({0}, {1});
  versions.add({2}, {3});
  versions.role.buffers[3].versions = 2;
  CHECK(versions.until() == Ends{1, 2});
}
