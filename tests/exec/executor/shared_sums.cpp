// What compressors send, in bytes; and sums of which each rank has a share, block by block: by hand.
#include "exec/host/compressors/shared_sums.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "plan/compressors.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

TEST_CASE("blocks of a sum, by hand") {
  // Gradients of 1,000 and of 10 elements have 2 blocks and 1; of two ranks the second has one more that is empty.
  const std::vector<std::int64_t> elements{1000, 10};
  const auto of = [&](const std::string& how, int ranks) {
    return plan::shared_blocks(plan::parse_compression(how), elements, DType::F32, ranks);
  };
  CHECK(of("sparcml:0.01", 2).count == 3);
  CHECK(of("sparcml:0.01", 2).of_rank == 2);
  // 5 of 512, each of 4 bytes and a place of 2; of two ranks 10, of 64 ranks 320 (1,920 bytes), of 128 ranks all 512 as they are.
  CHECK(of("sparcml:0.01", 2).block_bytes == 30);
  CHECK(of("sparcml:0.01", 2).sum_bytes == 60);
  CHECK(of("sparcml:0.01", 64).sum_bytes == 1920);
  CHECK(of("sparcml:0.01", 128).sum_bytes == 2048);
  CHECK(of("1bit-adam", 4).piece_bytes() == 4 + 64);
}

TEST_CASE("a sum over two ranks of what is largest in each block, by hand") {
  // Of four elements, one of 512 in 0.002: -5 at place 1, and 7 at place 0. A rank keeps the rest; the sum is exact.
  const auto how = plan::parse_compression("sparcml:0.002");
  const std::vector<std::int64_t> elements{4};
  const SharedTask task{how.rule, DType::F32, {how.setting, 2}, plan::shared_blocks(how, elements, DType::F32, 2)};
  std::vector<std::vector<float>> x{{1, -5, 2, 2}, {7, 7, -7, 0}}, left(2, std::vector<float>(4));
  const auto piece = static_cast<std::size_t>(task.blocks.block_bytes);
  std::vector<std::byte> received(2 * piece), gathered(static_cast<std::size_t>(2 * task.blocks.share_bytes()));
  for (std::size_t r = 0; r < 2; ++r) write_blocks(task, {0, 4}, {x[r].data(), left[r].data()}, received.data() + r * piece);
  CHECK(left[0] == std::vector<float>{1, 0, 2, 2});
  CHECK(left[1] == std::vector<float>{0, 7, -7, 0});  // of equal ones the first is sent
  sum_share(task, elements, {0, received.data(), nullptr}, gathered.data());
  std::vector<float> sum(4, 9);
  read_sum(task, {0, 4}, gathered.data(), sum.data());
  CHECK(sum == std::vector<float>{7, -5, 0, 0});
  // What is not a number is larger than all others; what was kept stays.
  x[0] = {1, std::numeric_limits<float>::quiet_NaN(), 0, 0};
  write_blocks(task, {0, 4}, {x[0].data(), left[0].data()}, received.data());
  CHECK(left[0] == std::vector<float>{1, 0, 2, 2});
  sum_share(task, elements, {0, received.data(), nullptr}, gathered.data());
  read_sum(task, {0, 4}, gathered.data(), sum.data());
  CHECK(std::isnan(sum[1]));
}

TEST_CASE("bytes of compressed gradients, by hand") {
  // One byte each says whether all are numbers.
  const auto bytes = [](const std::string& how, std::int64_t n) {
    return plan::compressed_bytes(plan::parse_compression(how), n, DType::F32);
  };
  CHECK(bytes("sign", 1000) == 1 + 125);
  CHECK(bytes("sign", 1001) == 1 + 126);
  CHECK(bytes("terngrad", 1000) == 1 + 4 + 250);       // 2 bits each, and the largest
  CHECK(bytes("qsgd:4", 1000) == 1 + 2 * 4 + 500);     // two blocks of 512; levels 0 to 4 are 3 bits, and a sign
  CHECK(bytes("qsgd:127", 1000) == 1 + 2 * 4 + 1000);  // 7 bits, and a sign
  CHECK(bytes("randomk:0.01", 1000) == 1 + 10 * 4);
  CHECK(bytes("1bit", 1000) == 1 + 2 * 2 * 4 + 125);    // two blocks of 512, each with two means
  CHECK(bytes("topk:0.01", 1000) == 1 + 10 * (4 + 4));  // with their indices
  CHECK(bytes("randomk-memory:0.01", 1000) == 1 + 10 * 4);
  CHECK(bytes("randomk:0.01", 3) == 1 + 4);  // one at least
}
