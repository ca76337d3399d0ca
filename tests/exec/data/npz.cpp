// .npz files: what is read, and what is refused by file and array.
#include "exec/data/npz.hpp"

#include <cstring>
#include <filesystem>

#include "exec/data/data.hpp"
#include "graph/zoo/layers.hpp"
#include "tests/exec/data/stored.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using stored::check_refused;

namespace {

template <class T>
NpyArray array(DType dtype, graph::Shape shape, const std::vector<T>& values) {
  NpyArray a{{dtype, std::move(shape)}, std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  return a;
}

/// One linear layer: input [batch, 2], target [batch] of int64.
graph::TrainingGraph training_of(std::int64_t batch) {
  graph::zoo::Layers layers;
  const auto x = layers.builder().add_input("input", {DType::F32, {batch, 2}});
  const auto result = layers.linear("fc", x, 3);
  return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(result, "output")), {});
}

std::map<std::string, NpyArray> good() {
  std::map<std::string, NpyArray> arrays;
  arrays["input"] = array<float>(DType::F32, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  arrays["target"] = array<std::int64_t>(DType::I64, {4}, {0, 1, 2, 0});
  return arrays;
}

/// An .npy by its header as NumPy writes it.
std::string npy(const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + data;
}

std::unique_ptr<DataSource> opened(const std::string& path, const graph::TrainingGraph& training, bool shuffle = true) {
  DataOptions options;
  options.sources = {path};
  options.shuffle = shuffle;
  options.seed = 3;
  return open_data(options, training);
}

void check_data_refused(const std::map<std::string, NpyArray>& arrays, const std::vector<std::string>& words, std::int64_t batch = 2) {
  const TemporaryFolder folder;
  write_npz(folder / "d.npz", arrays);
  const auto training = training_of(batch);
  auto all = words;
  all.push_back("d.npz");
  check_refused([&] { (void)opened(folder / "d.npz", training); }, all);
}

std::vector<float> rows(DataSource& data, std::int64_t first, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(2 * count));
  const std::string name = "input";
  data.read({name, {DType::F32, {count, 2}}, first, count}, out.data());
  return out;
}

}  // namespace

TEST_CASE("arrays come back as they were written") {
  const TemporaryFolder folder;
  write_npz(folder / "d.npz", good());
  const auto found = read_npz(folder / "d.npz");
  REQUIRE(found.size() == 2);
  for (const auto& [name, a] : good()) {
    CHECK(found.at(name).type == a.type);
    CHECK(found.at(name).bytes == a.bytes);
  }
}

TEST_CASE("files that are no .npz") {
  const TemporaryFolder folder;
  const auto file = folder / "d.npz";
  check_refused([&] { (void)read_npz(file); }, {"d.npz", "does not exist"});
  write_text(file, "");
  check_refused([&] { (void)read_npz(file); }, {"d.npz"});
  write_text(file, "these are words, not arrays");
  check_refused([&] { (void)read_npz(file); }, {"d.npz", "zip"});
  write_npz(file, good());
  const auto whole = text_of(file);
  for (const double part : {0.2, 0.5, 0.9, 0.99}) {
    write_text(file, whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))));
    check_refused([&] { (void)read_npz(file); }, {"d.npz"});
  }
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  check_refused([&] { (void)read_npz(file); }, {"d.npz"});
}

TEST_CASE("a flipped byte of an array is seen") {
  const TemporaryFolder folder;
  const auto file = folder / "d.npz";
  auto arrays = good();
  write_npz(file, arrays);
  auto bytes = text_of(file);
  const float seven = 7;
  const auto at = bytes.find(std::string(reinterpret_cast<const char*>(&seven), 4));
  REQUIRE(at != std::string::npos);
  bytes[at + 1] = static_cast<char>(bytes[at + 1] ^ 0x10);
  write_text(file, bytes);
  check_refused([&] { (void)read_npz(file); }, {"d.npz", "input"});
}

