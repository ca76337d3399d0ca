// Layouts of blocks of memory, written out: where every block of some sets lies, and how high they are above what is alive at once. Another
// order in which blocks are placed shows as another file, which REHEARSAL_WRITE_OUT=1 writes (docs/testing.md); a lower layout is a better
// one.
#include <sstream>

#include "base/random.hpp"
#include "plan/memory/planner.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

using Blocks = std::vector<MemoryRequest>;

/// Results of forward passes that stay until their backward pass, each with gradients beside it; the deeper, the smaller.
Blocks passes(int layers) {
  Blocks blocks;
  for (int n = 0; n < layers; ++n) {
    const std::int64_t bytes = 64 * (layers + 2 - n);
    blocks.push_back({bytes, n, 2 * layers - n});
    blocks.push_back({bytes, 2 * layers - n - 1, 2 * layers - n});
    blocks.push_back({64 * (n % 3 + 1), 2 * layers - n, 2 * layers});  // of a weight, until the update
  }
  return blocks;
}

Blocks drawn(std::uint64_t seed, std::size_t count, std::uint64_t moments) {
  Blocks blocks(count);
  for (std::size_t n = 0; n < count; ++n) {
    blocks[n].bytes = static_cast<std::int64_t>(1 + random_bits(seed, 1, n) % 12) * 64;
    blocks[n].begin = static_cast<std::int32_t>(random_bits(seed, 2, n) % moments);
    blocks[n].end = blocks[n].begin + static_cast<std::int32_t>(random_bits(seed, 3, n) % (moments / 2));
  }
  return blocks;
}

std::string layout_of(const std::string& name, Blocks blocks) {
  std::ostringstream text;
  const auto height = lay_out(blocks);
  text << name << ": " << height << " B, " << largest_live_set(blocks) << " B alive at once\n";
  for (const auto& b : blocks) text << "  " << b.bytes << " B from " << b.begin << " to " << b.end << " at " << b.offset << "\n";
  return text.str();
}

}  // namespace

TEST_CASE("layouts are those that are written out") {
  std::string text = layout_of("two layers", passes(2)) + layout_of("five layers", passes(5));
  for (const std::uint64_t seed : {3, 10, 35, 43, 123, 179, 275}) text += layout_of("drawn " + std::to_string(seed), drawn(seed, 14, 12));
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/layouts.txt", text);
}

TEST_CASE("layouts stay near what is alive at once") {
  // 200 sets of 24 blocks, which leave 0.25 % between them.
  std::int64_t heights = 0, alive = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto blocks = drawn(100 + seed, 24, 20);
    heights += lay_out(blocks);
    alive += largest_live_set(blocks);
  }
  CHECK(static_cast<double>(heights) < 1.003 * static_cast<double>(alive));
}
