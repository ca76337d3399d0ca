// Tokens: plain, as .npy, and as Megatron stores them.
#include <filesystem>

#include "exec/data/npz.hpp"
#include "tests/exec/data/stored.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using stored::check_refused;
using Numbers = std::vector<std::int64_t>;

namespace {

std::vector<WantedTensor> wanted_of_length(std::int64_t length, std::int64_t classes = 0) {
  return {stored::input("input_ids", DType::I64, {2, length}, classes), stored::target({2, length}, classes)};
}

/// 0, 10, 20, ... of 16 bits.
std::string tens(std::uint16_t count) {
  std::vector<std::uint16_t> values;
  for (std::uint16_t n = 0; n < count; ++n) values.push_back(static_cast<std::uint16_t>(10 * n));
  return stored::bytes_of(values);
}

/// An index of these lengths (in tokens), over tokens of `width` bytes.
std::string index_of(const std::vector<std::int32_t>& lengths, std::int64_t width, char code) {
  Numbers begins, documents{0};
  std::int64_t at = 0;
  for (const auto length : lengths) begins.push_back(at), at += length * width, documents.push_back(documents.back() + 1);
  const std::vector<std::uint64_t> counts{lengths.size(), documents.size()};
  return std::string("MMIDIDX\0\0", 9) + stored::bytes_of<std::uint64_t>({1}) + code + stored::bytes_of(counts) +
         stored::bytes_of(lengths) + stored::bytes_of(begins) + stored::bytes_of(documents);
}

}  // namespace

TEST_CASE("the target is the token behind each") {
  const TemporaryFolder folder;
  write_text(folder / "t.bin", tens(12));
  const auto set = stored::opened("tokens:" + (folder / "t.bin?dtype=uint16"), wanted_of_length(4));
  CHECK(set->samples() == 2);  // the third would lack the target of its last token
  CHECK(stored::row_of<std::int64_t>(*set, 0, 1, 4) == Numbers{40, 50, 60, 70});
  CHECK(stored::row_of<std::int64_t>(*set, 1, 1, 4) == Numbers{50, 60, 70, 80});
  CHECK_THAT(set->origin_of(1), contains("tokens 4 to 8 of ") && contains("t.bin"));
  write_text(folder / "t.bin", tens(13));
  CHECK(stored::opened("tokens:" + (folder / "t.bin?dtype=uint16"), wanted_of_length(4))->samples() == 3);
}

TEST_CASE("several files, and .npy") {
  const TemporaryFolder folder;
  write_text(folder / "a.bin", tens(6));
  write_text(folder / "b.bin", tens(11));
  const auto set = stored::opened("tokens:" + (folder / "{a,b}.bin?dtype=uint16&seq=5"), wanted_of_length(5));
  CHECK(set->samples() == 1 + 2);
  CHECK(stored::row_of<std::int64_t>(*set, 0, 2, 5) == Numbers{50, 60, 70, 80, 90});
  NpyArray array{{DType::I32, {6}}, {}};
  const auto bytes = stored::bytes_of<std::int32_t>({70000, 1, 2, 3, 4, 5});
  for (const char c : bytes) array.bytes.push_back(static_cast<std::byte>(c));
  write_text(folder / "t.npy", npy_bytes(array));
  const auto npy = stored::opened("tokens:" + (folder / "t.npy"), wanted_of_length(5));
  check_refused([&] { (void)stored::opened("tokens:" + (folder / "t.npy?dtype=uint8"), wanted_of_length(5)); },
                {"t.npy", "dtype=uint8 is asked for"});
  CHECK(stored::row_of<std::int64_t>(*npy, 0, 0, 5) == Numbers{70000, 1, 2, 3, 4});
}

