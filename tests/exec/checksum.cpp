// Checksums: those of xxHash's own tests, however the bytes come.
#include "exec/checkpoint/checksum.hpp"

#include <string>

#include "tests/catch.hpp"

using rehearsal::exec::Checksum;
using rehearsal::exec::checksum_of;

TEST_CASE("known checksums") {
  // XXH3_64bits of nothing and of "abc", as `xxhsum -H3` prints them.
  CHECK(checksum_of("") == "2d06800538d394c2");
  CHECK(checksum_of("abc") == "78af5f94892f3950");
}

TEST_CASE("pieces make no difference, any bit does") {
  std::string bytes(100'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i % 251);
  Checksum pieces;
  for (std::size_t at = 0, size = 1; at < bytes.size(); at += size, size = 2 * size + 1)
    pieces.add(std::string_view(bytes).substr(at, size));
  CHECK(pieces.text() == checksum_of(bytes));
  for (const std::size_t at : {0UL, 777UL, 99'999UL}) {
    auto other = bytes;
    other[at] = static_cast<char>(other[at] ^ 1);
    CHECK(checksum_of(other) != checksum_of(bytes));
  }
}
