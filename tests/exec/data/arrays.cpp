// Arrays in files: several .npz, .npy of rows, and a file a sample, of which ranks read their part.
#include "exec/data/arrays.hpp"

#include <filesystem>
#include <numeric>

#include "exec/data/ends.hpp"
#include "exec/data/npz.hpp"
#include "tests/exec/data/stored.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using stored::check_refused;
using Values = std::vector<float>;

namespace {

/// Elements from `first` on, of 32 bits.
NpyArray counted(graph::Shape shape, float first = 0) {
  Values values(static_cast<std::size_t>(graph::element_count(shape)));
  std::iota(values.begin(), values.end(), first);
  NpyArray array{{DType::F32, std::move(shape)}, {}};
  const auto bytes = stored::bytes_of(values);
  for (const char c : bytes) array.bytes.push_back(static_cast<std::byte>(c));
  return array;
}

void write_npy(const std::string& path, const NpyArray& array) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_text(path, npy_bytes(array));
}

std::vector<WantedTensor> wanted_rows() { return {stored::input("x", DType::F32, {2, 3}), stored::target({2, 1}, 0, DType::F32)}; }

}  // namespace

TEST_CASE("several .npz are one after the other") {
  const TemporaryFolder folder;
  write_npz(folder / "a.npz", {{"x", counted({2, 3})}, {"target", counted({2, 1})}});
  write_npz(folder / "b.npz", {{"x", counted({1, 3}, 100)}, {"target", counted({1, 1}, 50)}});
  const auto set = stored::opened(folder / "{a,b}.npz", wanted_rows());
  CHECK(set->samples() == 3);
  CHECK(set->in_memory());
  CHECK(stored::row_of<float>(*set, 0, 1, 3) == Values{3, 4, 5});
  CHECK(stored::row_of<float>(*set, 0, 2, 3) == Values{100, 101, 102});
  CHECK(stored::row_of<float>(*set, 1, 2, 1) == Values{50});
  CHECK_THAT(set->origin_of(2), contains("row 0 of ") && contains("b.npz"));
  write_npz(folder / "b.npz", {{"x", counted({1, 4}, 100)}, {"target", counted({1, 1}, 50)}});
  check_refused([&] { (void)stored::opened(folder / "{a,b}.npz", wanted_rows()); }, {"b.npz", "\"x\"", "[1,4]", "[2,3]"});
  write_npz(folder / "b.npz", {{"x", counted({1, 3}, 100)}});
  check_refused([&] { (void)stored::opened(folder / "{a,b}.npz", wanted_rows()); }, {"b.npz", "\"target\"", "it holds x"});
}

TEST_CASE("arrays of other names") {
  const TemporaryFolder folder;
  write_npz(folder / "a.npz", {{"photo", counted({2, 3})}, {"target", counted({2, 1})}});
  auto wanted = wanted_rows();
  check_refused([&] { (void)stored::opened(folder / "a.npz", wanted); }, {"a.npz", "\"x\"", "it holds photo, target", "--input x=ARRAY"});
  wanted[0].array = "photo";
  CHECK(stored::row_of<float>(*stored::opened(folder / "a.npz", wanted), 0, 1, 3) == Values{3, 4, 5});
  wanted[0].array = "foto";
  check_refused([&] { (void)stored::opened(folder / "a.npz", wanted); }, {"a.npz", "\"foto\"", "\"x\"", "photo"});
}

TEST_CASE("all arrays that are missing are named at once") {
  const TemporaryFolder folder;
  write_npz(folder / "a.npz", {{"photo", counted({2, 3})}, {"label", counted({2, 1})}});
  check_refused([&] { (void)stored::opened(folder / "a.npz", wanted_rows()); },
                {"no array \"x\"", "and no array \"target\"", "it holds", "photo", "--input x=ARRAY --input target=ARRAY"});
}

