// Real exports whose trained tensors are known: the rule of formats/onnx/model_import.hpp finds exactly these.

#include <fnmatch.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "formats/onnx/model_import.hpp"
#include "tests/catch.hpp"

namespace rehearsal::formats {
namespace {

namespace files = std::filesystem;

nlohmann::json read_json(const files::path& path) { return nlohmann::json::parse(std::ifstream(path)); }

std::set<std::string> trained(const graph::Graph& graph, const std::vector<std::string>& frozen) {
  std::set<std::string> names;
  for (const graph::Tensor& tensor : graph.tensors()) {
    const bool out = std::any_of(frozen.begin(), frozen.end(),
                                 [&](const std::string& glob) { return fnmatch(glob.c_str(), tensor.name.c_str(), 0) == 0; });
    if (tensor.role == graph::TensorRole::Parameter && !out) names.insert(tensor.name);
  }
  return names;
}

TEST_CASE("exported training cases import, and train what PyTorch trained", "[cases]") {
  const files::path folder = "../shared/models/train";
  if (!files::exists(folder)) {
    WARN("skipped: no training cases beside the source folder");
    return;
  }
  for (const auto& entry : files::directory_iterator(folder)) {
    if (!files::exists(entry.path() / "model.onnx")) continue;
    CAPTURE(entry.path().filename());
    const auto facts = read_json(entry.path() / "case.json");
    const auto norms = read_json(entry.path() / "reference.json").at("gradient_norms_step1_f64");
    ImportOptions options;
    options.batch = facts.at("batch").get<std::int64_t>();
    options.collect_unknown = true;
    const ImportedModel model = import_onnx((entry.path() / "model.onnx").string(), options);
    if (!model.unknown.empty()) {
      WARN(entry.path().filename().string() << ": " << model.unknown[0].reason);
      continue;
    }
    CHECK(model.unresolved.empty());
    std::set<std::string> expected;
    for (const auto& [name, norm] : norms.items()) {
      if (!norm.is_null()) expected.insert(name);  // null: nothing flows into it
    }
    CHECK(trained(model.graph, facts.at("freeze").get<std::vector<std::string>>()) == expected);
  }
}

}  // namespace
}  // namespace rehearsal::formats