TEST_CASE("further inputs are named") {
  const TemporaryFolder folder;
  write_text(folder / "t.bin", tens(9));
  const auto source = "tokens:" + (folder / "t.bin?dtype=uint16");
  auto wanted = wanted_of_length(3);
  wanted.insert(wanted.begin() + 1, stored::input("attention_mask", DType::I64, {2, 3}));
  check_refused([&] { (void)stored::opened(source, wanted); }, {"t.bin", "\"input_ids\"", "tokens, next, positions, ones", "--input"});
  wanted[1].array = "ones";
  const auto set = stored::opened(source, wanted);
  CHECK(stored::row_of<std::int64_t>(*set, 0, 1, 3) == Numbers{30, 40, 50});
  CHECK(stored::row_of<std::int64_t>(*set, 1, 1, 3) == Numbers{1, 1, 1});
  wanted[1].array = "positions";
  CHECK(stored::row_of<std::int64_t>(*stored::opened(source, wanted), 1, 1, 3) == Numbers{0, 1, 2});
  wanted[1].array = "mask";
  check_refused([&] { (void)stored::opened(source, wanted); }, {"\"mask\"", "\"attention_mask\"", "ones"});
}

TEST_CASE("tokens that do not suit") {
  const TemporaryFolder folder;
  write_text(folder / "t.bin", tens(9));
  const auto refused = [&](const std::string& keys, const std::vector<WantedTensor>& wanted, std::vector<std::string> words) {
    words.push_back("t.bin");
    check_refused([&] { (void)stored::opened("tokens:" + (folder / "t.bin") + keys, wanted); }, words);
  };
  refused("", wanted_of_length(4), {"?dtype=uint16"});
  refused("?dtype=float32", wanted_of_length(4), {"float32", "uint16"});
  refused("?dtype=uint16&seq=5", wanted_of_length(4), {"seq=5", "4 tokens"});
  refused("?dtype=uint16&seq=many", wanted_of_length(4), {"seq=many"});
  refused("?dtype=uint16", wanted_of_length(9), {"9 tokens", "takes 10"});
  refused("?dtype=uint16", {stored::input("x", DType::F32, {2, 4})}, {"\"x\"", "whole numbers"});
  refused("?dtype=uint16", {stored::input("x", DType::I64, {2, 4}), stored::target({2})}, {"\"target\""});
  write_text(folder / "t.bin", tens(9) + "x");
  refused("?dtype=uint16", wanted_of_length(4), {"19 bytes", "uint16", "truncated"});
}

TEST_CASE("Megatron's index says of which type tokens are, and must belong to its file") {
  const TemporaryFolder folder;
  const auto file = folder / "c.idx";
  write_text(folder / "c.bin", tens(9));
  write_text(file, index_of({4, 5}, 2, 8));
  for (const auto* name : {"c.idx", "c.bin"}) {
    const auto set = stored::opened(folder / name, wanted_of_length(4));
    CHECK(set->samples() == 2);
    CHECK(stored::row_of<std::int64_t>(*set, 1, 1, 4) == Numbers{50, 60, 70, 80});  // on over the end of a document
  }
  CHECK(stored::opened("megatron:" + (folder / "c"), wanted_of_length(4))->samples() == 2);
  const auto refused = [&](const std::string& bytes, std::vector<std::string> words) {
    write_text(file, bytes);
    words.push_back("c.idx");
    check_refused([&] { (void)stored::opened(file, wanted_of_length(4)); }, words);
  };
  const auto good = index_of({4, 5}, 2, 8);
  refused(good.substr(0, good.size() / 2), {"truncated"});
  refused(index_of({4, 6}, 2, 8), {"does not belong to", "c.bin", "10 tokens in 20 bytes", "18 bytes"});
  refused(index_of({4, 5}, 4, 8), {"part 1", "begins at byte 16", "end at byte 8"});
  refused(index_of({4, 5}, 2, 7), {"type 7"});
  refused("hello", {"MMIDIDX"});
  auto other = good;
  other[9] = 2;
  refused(other, {"version 2"});
  write_text(file, good);
  std::filesystem::remove(folder / "c.bin");
  check_refused([&] { (void)stored::opened(file, wanted_of_length(4)); }, {"c.bin", "does not exist"});
}