TEST_CASE("rows of .npy stay in their files") {
  const TemporaryFolder folder;
  write_npy(folder / "d/x.npy", counted({4, 3}));
  write_npy(folder / "d/target.npy", counted({4, 1}, 7));
  for (const auto& source : {folder / "d", folder / "d/{x,target}.npy"}) {
    const auto set = stored::opened(source, wanted_rows());
    CHECK(set->samples() == 4);
    CHECK_FALSE(set->in_memory());
    CHECK(stored::row_of<float>(*set, 0, 3, 3) == Values{9, 10, 11});
    CHECK(stored::row_of<float>(*set, 1, 3, 1) == Values{10});
  }
  const auto refused = [&](std::vector<std::string> words) {
    check_refused([&] { (void)stored::opened(folder / "d", wanted_rows()); }, words);
  };
  write_npy(folder / "d/target.npy", counted({3, 1}));
  refused({"\"target\"", "3 samples", "\"x\"", "has 4"});
  const auto whole = npy_bytes(counted({4, 1}));
  write_text(folder / "d/target.npy", whole.substr(0, whole.size() - 4));
  refused({"target.npy", "truncated", "12 of 16"});
  std::filesystem::remove(folder / "d/target.npy");
  refused({"no array \"target\"", "it holds x"});
}

TEST_CASE("arrays are of one length in every file, not in all of them together") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& source, const std::vector<std::string>& words) {
    check_refused([&] { (void)stored::opened(source, wanted_rows()); }, words);
  };
  write_npz(folder / "a.npz", {{"x", counted({5, 3})}, {"target", counted({4, 1})}});
  write_npz(folder / "b.npz", {{"x", counted({4, 3})}, {"target", counted({5, 1})}});
  refused(folder / "{a,b}.npz", {"a.npz: ", "\"target\" has 4 samples", "\"x\" has 5"});
  write_npz(folder / "a.npz", {{"x", counted({5, 3})}, {"target", counted({5, 1})}});
  refused(folder / "{a,b}.npz", {"b.npz: ", "\"target\" has 5 samples", "\"x\" has 4"});
  write_npz(folder / "b.npz", {{"x", counted({0, 3})}, {"target", counted({0, 1})}});
  write_npz(folder / "c.npz", {{"x", counted({1, 3}, 40)}, {"target", counted({1, 1}, 30)}});
  const auto set = stored::opened(folder / "{a,b,c}.npz", wanted_rows());
  CHECK(set->samples() == 6);
  CHECK(stored::row_of<float>(*set, 0, 5, 3) == Values{40, 41, 42});
  CHECK(stored::row_of<float>(*set, 1, 4, 1) == Values{4});

  for (const std::string part : {"d", "e"}) {
    write_npy(folder / (part + "/x.npy"), counted({part == "d" ? 5 : 4, 3}));
    write_npy(folder / (part + "/target.npy"), counted({part == "d" ? 4 : 5, 1}));
  }
  for (const auto& source : {folder / "{d,e}", folder / "{d,e}/{x,target}.npy"})
    refused(source, {"d/target.npy: ", "\"target\" has 4 samples", "\"x\" has 5 in ", "d/x.npy"});
  write_npy(folder / "d/target.npy", counted({5, 1}));
  refused(folder / "{d,e}", {"e/target.npy: ", "\"target\" has 5 samples", "\"x\" has 4 in ", "e/x.npy"});
  std::filesystem::remove(folder / "e/x.npy");
  refused(folder / "{d,e}", {"e/target.npy: ", "file 2 of array \"target\"", "\"x\" has 1"});
  // A file a sample on one side: as many in all.
  std::filesystem::remove(folder / "e/target.npy");
  std::filesystem::remove(folder / "d/x.npy");
  for (int n = 0; n < 5; ++n) write_npy(folder / ("d/x/" + std::to_string(n) + ".npy"), counted({3}, static_cast<float>(n)));
  CHECK(stored::opened(folder / "d", wanted_rows())->samples() == 5);
  write_npy(folder / "d/target.npy", counted({4, 1}));
  refused(folder / "d", {"d/target.npy: ", "\"target\" has 4 samples", "\"x\" has 5"});
}

