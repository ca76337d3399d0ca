#include "exec/play/joined_kernels.hpp"

#include <algorithm>

namespace rehearsal::exec {
namespace {

using plan::BufferIndex;

/// A piece of one of the two arenas.
struct Piece {
  bool on_host;
  std::int64_t first, end;
  [[nodiscard]] bool touches(const Piece& other) const { return on_host == other.on_host && first < other.end && other.first < end; }
};

Piece piece_of(const plan::Role& role, BufferIndex b) {
  std::int64_t first = 0;
  const std::int64_t bytes = role.buffers[b].bytes;
  for (; role.buffers[b].part_of != plan::kNoBuffer; b = role.buffers[b].part_of) first += role.buffers[b].part_offset;
  first += role.buffers[b].offset;
  return {role.buffers[b].on_host, first, first + bytes};
}

/// What some instructions read and write.
class Touched {
 public:
  explicit Touched(const plan::Role& role) : role_(role) {}
  [[nodiscard]] bool is_apart(const plan::Instruction& i) const {
    const auto free_of = [&](const std::vector<BufferIndex>& buffers, const std::vector<Piece>& pieces) {
      return std::ranges::all_of(buffers, [&](BufferIndex b) {
        return b == plan::kNoBuffer ||
               std::ranges::none_of(pieces, [p = piece_of(role_, b)](const Piece& other) { return p.touches(other); });
      });
    };
    return free_of(i.inputs, written_) && free_of(i.outputs, written_) && free_of(i.outputs, read_);
  }
  void add(const plan::Instruction& i) {
    for (const auto b : i.inputs)
      if (b != plan::kNoBuffer) read_.push_back(piece_of(role_, b));
    for (const auto b : i.outputs)
      if (b != plan::kNoBuffer) written_.push_back(piece_of(role_, b));
  }

 private:
  const plan::Role& role_;
  std::vector<Piece> read_, written_;
};

bool has_versions(const plan::Role& role, const plan::Instruction& i) {
  const auto several = [&](BufferIndex b) { return b != plan::kNoBuffer && role.buffers[plan::base_of(role, b)].versions > 1; };
  return std::ranges::any_of(i.inputs, several) || std::ranges::any_of(i.outputs, several);
}

bool always_runs_here(const plan::Instruction& i) {
  return i.when == plan::When::Always && i.during == plan::During::Training && i.collective < 0 && i.workspace == plan::kNoBuffer;
}

}  // namespace

std::vector<std::uint32_t> joined_until(const plan::Role& role, const plan::Body& body,
                                        const std::function<const Kernel*(std::uint32_t)>& kernel_of) {
  const auto count = static_cast<std::uint32_t>(body.instructions.size());
  std::vector<std::uint32_t> until(count);
  const auto may_join = [&](std::uint32_t n) {
    const auto& i = body.instructions[n];
    return kernel_of(n) != nullptr && always_runs_here(i) && !has_versions(role, i);
  };
  for (std::uint32_t first = 0, end = 0; first < count; first = end) {
    end = first + 1;
    if (may_join(first)) {
      Touched touched(role);
      for (touched.add(body.instructions[first]); end < count; ++end) {
        const auto& next = body.instructions[end];
        if (!may_join(end) || !next.after.empty() || !kernel_of(first)->joins(*kernel_of(end)) || !touched.is_apart(next)) break;
        touched.add(next);
      }
    }
    std::fill(until.begin() + first, until.begin() + end, end);
  }
  return until;
}

void JoinedOperands::add(Kernel& kernel, const OperandViews& views) {
  const auto in = views.inputs(), out = views.outputs();
  held_.push_back({&kernel, {in.begin(), in.end()}, {out.begin(), out.end()}});
}

std::span<const KernelRun> JoinedOperands::runs() {
  runs_.clear();
  for (auto& held : held_) runs_.push_back({*held.kernel, held.inputs, held.outputs});
  return runs_;
}

}  // namespace rehearsal::exec
