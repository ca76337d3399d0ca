#include "formats/onnx/passes/import_passes.hpp"

#include <array>
#include <set>

#include "base/checking.hpp"
#include "base/error.hpp"
#include "formats/onnx/damage.hpp"
#include "formats/onnx/doubts.hpp"
#include "formats/onnx/folded.hpp"
#include "formats/onnx/passes/check_file.hpp"
#include "formats/onnx/rebatch/rebatch.hpp"
#include "graph/check_graph.hpp"
#include "graph/patterns/patterns.hpp"

namespace rehearsal::formats {
namespace {

bool in_any_case(const ImportWork&) { return true; }
bool recognizes(const ImportWork& work) { return work.options.recognize; }

bool changes_the_batch(const ImportWork& work) {
  if (!work.options.batch) return false;
  const auto written = Importer(work.file, work.options).written_batch();
  return written && *written != *work.options.batch;
}

void read_file(ImportWork& work) { work.file = read_model(work.path); }

void undo(ImportWork& work, const std::vector<ExporterDamage>& undone) {
  for (const auto& weight : undone) work.note(weight.what, weight.tensor, weight.detail);
  work.undone.insert(work.undone.end(), undone.begin(), undone.end());
}

void separate(ImportWork& work) { undo(work, separate_merged(work.file.model)); }
void unfold_weights(ImportWork& work) { undo(work, unfold(work.file)); }

void follow_batch(ImportWork& work) {
  work.trace = sizes_that_follow(work.file, work.options, *Importer(work.file, work.options).written_batch());
  for (const auto& [node, what] : work.trace->rewritten()) work.note("rewritten", node, what);
}

void bind(ImportWork& work) {
  work.importer.emplace(work.file, work.options, work.trace ? &*work.trace : nullptr);
  if (work.trace) work.trace->begin(BatchTrace::Pass::Wanted, *work.options.batch);
  work.importer->bind_sizes();
}

void add_inputs(ImportWork& work) { work.importer->add_inputs(); }
void import_nodes(ImportWork& work) { work.importer->import_nodes(); }

void name_outputs(ImportWork& work) {
  work.importer->add_outputs();
  if (work.trace) work.trace->end();
}

void build(ImportWork& work) {
  work.declared = work.importer->declarations();
  work.model = std::move(*work.importer).finish();
  work.changes = work.importer->take_changes();
  work.importer.reset();
}

void recognize(ImportWork& work) {
  auto recognized = graph::with_recognized_operators(std::move(work.model.graph));
  work.model.graph = std::move(recognized.graph);
  for (const auto& found : recognized.found) {
    ++work.model.recognized[std::string(found.pattern)];
    const char* how = found.stays ? ", whose nodes stay" : ", one node now";
    work.note("recognized", found.node, std::string(found.pattern) + how);
  }
}

void account_for_weights(ImportWork& work) {
  auto& damage = work.model.damage;
  const auto left = find_damage(work.file, *work.declared);
  for (const auto& weight : left) work.note(weight.what, weight.tensor, weight.detail);
  damage = std::move(work.undone);
  damage.insert(damage.end(), left.begin(), left.end());
  auto& warnings = work.model.warnings;
  for (const auto& sentence : sentences_about(damage)) warnings.push_back(sentence);
  for (const auto& doubt : doubts_about(work.file, *work.declared, work.model.graph)) warnings.push_back(doubt);
  if (!work.trace) return;
  const auto remarks = work.trace->remarks();
  warnings.insert(warnings.begin(), remarks.begin(), remarks.end());
}

constexpr std::array kPasses{
    ImportPass{"read the file", "a path", "the file's messages; long payloads stay where they are", in_any_case, read_file},
    ImportPass{"separate merged weights", "weights of equal values, stored once",
               "one stored tensor for every weight that the exporter lists", in_any_case, separate},
    ImportPass{"unfold weights", "tensors that an optimizer made of one weight by moving its values",
               "the weight, and nodes that make the tensor of it", in_any_case, unfold_weights},
    ImportPass{"follow the batch", "sizes and constants with the file's batch written out",
               "how each of them follows from the batch that is wanted", changes_the_batch, follow_batch},
    ImportPass{"bind sizes", "sizes with names", "a number for every size of an input", in_any_case, bind},
    ImportPass{"add inputs", "sizes", "inputs of the graph, and weights that the file has as inputs", in_any_case, add_inputs},
    ImportPass{"import nodes", "nodes of the file, in topological order",
               "nodes of the operator table, every shape inferred, what depends on known values alone folded", in_any_case, import_nodes},
    ImportPass{"name outputs", "what the file calls outputs", "a node behind every output, by the file's name", in_any_case, name_outputs},
    ImportPass{"drop what no output needs", "all nodes", "the graph", in_any_case, build},
    ImportPass{"recognize operators", "operators written as several nodes", "one node each (graph/patterns)", recognizes, recognize},
    ImportPass{"account for weights", "the exporter's list of weights", "what became of each weight, and warnings", in_any_case,
               account_for_weights},
};

/// The file or graph that stands behind a pass.
const graph::Graph* graph_behind(const ImportWork& work) {
  if (work.importer) return work.importer->so_far().tensors().empty() ? nullptr : &work.importer->so_far();
  return work.declared ? &work.model.graph : nullptr;
}

std::size_t tensors_of(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  names.erase("");
  return names.size();
}

void report(ImportWork& work, const ImportPass& pass) {
  if (!work.options.after_pass) return;
  if (work.importer) {
    auto changes = work.importer->take_changes();
    work.changes.insert(work.changes.end(), changes.begin(), changes.end());
  }
  const graph::Graph* made = graph_behind(work);
  const auto& file = work.file.model.graph();
  work.options.after_pass({pass.name, pass.takes, pass.leaves, made == nullptr,
                           made ? made->nodes().size() : static_cast<std::size_t>(file.node_size()),
                           made ? made->tensors().size() : tensors_of(file), std::exchange(work.changes, {})});
}

/// Runs a pass. What it refuses is said with the file's name, and with the batch where that is not the file's.
void run_pass(ImportWork& work, const ImportPass& pass) {
  try {
    if (!pass.applies(work)) return;
    pass.run(work);
  } catch (const NotRebatchable& error) {
    refuse_batch(work.file, work.options, *work.trace, error.reason);
  } catch (const DependsOnData& error) {
    if (work.trace) refuse_batch(work.file, work.options, *work.trace, error.what());
    throw DependsOnData(error.tensor(), work.path + ": " + error.what());
  } catch (const BadInput& error) {
    const std::string what = error.what();
    if (what.starts_with(work.path)) throw;
    if (work.trace) refuse_batch(work.file, work.options, *work.trace, what);
    throw BadInput(work.path, what);
  }
  report(work, pass);
}

}  // namespace

std::span<const ImportPass> import_passes() { return kPasses; }

ImportedModel import_onnx(const std::string& path, const ImportOptions& options) {
  ImportWork work{path, options};
  std::optional<FileFaults> faults;
  for (const ImportPass& pass : kPasses) {
    run_pass(work, pass);
    if (!checks_every_pass()) continue;
    const graph::Graph* made = graph_behind(work);
    if (made) {
      graph::check_graph(*made, pass.name);
    } else if (faults) {
      check_file(work.file.model.graph(), *faults, pass.name);
    } else {
      faults = faults_of(work.file.model.graph());
    }
  }
  return std::move(work.model);
}

}  // namespace rehearsal::formats