TEST_CASE("volumes of one file each, and slabs of them") {
  const TemporaryFolder folder;
  for (const auto* name : {"a", "b"}) {
    write_npy(folder / ("d/x/" + std::string(name) + ".npy"), counted({4, 2, 2}, *name == 'a' ? 0 : 1000));
    write_npy(folder / ("d/target/" + std::string(name) + ".npy"), counted({1, 4, 2, 2}, *name == 'a' ? 100 : 2000));
  }
  const std::vector<WantedTensor> wanted{stored::input("x", DType::F64, {2, 1, 4, 2, 2}), stored::target({2, 1, 4, 2, 2}, 0, DType::F32)};
  const auto set = stored::opened(folder / "d", wanted);
  CHECK(set->samples() == 2);
  CHECK(stored::row_of<double>(*set, 0, 1, 16)[15] == 1015);
  CHECK(stored::row_of<float>(*set, 1, 1, 16)[0] == 2000);
  CHECK_THAT(set->origin_of(1), contains("x/b.npy"));
  // The third plane alone: 4 elements of 4 bytes, from element 8 on.
  const plan::Region part{{{0, 2}}, {{0, 1}}, {{2, 3}}, {{0, 2}}, {{0, 2}}};
  std::vector<double> slab(4);
  CHECK(set->read({0, 1, 0, &part}, slab.data()) == 16);
  CHECK(slab == std::vector<double>{1008, 1009, 1010, 1011});
  write_npy(folder / "d/x/b.npy", counted({4, 2, 3}));
  check_refused([&] { (void)stored::opened(folder / "d", wanted); }, {"x/b.npy", "[4,2,3]", "[1,4,2,2]", "one sample"});
  write_npy(folder / "d/x/b.npy", counted({4, 2, 2}));
  std::filesystem::rename(folder / "d/target/b.npy", folder / "d/target/c.npy");
  check_refused([&] { (void)stored::opened(folder / "d", wanted); }, {"x/b.npy", "same name", "target"});
}

TEST_CASE("a checksum of the first and the last sample tells data of as many samples apart") {
  const TemporaryFolder folder;
  const auto checksum = [&](const NpyArray& x, const NpyArray& target) {
    write_npz(folder / "a.npz", {{"x", x}, {"target", target}});
    return checksum_of_ends(*stored::opened(folder / "a.npz", wanted_rows()), wanted_rows());
  };
  const auto changed = [](NpyArray array, std::size_t element) {
    array.bytes[4 * element] ^= std::byte{1};
    return array;
  };
  const auto x = counted({4, 3}), target = counted({4, 1});
  const auto whole = checksum(x, target);
  CHECK(whole.size() == 16);
  CHECK(checksum(x, target) == whole);
  CHECK(checksum(changed(x, 0), target) != whole);
  CHECK(checksum(changed(x, 11), target) != whole);
  CHECK(checksum(x, changed(target, 3)) != whole);
  CHECK(checksum(changed(x, 4), target) == whole);  // of a sample between them

  // Of a large sample the middle is read.
  const std::vector<WantedTensor> volumes{stored::input("x", DType::F32, {1, 1, 64, 64, 64})};
  const auto of_volume = [&](const NpyArray& volume) {
    write_npy(folder / "d/x/a.npy", volume);
    return checksum_of_ends(*stored::opened(folder / "d", volumes), volumes);
  };
  const auto volume = counted({64, 64, 64});
  const std::size_t middle = 32 * 64 * 64 + 32 * 64 + 32;
  const auto of_it = of_volume(volume);
  CHECK(of_volume(changed(volume, middle)) != of_it);
  CHECK(of_volume(changed(volume, 0)) == of_it);
}
