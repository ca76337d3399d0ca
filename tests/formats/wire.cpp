// Files that are no models, or broken ones: always a message that names the file, never a crash.

#include "formats/onnx/wire.hpp"

#include "base/random.hpp"
#include "formats/onnx/model_export.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats {
namespace {

using testing::bad_input;
using testing::ModelBuilder;
using testing::TemporaryFolder;
using testing::write_bytes;

std::string refusal_of(const std::string& path) {
  return bad_input([&] { (void)import_onnx(path, {}); });
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("what is no model is refused with the file's name and the reason", "[wire]") {
  const TemporaryFolder folder;
  struct Row {
    const char* name;
    std::string bytes;
    const char* reason;
  };
  const Row rows[] = {
      {"empty.onnx", "", "is empty"},
      {"text.onnx", "import torch\nprint(1)\n", "is a text"},
      {"lfs.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"},
      {"zip.onnx", std::string("PK\x03\x04garbage", 11), "PyTorch checkpoint"},
      {"nograph.onnx", std::string("\x08\x07", 2), "holds no graph"},
  };
  for (const Row& row : rows) {
    write_bytes(folder.file(row.name), row.bytes);
    const std::string message = refusal_of(folder.file(row.name));
    CAPTURE(message);
    CHECK(contains(message, row.name));
    CHECK(contains(message, row.reason));
  }
  CHECK(contains(refusal_of(folder.file("absent.onnx")), "absent.onnx"));
  CHECK(contains(refusal_of(folder.file("")), "is a folder"));
}

TEST_CASE("a broken length is named with its byte", "[wire]") {
  const TemporaryFolder folder;
  // tag 0x3A: field 7 (graph), delimited; its length says 100, two bytes follow
  write_bytes(folder.file("cut.onnx"), std::string("\x08\x07\x3A\x64\x0A\x00", 6));
  const std::string message = refusal_of(folder.file("cut.onnx"));
  CAPTURE(message);
  CHECK(contains(message, "100 bytes does not fit"));
  CHECK(contains(message, "at byte 4 of 6"));
}

TEST_CASE("nesting without end is refused, not followed", "[wire]") {
  // attribute.g (field 6) holding graph.node (1) holding node.attribute (5) ..., 1,000 times
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    for (const char tag : {'\x32', '\x2A', '\x0A'}) {
      std::string outer(1, tag);
      for (std::size_t length = bytes.size();; length >>= 7) {
        outer.push_back(static_cast<char>(length >= 0x80 ? (length & 0x7F) | 0x80 : length));
        if (length < 0x80) break;
      }
      bytes = outer + bytes;
    }
  }
  std::string model("\x08\x07\x3A", 3);
  for (std::size_t length = bytes.size();; length >>= 7) {
    model.push_back(static_cast<char>(length >= 0x80 ? (length & 0x7F) | 0x80 : length));
    if (length < 0x80) break;
  }
  const TemporaryFolder folder;
  write_bytes(folder.file("deep.onnx"), model + bytes);
  CHECK(contains(refusal_of(folder.file("deep.onnx")), "nested deeper"));
}

TEST_CASE("long payloads stay in the file and are found there again", "[wire]") {
  ModelBuilder model;
  std::vector<float> values(2000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  auto& raw = model.tensor("raw", {2000}, 1);
  raw.set_raw_data(values.data(), values.size() * sizeof(float));
  model.floats("packed", {2000}, values);
  model.input("x", {"2000"}).output("y");
  model.node("Add", {"x", "raw"}, {"s"});
  model.node("Add", {"s", "packed"}, {"y"});
  const std::string bytes = model.bytes();
  const auto span = std::as_bytes(std::span(bytes.data(), bytes.size()));
  CHECK(bytes.size() > 16000);
  CHECK(without_payloads(span, "m").size() < 500);

  const TemporaryFolder folder;
  write_bytes(folder.file("m.onnx"), bytes);
  const ImportedModel imported = import_onnx(folder.file("m.onnx"), {});
  for (const char* name : {"raw", "packed"}) {
    const graph::Tensor& tensor = imported.graph[imported.graph.find(name)];
    CHECK(std::holds_alternative<graph::FileRegion>(tensor.contents.source));
    const auto read = graph::read_reals(tensor.contents, tensor.type.shape, 0, 0);
    CHECK(read.at(1234) == 1234.0);
  }
}

TEST_CASE("our private fields in a file are ignored", "[wire]") {
  ModelBuilder model;
  model.input("x", {"2"}).output("y").floats("w", {2}, {1, 2});
  model.graph().mutable_initializer(0)->set_payload_offset(0);
  model.graph().mutable_initializer(0)->set_payload_bytes(8);
  model.node("Add", {"x", "w"}, {"y"});
  const ImportedModel imported = model.import();
  const graph::Tensor& w = imported.graph[imported.graph.find("w")];
  CHECK(graph::read_reals(w.contents, w.type.shape, 0, 0) == std::vector<double>{1, 2});
}

/// Imports broken bytes: anything but our own exceptions for bad input ends the test.
void survive(const std::string& path, const std::string& bytes) {
  write_bytes(path, bytes);
  ImportOptions options;
  options.batch = 2;
  try {
    (void)import_onnx(path, options);
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.status() != ExitStatus::Internal);
  }
}

TEST_CASE("500 bit flips and truncations of a model end in a model or a message", "[wire]") {
  const TemporaryFolder folder;
  export_onnx(graph::zoo::build("zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=11"), folder.file("good.onnx"));
  std::ifstream in(folder.file("good.onnx"), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  REQUIRE(good.size() > 1000);
  const std::string path = folder.file("broken.onnx");
  for (std::uint64_t trial = 0; trial < 500; ++trial) {
    const std::size_t at = random_bits(7, 0, trial) % good.size();
    std::string broken = good;
    if (trial % 5 == 0)
      broken.resize(at);
    else
      broken[at] = static_cast<char>(broken[at] ^ static_cast<char>(1U << (trial % 8)));
    survive(path, broken);
  }
}

}  // namespace
}  // namespace rehearsal::formats
