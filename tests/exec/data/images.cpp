// Pictures with classes: in folders, in shards, and with a picture of classes each.
#include <filesystem>

#include "exec/data/class_names.hpp"
#include "tests/exec/data/stored.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using stored::check_refused;
namespace fs = std::filesystem;

namespace {

/// One grey pixel.
std::string dot(int value) { return stored::png(1, 1, 0, std::string(1, static_cast<char>(value))); }

std::vector<WantedTensor> wanted_dots(std::int64_t classes = 0) {
  return {stored::input("x", DType::F32, {2, 1, 1, 1}), stored::target({2}, classes)};
}

/// (value of the pixel, class) of every sample.
std::vector<std::pair<int, int>> dots_of(const Dataset& set) {
  std::vector<std::pair<int, int>> all;
  for (std::int64_t row = 0; row < set.samples(); ++row)
    all.emplace_back(static_cast<int>(255 * stored::row_of<float>(set, 0, row, 1)[0] + 0.5F),
                     static_cast<int>(stored::row_of<std::int64_t>(set, 1, row, 1)[0]));
  return all;
}

void write_in(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  write_text(path, bytes);
}

using Dots = std::vector<std::pair<int, int>>;

}  // namespace

TEST_CASE("classes are numbered by the names of folders, whatever the pictures' names end in") {
  const TemporaryFolder folder;
  write_in(folder / "d/fern/b.png", dot(20));
  write_in(folder / "d/fern/a.JPEG", dot(21));  // ImageNet has a PNG of such a name
  write_in(folder / "d/apple/deep/z.png", dot(10));
  write_in(folder / "d/apple/notes.txt", "no picture");
  write_in(folder / "d/.hidden/x.png", dot(1));
  const auto set = stored::opened(folder / "d", wanted_dots(2));
  CHECK(dots_of(*set) == Dots{{10, 0}, {21, 1}, {20, 1}});
  CHECK_THAT(set->origin_of(1), contains("fern/a.JPEG"));
}

TEST_CASE("folders that are no classes of pictures") {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<std::string> words, std::int64_t classes = 0) {
    words.push_back(folder / "d");
    check_refused([&] { (void)stored::opened(folder / "d", wanted_dots(classes)); }, words);
  };
  fs::create_directories(folder / "d");
  refused({"no pictures", "CLASS/NAME.jpg"});
  write_in(folder / "d/a.png", dot(1));
  refused({"no folder for each class"});
  fs::create_directories(folder / "d/apple");
  refused({"apple", "without pictures"});
  write_in(folder / "d/apple/a.BMP", "BM");
  refused({"a.BMP", "a picture that is not read"});
  fs::remove(folder / "d/apple/a.BMP");
  write_in(folder / "d/apple/a.png", dot(1));
  write_in(folder / "d/fern/a.png", dot(1));
  refused({"2 classes", "the model has 1"}, 1);
  write_in(folder / "d/train/x/a.png", dot(1));
  refused({"train", "instead"});
  check_refused([&] { (void)stored::opened("images:" + (folder / "{d,e}"), wanted_dots()); }, {"e", "second folder"});
}

TEST_CASE("two folders number their classes alike, or are not used together") {
  const TemporaryFolder folder;
  for (const auto* file : {"a/apple/1.png", "a/fern/1.png", "b/apple/1.png", "b/fern/2.png", "c/fern/1.png"})
    write_in(folder / file, dot(1));
  require_same_classes({folder / "a"}, {folder / "b"});
  check_refused([&] { require_same_classes({folder / "a"}, {folder / "c"}); }, {"/c: ", "no class apple", "/a has"});
  check_refused([&] { require_same_classes({folder / "c"}, {folder / "a"}); }, {"/c: ", "no class apple"});
}

