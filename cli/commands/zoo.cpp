#include "graph/zoo/zoo.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "formats/onnx/model_export.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ZooOptions {
  std::string name, output;
  std::optional<std::int64_t> batch;
};

int list_of_zoo(const ZooOptions& o, Terminal& terminal) {
  for (const auto& [option, given] : {std::pair{"--output", !o.output.empty()}, {"--batch", o.batch.has_value()}})
    if (given) throw WrongUsage(option, "is of a model that is written: name one, as in rehearse zoo resnet50 -o resnet50.onnx");

  auto rows = Json::array();
  for (const auto& row : graph::zoo::zoo_table()) {
    std::string parameters;
    for (const auto& p : row.parameters)
      parameters += (parameters.empty() ? "" : " ") + std::string(p.name) + "=" + std::to_string(p.otherwise);
    rows.push_back({{"name", std::string(row.name)}, {"description", std::string(row.description)}, {"parameters", parameters}});
  }
  auto presets = Json::array();
  for (const auto& preset : graph::zoo::zoo_presets())
    presets.push_back({{"name", std::string(preset.name)}, {"reference", std::string(preset.model) + "?" + std::string(preset.values)}});
  terminal.print({{"schema", 1}, {"models", rows}, {"presets", presets}});
  return 0;
}

int write(const ZooOptions& o, Terminal& terminal) {
  static_cast<void>(graph::zoo::parse(o.name));  // a name that there is none of is the first thing to say
  if (o.output.empty()) throw WrongUsage("zoo " + o.name, "give a file to write it to, as in -o model.onnx");
  const auto graph = graph::zoo::build(o.name, o.batch);
  formats::ExportOptions options;
  std::optional<graph::Graph> other;  // without --batch the file takes any batch
  if (!o.batch) {
    const auto now = graph[graph.inputs().front()].type.shape.front();
    other = graph::zoo::build(o.name, now + 1);
    options.other_batch = &*other;
  }
  formats::export_onnx(graph, o.output, options);
  std::int64_t parameters = 0;
  for (const auto& t : graph.tensors())
    if (t.role == graph::TensorRole::Parameter) parameters += graph::element_count(t.type.shape);
  terminal.print({{"schema", 1}, {"model", o.name}, {"written", o.output}, {"parameters", parameters}});
  return 0;
}

}  // namespace

Action add_zoo(CLI::App& app) {
  auto o = std::make_shared<ZooOptions>();
  app.add_option("NAME", o->name, "the model to write, with parameters where wanted: resnet50?image=128; left out: all are listed");
  app.add_option("-o,--output", o->output, "where to write it as ONNX, without weights");
  app.add_option("--batch", o->batch, "samples in a batch of the file; left out: it takes any");
  return [o](Terminal& terminal) { return o->name.empty() ? list_of_zoo(*o, terminal) : write(*o, terminal); };
}

}  // namespace rehearsal::cli
