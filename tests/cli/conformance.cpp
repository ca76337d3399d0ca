// The ONNX project's test cases: none wrong, forward or backward, and no fewer pass than did.
#include <cstring>
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

constexpr std::int64_t kForward = 900, kBackward = 640;  ///< of 932 cases of ONNX 1.12, about 680 of which are differentiable

void check_counts(const std::string& options, std::int64_t least) {
  const auto ended = run_shell("REHEARSE=\"" REHEARSAL_COMMAND "\" scripts/conformance --format json" + options);
  if (ended.status == 4) {
    WARN("skipped: " << ended.err);
    return;
  }
  const auto result = result_of(ended);
  for (const auto& one : result.at("cases")) {
    INFO(one.at("case") << ": " << one.at("reason"));
    CHECK(one.at("result") != "fail");
    if (one.at("result") == "refused") CHECK_FALSE(one.at("reason").get<std::string>().empty());
  }
  CHECK(result.at("failed") == 0);
  if (result.at("cases").size() == 932) CHECK(result.at("passed").get<std::int64_t>() >= least);
}

// Messages of protobuf, below 128 bytes each.
std::string part(int field, const std::string& bytes) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string number(int field, int value) { return {static_cast<char>(field << 3), static_cast<char>(value)}; }

/// z = x + y, each of two elements.
std::string sum_model() {
  const auto value = [](const std::string& name) {
    return part(1, name) + part(2, part(1, number(1, 1) + part(2, part(1, number(1, 2)))));
  };
  const auto node = part(1, "x") + part(1, "y") + part(2, "z") + part(4, "Add");
  const auto graph = part(1, node) + part(2, "g") + part(11, value("x")) + part(11, value("y")) + part(12, value("z"));
  return number(1, 8) + part(7, graph) + part(8, number(2, 13));
}

std::string tensor(float value) {
  std::string bytes(2 * sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  std::memcpy(bytes.data() + sizeof value, &value, sizeof value);
  return number(1, 2) + number(2, 1) + part(9, bytes);
}

}  // namespace

TEST_CASE("a case that cannot be played is refused, and the others are") {
  const TemporaryFolder folder;
  for (const std::string name : {"good", "no_input", "no_output", "no_model", "no_tolerance", "no_set"}) {
    const auto data = folder / name + (name == "no_set" ? "/" : "/test_data_set_0/");
    std::filesystem::create_directories(data);
    write_text(folder / name + "/model.onnx", name == "no_model" ? "hello" : sum_model());
    if (name == "no_set") continue;
    write_text(data + "input_0.pb", tensor(1));
    if (name != "no_input") write_text(data + "input_1.pb", tensor(2));
    if (name != "no_output") write_text(data + "output_0.pb", tensor(3));
    if (name == "no_tolerance") write_text(folder / name + "/data.json", "[1]");
  }
  const auto ended = rehearse("conformance " + (folder / ""));
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, contains("good: pass\n") && contains("no_input: refused: ") && contains("input_1.pb: is not there") &&
                            contains("no_output: refused: ") && contains("no_model: refused: ") && contains("no_set: refused: ") &&
                            contains("no_tolerance: refused: ") && contains("1 passed, 0 failed, 5 skipped\n"));
  const auto result = result_of(rehearse("conformance --format json " + (folder / "")));
  CHECK(result.at("cases").size() == 6);
  CHECK(result.at("skipped") == 5);
  CHECK(result.at("refused") == 5);
}

TEST_CASE("conformance forward") { check_counts("", kForward); }
TEST_CASE("conformance of gradients") { check_counts(" --gradients", kBackward); }

TEST_CASE("folders without cases are named") {
  check_failure(rehearse("conformance docs"), 1, {"docs", "no test case"});
  check_failure(rehearse("conformance nowhere"), 1, {"nowhere"});
}