TEST_CASE("a label that is wanted as something else") {
  const TemporaryFolder folder;
  write_in(folder / "d/apple/a.png", dot(1));
  check_refused(
      [&] {
        (void)stored::opened(folder / "d", {stored::input("x", DType::F32, {2, 1, 1, 1}), stored::target({2, 3})});
      },
      {"\"target\"", "one class"});
  check_refused(
      [&] {
        (void)stored::opened(folder / "d", {stored::input("x", DType::F32, {2, 1, 1, 1}), stored::target({2}, 0, DType::F32)});
      },
      {"\"target\"", "fractions"});
}

TEST_CASE("shards have the class in a folder, or beside the picture") {
  const TemporaryFolder folder;
  write_text(folder / "s-0.tar", stored::tar({{"fern/b.png", dot(20)}, {"./apple/z.png", dot(10)}}));
  write_text(folder / "s-1.tar", stored::tar({{"fern/a.png", dot(21)}}));
  const auto by_folder = stored::opened(folder / "s-{0..1}.tar", wanted_dots(2));
  CHECK(dots_of(*by_folder) == Dots{{20, 1}, {10, 0}, {21, 1}});
  CHECK_THAT(by_folder->origin_of(2), contains("s-1.tar: fern/a.png"));
  write_text(folder / "c.tar", stored::tar({{"a.png", dot(20)}, {"a.cls", "5\n"}, {"a.json", "{}"}, {"b.cls", "0"}, {"b.png", dot(10)}}));
  CHECK(dots_of(*stored::opened(folder / "c.tar", wanted_dots(6))) == Dots{{20, 5}, {10, 0}});
  check_refused([&] { (void)stored::opened(folder / "c.tar", wanted_dots(5)); }, {"c.tar", "6 classes", "model has 5"});
}

TEST_CASE("long names: GNU's, and pax's") {
  const TemporaryFolder folder;
  const std::string name = std::string(120, 'd') + "/a.png";
  const std::string record = "path=" + name + "\n", length = std::to_string(record.size() + 4);
  for (const auto& note :
       {stored::tar_member("././@LongLink", name + std::string(1, '\0'), 'L'), stored::tar_member("pax", length + " " + record, 'x')}) {
    write_text(folder / "s.tar", note + stored::tar_member("short", dot(9)) + std::string(1024, '\0'));
    const auto set = stored::opened(folder / "s.tar", wanted_dots());
    CHECK_THAT(set->origin_of(0), contains(name));
    CHECK(dots_of(*set) == Dots{{9, 0}});
  }
}

TEST_CASE("archives that are damaged, cut, or lead elsewhere") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes, std::vector<std::string> words) {
    write_text(folder / "s.tar", bytes);
    words.push_back("s.tar");
    check_refused([&] { (void)stored::opened(folder / "s.tar", wanted_dots()); }, words);
  };
  const auto good = stored::tar({{"a/a.png", dot(1)}, {"b/b.png", dot(2)}});
  for (const std::size_t size : {good.size() - 1024, good.size() - 1500, std::size_t{700}, std::size_t{512}})
    refused(good.substr(0, size), {"truncated"});
  refused("", {"empty"});
  refused(std::string(2048, 'x'), {"no tar archive"});
  auto flipped = good;
  flipped[1024] = 'X';
  refused(flipped, {"damaged at byte 1024"});
  for (const auto* name : {"../a.png", "/tmp/a.png", "a/../../b.png"}) refused(stored::tar({{name, dot(1)}}), {name, "outside"});
  refused(stored::tar({{"a.png", dot(1)}}), {"neither a .cls"});
  refused(stored::tar({{"a.png", dot(1)}, {"a.cls", "fern"}}), {"a.cls", "number of a class"});
  refused(stored::tar({{"a.png", dot(1)}, {"a.cls", "1"}, {"b.png", dot(1)}}), {"b.png", "no .cls"});
  refused(stored::tar({{"a.txt", "hello"}}), {"no pictures"});
  refused(stored::tar({{"a.png", dot(1)}, {"a.cls", "1"}, {"b.webp", "RIFF"}, {"b.cls", "0"}}), {"b.webp", "a picture that is not read"});
}

