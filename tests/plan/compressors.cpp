// What compressed gradients take on their way, by hand.
#include "plan/compressors.hpp"

#include <vector>

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

std::int64_t sent_of(const char* how, std::int64_t elements, DType dtype = DType::F32) {
  return compressed_bytes(parse_compression(how), elements, dtype);
}

SharedBlocks blocks_of(const char* how, const std::vector<std::int64_t>& elements, DType dtype, int ranks) {
  return shared_blocks(parse_compression(how), elements, dtype, ranks);
}

}  // namespace

TEST_CASE("bytes of what a rank sends of a gradient, and one that says whether it is all numbers") {
  // A bit an element, in whole bytes.
  CHECK(sent_of("sign", 16) == 1 + 2);
  CHECK(sent_of("sign", 17) == 1 + 3);
  CHECK(sent_of("sign", 9) == 1 + 2);
  CHECK(sent_of("sign", 1) == 1 + 1);
  // Two bits each, and the largest of them.
  CHECK(sent_of("terngrad", 17) == 1 + 4 + 5);
  CHECK(sent_of("terngrad", 17, DType::F64) == 1 + 8 + 5);
  // Four levels and 0 take three bits, and a sign; of every 512 elements a norm.
  CHECK(qsgd_bits(4) == 4);
  CHECK(qsgd_bits(3) == 3);
  CHECK(qsgd_bits(1) == 2);
  CHECK(qsgd_bits(127) == 8);
  CHECK(sent_of("qsgd:4", 512) == 1 + 4 + 256);
  CHECK(sent_of("qsgd:4", 513) == 1 + 2 * 4 + 257);
  CHECK(sent_of("qsgd:3", 10) == 1 + 4 + 4);  // 30 bits
  // Two means of every 512 elements, and a bit each.
  CHECK(sent_of("1bit", 512) == 1 + 2 * 4 + 64);
  CHECK(sent_of("1bit", 1025, DType::F64) == 1 + 2 * 3 * 8 + 129);
  // A share of the elements, rounded, at least one and at most all; with top-k an index in 32 bits each.
  CHECK(sent_of("randomk:0.1", 50) == 1 + 5 * 4);
  CHECK(sent_of("randomk-memory:0.1", 54) == 1 + 5 * 4);
  CHECK(sent_of("randomk-memory:0.1", 56) == 1 + 6 * 4);
  CHECK(sent_of("topk:0.1", 50) == 1 + 5 * (4 + 4));
  CHECK(sent_of("topk:0.1", 50, DType::F64) == 1 + 5 * (8 + 4));
  CHECK(sent_of("topk:0.01", 3) == 1 + 8);
  CHECK(sent_of("topk:1", 3) == 1 + 3 * 8);
  CHECK(sent_elements(0, 0.5) == 0);
}

TEST_CASE("blocks of which ranks sum a share each") {
  CHECK(compressed_blocks(1) == 1);
  CHECK(compressed_blocks(512) == 1);
  CHECK(compressed_blocks(513) == 2);
  // 1 + 2 + 1 blocks, of which two ranks have two each and three have two each, too: a rank has as many as any other.
  const auto two = blocks_of("1bit-adam", {100, 600, 512}, DType::F32, 2), three = blocks_of("1bit-adam", {100, 600, 512}, DType::F32, 3);
  CHECK(two.count == 4);
  CHECK(two.of_rank == 2);
  CHECK(three.of_rank == 2);
  CHECK(blocks_of("1bit-adam", {100, 600, 512}, DType::F32, 4).of_rank == 1);
  CHECK(blocks_of("1bit-adam", {100, 600, 512}, DType::F32, 5).of_rank == 1);
  // A size and 512 signs, of a block as of its sum.
  CHECK(two.block_bytes == 4 + 64);
  CHECK(two.sum_bytes == 4 + 64);
  CHECK(two.piece_bytes() == 2 * 68);
  CHECK(two.share_bytes() == 2 * 68);
  CHECK(blocks_of("1bit-adam", {1}, DType::F64, 2).block_bytes == 8 + 64);
  // A hundredth of 512 is 5 elements, each with its place in 16 bits; ranks send others, so that a sum may have as many of each.
  const auto sparse = blocks_of("sparcml:0.01", {512}, DType::F32, 3);
  CHECK(sparse.block_bytes == 5 * (4 + 2));
  CHECK(sparse.sum_bytes == 3 * 5 * 6);
  CHECK(blocks_of("sparcml:0.01", {512}, DType::F64, 3).sum_bytes == 3 * 5 * 10);
  // Of half the elements of two ranks all would be 3072 bytes: as numbers without places they are 2048.
  CHECK(blocks_of("sparcml:0.5", {512}, DType::F32, 2).sum_bytes == 512 * 4);
  CHECK(blocks_of("sparcml:0.5", {512}, DType::F32, 1).sum_bytes == 256 * 6);
}

TEST_CASE("bytes are asked of compressors that send such messages") {
  CHECK_THROWS_AS(sent_of("none", 10), InternalError);
  CHECK_THROWS_AS(sent_of("powersgd", 10), InternalError);
  CHECK_THROWS_AS(sent_of("sparcml", 10), InternalError);
  CHECK_THROWS_AS(blocks_of("none", {10}, DType::F32, 2), InternalError);
  CHECK_THROWS_AS(blocks_of("sign", {10}, DType::F32, 2), InternalError);
  CHECK(compressor(CompressionRule::BF16) == nullptr);
}

TEST_CASE("a setting is within what its compressor takes") {
  for (const char* right : {"qsgd:1", "qsgd:127", "topk:1", "topk:0.001", "powersgd:64", "sparcml:0.002"})
    CHECK(to_text(parse_compression(right)) == right);
  CHECK(parse_compression("topk:0.0001").setting == 0.0001);
  CHECK(to_text(parse_compression("topk")) == "topk:0.01");
  CHECK(to_text(parse_compression("qsgd")) == "qsgd:4");
  CHECK(to_text(parse_compression("powersgd")) == "powersgd:2");
  for (const char* wrong : {"qsgd:0", "qsgd:128", "qsgd:2.5", "qsgd:", "qsgd:x", "topk:0", "topk:1.1", "topk:0.00009", "powersgd:65",
                            "powersgd:0", "sparcml:0.0019"})
    CHECK_THROWS_WITH(parse_compression(wrong), contains(":X, X being"));
  CHECK_THROWS_WITH(parse_compression("sign:2"), contains("must be sign: it takes no number"));
}
