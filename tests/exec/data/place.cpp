// What --data says.
#include "exec/data/place.hpp"

#include <filesystem>

#include "tests/exec/data/stored.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using stored::check_refused;
using Texts = std::vector<std::string>;

TEST_CASE("braces") {
  CHECK(expanded_braces("a.tar") == Texts{"a.tar"});
  CHECK(expanded_braces("a-{008..010}.tar") == Texts{"a-008.tar", "a-009.tar", "a-010.tar"});
  CHECK(expanded_braces("{a,b}{1..2}") == Texts{"a1", "a2", "b1", "b2"});
  check_refused([] { (void)expanded_braces("a-{3..1}.tar"); }, {"a-{3..1}.tar", "no range", "{000..099}"});
  check_refused([] { (void)expanded_braces("a-{0..x}.tar"); }, {"no range"});
  check_refused([] { (void)expanded_braces("a-{0..1.tar"); }, {"without its }"});
  check_refused([] { (void)expanded_braces("{0..999}{0..999}{0..9}"); }, {"a million"});
}

TEST_CASE("kinds of data are recognised, or named") {
  const TemporaryFolder folder;
  for (const auto* file : {"a.npz", "b.npz", "t.bin", "m.bin", "m.idx", "x.npy", "s-0.tar"}) write_text(folder / file, "");
  std::filesystem::create_directories(folder / "classes/one");
  std::filesystem::create_directories(folder / "pairs/images");
  std::filesystem::create_directories(folder / "pairs/labels");
  std::filesystem::create_directories(folder / "city/leftImg8bit");
  std::filesystem::create_directories(folder / "arrays/x");
  write_text(folder / "arrays/x/1.npy", "");
  const auto kind = [&](const std::string& source) { return std::string(find_data({source}).kind->name); };
  CHECK(kind(folder / "a.npz") == "npz");
  CHECK(kind(folder / "m.idx") == "megatron");
  CHECK(kind(folder / "m.bin") == "megatron");
  CHECK(kind("tokens:" + (folder / "t.bin?dtype=uint16")) == "tokens");
  CHECK(kind(folder / "s-{0..0}.tar") == "tar");
  CHECK(kind(folder / "x.npy") == "npy");
  CHECK(kind(folder / "arrays") == "npy");
  CHECK(kind(folder / "classes") == "images");
  CHECK(kind(folder / "pairs") == "pairs");
  CHECK(kind(folder / "city?split=val") == "cityscapes");
  CHECK(find_data({folder / "[ab].npz"}).place.paths == Texts{folder / "a.npz", folder / "b.npz"});
  CHECK(find_data({folder / "b.npz", folder / "a.npz"}).place.paths == Texts{folder / "b.npz", folder / "a.npz"});
  CHECK(find_data({"tokens:" + (folder / "t.bin?dtype=uint16&seq=8")}).place.keys.at("seq") == "8");
}

TEST_CASE("data that is none, or of no kind") {
  const TemporaryFolder folder;
  for (const auto* file : {"a.npz", "t.bin", "s.tar.gz", "words.txt", "s.tar"}) write_text(folder / file, "");
  const auto refused = [](const std::string& source, const Texts& words) { check_refused([&] { (void)find_data({source}); }, words); };
  refused(folder / "nowhere", {"nowhere", "does not exist"});
  refused(folder / "t.bin", {"t.bin", "tokens:", "?dtype=uint16"});
  refused(folder / "s.tar.gz", {"s.tar.gz", "unpack"});
  refused(folder / "words.txt", {"words.txt", "no data that is read", "SHARD-{000..099}.tar"});
  refused(folder / "*.npx", {"*.npx", "no file"});
  refused("token:" + (folder / "t.bin"), {"kind of data", "did you mean \"tokens\""});
  refused("tokens:" + (folder / "t.bin?dtyp=uint16"), {"\"dtyp\"", "did you mean \"dtype\""});
  refused("tokens:" + (folder / "t.bin?dtype=uint16&dtype=int32"), {"dtype twice"});
  refused(folder / "s.tar?seq=8", {"kind tar", "takes no seq"});
  check_refused([&] { (void)find_data({folder / "a.npz", folder / "s.tar"}); }, {"s.tar", "kind tar", "kind npz"});
}