TEST_CASE("arrays that are not read are refused with what would be") {
  const std::string four(16, '\0');
  CHECK(parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }\n", four), "f").type.shape == graph::Shape{4});
  check_refused([&] { (void)parse_npy(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (4,), }\n", four), "f: array a"); },
                {"f: array a", "big-endian"});
  check_refused([&] { (void)parse_npy(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }\n", four), "f: array a"); },
                {"f: array a", "C order"});
  check_refused([&] { (void)parse_npy(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }\n", four), "f: array a"); },
                {"f: array a", "<c8"});
  check_refused([&] { (void)parse_npy(npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n", four), "f: array a"); },
                {"f: array a", "|O"});
  check_refused([&] { (void)parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }\n", four), "f: array a"); },
                {"f: array a", "16 of 20"});
  check_refused(
      [&] {
        (void)parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 99999999, 99999999), }\n", four), "f: array a");
      },
      {"f: array a", "absurd"});
  check_refused([&] { (void)parse_npy(npy("{'shape': (4,)}\n", four), "f: array a"); }, {"f: array a", "header"});
  check_refused([&] { (void)parse_npy("\x93NUMPY", "f: array a"); }, {"f: array a"});
  check_refused([&] { (void)parse_npy(npy("{'descr': '<f4'", "").substr(0, 14), "f: array a"); }, {"f: array a"});
}

TEST_CASE("arrays that do not suit the model name themselves and its input") {
  auto arrays = good();
  SECTION("missing") {
    arrays.erase("target");
    check_data_refused(arrays, {"\"target\"", "it holds input"});
  }
  SECTION("a sample of another shape") {
    arrays["input"] = array<float>(DType::F32, {4, 1}, {0, 1, 2, 3});
    check_data_refused(arrays, {"\"input\"", "[4", "[2"});
  }
  SECTION("of another rank") {
    arrays["input"] = array<float>(DType::F32, {8}, {0, 1, 2, 3, 4, 5, 6, 7});
    check_data_refused(arrays, {"\"input\""});
  }
  SECTION("floats where labels are wanted") {
    arrays["target"] = array<float>(DType::F32, {4}, {0, 1, 2, 0});
    check_data_refused(arrays, {"\"target\"", "float32", "int64"});
  }
  SECTION("different numbers of samples") {
    arrays["target"] = array<std::int64_t>(DType::I64, {3}, {0, 1, 2});
    check_data_refused(arrays, {"3", "4"});
  }
  SECTION("fewer samples than the batch") { check_data_refused(arrays, {"4 samples", "batch of 5"}, 5); }
}

TEST_CASE("samples in order, and every one once an epoch when shuffled") {
  const TemporaryFolder folder;
  write_npz(folder / "d.npz", good());
  const auto training = training_of(2);
  const auto ordered = opened(folder / "d.npz", training, false);
  CHECK(ordered->samples() == 4);
  CHECK(rows(*ordered, 0, 2) == std::vector<float>{0, 1, 2, 3});
  CHECK(rows(*ordered, 3, 1) == std::vector<float>{6, 7});
  CHECK(rows(*ordered, 4, 1) == std::vector<float>{0, 1});  // the second epoch begins
  const auto shuffled = opened(folder / "d.npz", training), again = opened(folder / "d.npz", training);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<float> firsts;
    for (std::int64_t step = 0; step < 2; ++step) {
      const auto both = rows(*shuffled, 4 * epoch + 2 * step, 2);
      CHECK(both == rows(*again, 4 * epoch + 2 * step, 2));
      firsts.push_back(both[0]), firsts.push_back(both[2]);
    }
    std::sort(firsts.begin(), firsts.end());
    CHECK(firsts == std::vector<float>{0, 2, 4, 6});
  }
}

TEST_CASE("inputs that are named, and are none of the model") {
  const TemporaryFolder folder;
  write_npz(folder / "d.npz", good());
  DataOptions options;
  options.sources = {folder / "d.npz"};
  options.arrays = {{"inputs", "input"}};
  check_refused([&] { (void)open_data(options, training_of(2)); }, {"--input inputs=input", "did you mean \"input\"", "target"});
  options.arrays = {{"target", "input"}};
  check_refused([&] { (void)open_data(options, training_of(2)); }, {"\"input\"", "[4,2]"});
  options.sources = {"synthetic"};
  check_refused([&] { (void)open_data(options, training_of(2)); }, {"--input target=input", "synthetic"});
}

TEST_CASE("a label that is none of the model's classes is refused by its row") {
  const TemporaryFolder folder;
  auto arrays = good();
  arrays["target"] = array<std::int64_t>(DType::I64, {4}, {0, 1, 3, -100});  // three classes; -100 is ignored
  write_npz(folder / "d.npz", arrays);
  const auto data = opened(folder / "d.npz", training_of(2), false);
  std::vector<std::int64_t> labels(2);
  const std::string name = "target";
  check_refused([&] { data->read({name, {DType::I64, {2}}, 2, 2}, labels.data()); }, {"row 2 of ", "d.npz", "has 3", "0 to 2"});
  data->read({name, {DType::I64, {1}}, 3, 1}, labels.data());
  CHECK(labels[0] == -100);
}

TEST_CASE("synthetic targets of binary cross-entropy are 0 or 1") {
  graph::zoo::Layers layers;
  const auto result = layers.linear("fc", layers.builder().add_input("input", {DType::F32, {32, 2}}), 3);
  graph::TrainingOptions options;
  options.loss = "bce";
  const auto training = graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(result, "output")), options);
  std::vector<float> target(96);
  const std::string name = training.graph[training.target].name;
  synthetic_data(training, 3)->read({name, {DType::F32, {32, 3}}, 0, 32}, target.data());
  int ones = 0;
  for (const float t : target) {
    CHECK((t == 0 || t == 1));
    ones += t == 1 ? 1 : 0;
  }
  CHECK(ones > 24);
  CHECK(ones < 72);
}

TEST_CASE("synthetic samples are the same however they are shared out") {
  const auto training = training_of(6);
  const auto data = synthetic_data(training, 9);
  CHECK(data->samples() == 0);
  for (std::int64_t step = 0; step < 2; ++step) {
    const auto whole = rows(*data, 6 * step, 6);
    std::vector<float> parts;
    for (const auto& [first, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 3}, {3, 1}, {4, 2}})
      for (const float x : rows(*data, 6 * step + first, count)) parts.push_back(x);
    CHECK(parts == whole);
  }
  CHECK(rows(*data, 0, 6) != rows(*data, 6, 6));
  CHECK(rows(*data, 0, 6) != rows(*synthetic_data(training, 10), 0, 6));
  std::vector<std::int64_t> labels(6);
  const std::string name = "target";
  data->read({name, {DType::I64, {6}}, 0, 6}, labels.data());
  for (const auto label : labels) CHECK((label >= 0 && label < 3));
}
