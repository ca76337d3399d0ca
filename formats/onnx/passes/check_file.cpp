#include "formats/onnx/passes/check_file.hpp"

#include "base/error.hpp"
#include "formats/onnx/usage.hpp"

namespace rehearsal::formats {
namespace {

/// Throws when `now` has what `before` has not.
void need_no_more(const std::set<std::string>& now, const std::set<std::string>& before, const std::string& pass, const char* what) {
  for (const auto& name : now)
    if (!before.contains(name)) throw InternalError("after '" + pass + "': tensor '" + name + "' " + what);
}

}  // namespace

FileFaults faults_of(const onnx::GraphProto& graph) {
  FileFaults faults;
  std::set<std::string> known;
  const auto produce = [&](const std::string& name) {
    if (!name.empty() && !known.insert(name).second) faults.produced_twice.insert(name);
  };
  for (const auto& tensor : graph.initializer()) produce(tensor.name());
  for (const auto& node : graph.node())
    for (const auto& name : node.output()) produce(name);
  for (const auto& input : graph.input()) known.insert(input.name());  // IR 3 lists initializers as inputs too
  for (const auto& node : graph.node())
    for (const auto& name : names_read(node))
      if (!name.empty() && !known.contains(name)) faults.read_unknown.insert(name);
  for (const auto& output : graph.output()) faults.outputs.insert(output.name());
  return faults;
}

void check_file(const onnx::GraphProto& graph, const FileFaults& before, std::string_view after_pass) {
  const FileFaults now = faults_of(graph);
  const std::string pass(after_pass);
  need_no_more(now.produced_twice, before.produced_twice, pass, "is produced twice");
  need_no_more(now.read_unknown, before.read_unknown, pass, "is read, and nothing produces it any more");
  need_no_more(before.outputs, now.outputs, pass, "is no output any more");
}

}  // namespace rehearsal::formats
