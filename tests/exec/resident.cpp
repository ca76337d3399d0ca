// What getting ready leaves in memory is given back, and nothing that is still wanted.
#include "exec/resident.hpp"

#include <memory>
#include <string>
#include <vector>

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("free blocks of the heap and pages of files that nobody wrote to are given back") {
  std::vector<std::unique_ptr<std::vector<char>>> blocks;
  for (int n = 0; n < 1000; ++n) blocks.push_back(std::make_unique<std::vector<char>>(50'000, static_cast<char>(n)));  // 50 MB in all
  const auto full = exec::resident_bytes();
  // Every hundredth stays: the heap cannot be cut off behind the last one alone.
  for (std::size_t n = 0; n < blocks.size(); ++n)
    if (n % 100 != 99) blocks[n].reset();
  exec::give_back_idle_memory();
#ifndef __SANITIZE_ADDRESS__  // which keeps free blocks to find those that are used again
  CHECK(exec::resident_bytes() < full - 40'000'000);
#endif
  for (std::size_t n = 99; n < blocks.size(); n += 100) {
    CHECK(blocks[n]->size() == 50'000);
    CHECK(blocks[n]->back() == static_cast<char>(n));
  }
  // Code, constants and relocated tables are there when they are wanted: this test goes on, and so does the library of messages.
  CHECK(std::to_string(full).size() > 6);
  exec::give_back_idle_memory();
  CHECK_THROWS_AS(std::vector<int>().at(1), std::out_of_range);
}