namespace {

std::vector<WantedTensor> wanted_pairs(std::int64_t height, std::int64_t width) {
  return {stored::input("x", DType::F32, {2, 1, height, width}), stored::target({2, height, width})};
}
using Classes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("pictures with a picture of classes each") {
  const TemporaryFolder folder;
  write_in(folder / "d/images/one/a.png", stored::png(2, 1, 0, {10, 20}));
  write_in(folder / "d/labels/one/a.png", stored::png(2, 1, 3, {4, '\xFF'}));
  const auto set = stored::opened(folder / "d", wanted_pairs(1, 2));
  CHECK(set->samples() == 1);
  CHECK(stored::row_of<float>(*set, 0, 0, 2)[1] == Approx(20 / 255.0));
  CHECK(stored::row_of<std::int64_t>(*set, 1, 0, 2) == Classes{4, -100});  // 255 is ignored
  write_in(folder / "d/labels/one/a.png", stored::png(1, 1, 3, {4}));
  check_refused([&] { (void)stored::row_of<std::int64_t>(*set, 1, 0, 2); }, {"labels/one/a.png", "1 x 1", "images/one/a.png", "2 x 1"});
  write_in(folder / "d/labels/b.png", stored::png(1, 1, 3, {4}));
  check_refused([&] { (void)stored::opened(folder / "d", wanted_pairs(1, 2)); }, {"labels", "2 files", "some have no picture"});
  write_in(folder / "d/images/c.png", stored::png(1, 1, 0, {4}));
  check_refused([&] { (void)stored::opened(folder / "d", wanted_pairs(1, 2)); }, {"images/c.png", "same name"});
}

TEST_CASE("a picture and its classes are cut and mirrored alike") {
  const TemporaryFolder folder;
  std::string values;
  for (int n = 0; n < 64; ++n) values += static_cast<char>(n);
  write_in(folder / "d/images/a.png", stored::png(8, 8, 0, values));
  write_in(folder / "d/labels/a.png", stored::png(8, 8, 0, values));
  DataOptions options;
  options.pictures.crop = options.pictures.flip = true;
  const auto set = stored::opened(folder / "d", wanted_pairs(4, 4), options);
  bool mirrored = false, cut = false;
  for (std::int64_t sample = 0; sample < 12; ++sample) {
    std::vector<float> x(16);
    Classes y(16);
    (void)set->read({0, 0, sample, nullptr}, x.data());
    (void)set->read({1, 0, sample, nullptr}, y.data());
    // The picture rises by 1 to the right and by 8 downwards: half a pixel off is 4.5, and a triangle that is cut at the border leans
    // inwards.
    for (std::size_t n = 0; n < 16; ++n) CHECK(std::abs(255 * x[n] - static_cast<float>(y[n])) < 8);
    mirrored = mirrored || y[0] > y[3];
    cut = cut || y[15] - y[0] < 40;
  }
  CHECK(mirrored);
  CHECK(cut);
}

TEST_CASE("Cityscapes: nineteen classes of its ids, the others ignored") {
  const TemporaryFolder folder;
  write_in(folder / "d/leftImg8bit/train/aachen/a_1_leftImg8bit.png", stored::png(3, 1, 0, {1, 2, 3}));
  write_in(folder / "d/gtFine/train/aachen/a_1_gtFine_labelIds.png", stored::png(3, 1, 0, {7, 33, 4}));  // road, bicycle, static
  const auto set = stored::opened(folder / "d", wanted_pairs(1, 3));
  CHECK(stored::row_of<std::int64_t>(*set, 1, 0, 3) == Classes{0, 18, -100});
  check_refused([&] { (void)stored::opened(folder / "d?split=val", wanted_pairs(1, 3)); }, {"val", "no folder"});
  fs::remove(folder / "d/gtFine/train/aachen/a_1_gtFine_labelIds.png");
  check_refused([&] { (void)stored::opened(folder / "d", wanted_pairs(1, 3)); },
                {"a_1_leftImg8bit.png", "a_1_gtFine_labelIds.png", "does not exist"});
}
