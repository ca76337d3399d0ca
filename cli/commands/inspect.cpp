#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <tuple>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "cli/command.hpp"
#include "cli/model_options.hpp"
#include "cli/on_this_machine.hpp"
#include "cli/pass_answers.hpp"
#include "graph/dims/dims.hpp"
#include "graph/op_schema.hpp"
#include "plan/lowering/lowering.hpp"
#include "platforms/devices.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  ModelOptions model;
  std::string backend, device, machine;
  bool tensors = false, dims = false, kernels = false, passes = false;
};

Json type_json(const graph::TensorType& type) { return {{"dtype", std::string(row(type.dtype).numpy_name)}, {"shape", type.shape}}; }

Json list_json(const graph::Graph& g, const std::vector<graph::TensorId>& ids) {
  Json list = Json::array();
  for (auto t : ids) {
    Json entry{{"name", g[t].name}};
    entry.update(type_json(g[t].type));
    list.push_back(entry);
  }
  return list;
}

/// Parameters, whether trained or not.
void add_parameters(const graph::Graph& model, Json& result) {
  std::int64_t parameters = 0;
  for (const auto& t : model.tensors())
    if (graph::is_weight(t.role)) parameters += graph::element_count(t.type.shape);
  result["parameters"] = parameters;
}

void add_costs(const graph::TrainingGraph& training, Json& result) {
  const auto& g = training.graph;
  double flops[3] = {0, 0, 0}, activations = 0;
  for (const auto& node : g.nodes()) flops[static_cast<int>(node.phase)] += graph::flops_of(g, node);
  // What the backward pass reads of the forward pass must be kept.
  std::vector<bool> kept(g.tensors().size(), false);
  for (const auto& node : g.nodes())
    if (node.phase == graph::Phase::Backward)
      for (auto t : node.inputs)
        if (t != graph::TensorId::None && g[t].role == graph::TensorRole::Activation && g[t].producer != graph::NodeId::None &&
            g[g[t].producer].phase == graph::Phase::Forward)
          kept[graph::index(t)] = true;
  for (std::size_t t = 0; t < kept.size(); ++t)
    if (kept[t]) activations += graph::size_of(g.tensors()[t].type).value();
  std::int64_t trainable = 0;
  for (const auto& p : training.parameters) trainable += graph::element_count(g[p.value].type.shape);
  result["trainable_parameters"] = trainable;
  result["flops"] = Json{{"forward", flops[0]}, {"backward", flops[1]}};
  result["activation_bytes"] = activations;
}

/// Every reason once, with the first node that has it.
std::string text_of(const std::vector<graph::Misfit>& blocked_by, const graph::Graph& g) {
  std::vector<std::pair<const graph::Misfit*, std::set<graph::NodeId>>> reasons;
  for (const auto& m : blocked_by) {
    auto at = std::find_if(reasons.begin(), reasons.end(), [&](const auto& known) { return known.first->reason == m.reason; });
    if (at == reasons.end()) at = reasons.insert(reasons.end(), {&m, {}});
    at->second.insert(m.node);
  }
  return joined(reasons, "; ", [&](const auto& entry) {
    const auto others = entry.second.size() - 1;
    return g[entry.first->node].name + (others > 0 ? " and " + std::to_string(others) + " more" : "") + ": " + entry.first->reason;
  });
}

void add_dims(const graph::TrainingGraph& training, Json& result) {
  const graph::LogicalDims dims(training.graph);
  const auto single = graph::report_dims(training.graph, dims);
  const auto unblocked = std::count_if(single.begin(), single.end(), [](const graph::DimReport& d) { return d.blocked_by.empty(); });
  result["dims_total"] = Json{{"dims", single.size()}, {"unblocked", unblocked}};
  Json list = Json::array();
  for (const auto& d : graph::group_dims(training.graph, dims))
    list.push_back({{"name", d.name},
                    {"size", d.size},
                    {"splittable", d.splittable},
                    {"blocked_by", text_of(d.blocked_by, training.graph)},
                    {"count", d.members.size()},
                    {"first", d.members.front()}});
  result["dims"] = list;
}

/// Of nodes with the same answer.
struct KernelRows {
  /// Operator, implementation, engine, why not a faster one, by what it was chosen of which.
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  struct Row {
    std::int64_t nodes = 0;
    Bytes workspace;                        ///< the largest
    std::map<std::string, double> seconds;  ///< by implementation, of all nodes together, where they were timed
  };
  std::map<Key, Row> rows;

  void add(const plan::LocalNode& node, const plan::KernelOffer& offer, const std::vector<std::string>& others) {
    const auto by = others.empty() ? "" : (offer.timed.empty() ? "rule, " : "time, ") + joined(others, " and ") + " would do";
    auto& row = rows[{std::string(node.schema.name), offer.implementation, offer.engine, offer.why, by}];
    ++row.nodes;
    row.workspace = std::max(row.workspace, offer.workspace);
    for (const auto& kernel : offer.timed) row.seconds[kernel.implementation] += kernel.seconds.value();
  }
};

/// "rule, onednn:convolution would do", or "time: 12.3 ms against 20.1 ms by onednn:convolution, 8 nodes together".
std::string chosen_by(const KernelRows::Key& key, const KernelRows::Row& row) {
  if (row.seconds.size() < 2) return std::get<4>(key);
  const auto& implementation = std::get<1>(key);
  std::vector<std::string> others;
  for (const auto& [other, seconds] : row.seconds)
    if (other != implementation) others.push_back(to_text(Seconds(seconds)) + " by " + other);
  return "time: " + to_text(Seconds(row.seconds.at(implementation))) + " against " + joined(others, " and ") +
         (row.nodes > 1 ? ", " + std::to_string(row.nodes) + " nodes together" : "");
}

/// What runs a node, beside what else would.
void add_offers(const plan::Backend& backend, const plan::LocalNode& node, const plan::KernelOffer& offer, KernelRows& rows) {
  std::vector<std::string> others;
  for (const auto& kernel : offer.timed)
    if (kernel.implementation != offer.implementation) others.push_back(kernel.implementation);
  if (!offer.timed.empty()) return rows.add(node, offer, others);
  const auto offers = backend.offers(node);
  for (const auto& other : std::span(offers).subspan(1)) others.push_back(other.implementation);
  rows.add(node, offers.front(), others);
}

/// What runs every operator of a training step, on this machine or on the device that is asked about. Adds what is to be said of it, such
/// as what a 16-bit step computes in f32, to the warnings.
Json kernels_json(const InspectOptions& o, std::vector<std::string>& warnings) {
  std::vector<std::string> said;
  const auto training = load_training(o.model, said);
  for (auto& warning : said)
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(std::move(warning));
  const auto device = o.device.empty() ? std::nullopt : std::optional(platforms::device_called(o.device));
  auto wanted = !o.backend.empty() ? o.backend : device ? "cuda" : "auto";
  if (wanted == "auto" && element_type(o.model) == DType::F64) wanted = "reference";
  const auto backend = kernels_of({wanted, o.model.dtype == "tf32", device ? &*device : nullptr, o.machine}, warnings);
  KernelRows kernels;
  const plan::ListeningBackend listening(
      *backend, [&](const plan::LocalNode& node, const plan::KernelOffer& offer) { add_offers(*backend, node, offer, kernels); });
  plan::LoweringOptions options;
  options.threads = threads_here();
  const auto program = plan::lower(training, plan::Plan{}, listening, options);
  std::map<std::string, std::int64_t> not_fused;
  for (const auto& n : program.sharding->not_fused) ++not_fused[n.reason];
  Json list = Json::array();
  for (const auto& [key, row] : kernels.rows) {
    const auto& [op, implementation, engine, why, by] = key;
    list.push_back({{"op", op},
                    {"implementation", implementation},
                    {"engine", engine},
                    {"workspace_bytes", row.workspace.value()},
                    {"nodes", row.nodes},
                    {"chosen_by", chosen_by(key, row)},
                    {"why", why}});
  }
  for (const auto& [reason, count] : not_fused)
    list.push_back({{"op", "Attention"},
                    {"implementation", "its nodes"},
                    {"engine", ""},
                    {"workspace_bytes", 0},
                    {"nodes", count},
                    {"chosen_by", ""},
                    {"why", reason}});
  return list;
}

Json damage_json(const LoadedModel& loaded) {
  Json list = Json::array();
  for (const auto& d : loaded.damage) list.push_back({{"tensor", d.tensor}, {"what", d.what}, {"detail", d.detail}, {"undone", d.undone}});
  return list;
}

Json untrainable_json(const LoadedModel& loaded, const graph::TrainingGraph* training) {
  Json list = Json::array();
  for (const auto& text : loaded.unknown_text) {
    std::istringstream in(text);
    std::string node, op, reason;
    std::getline(in, node);
    std::getline(in, op);
    std::getline(in, reason);
    list.push_back({{"node", node}, {"op", op}, {"reason", reason}});
  }
  if (training != nullptr)
    for (const auto& u : training->untrainable)
      list.push_back(
          {{"node", training->graph[u.node].name}, {"op", std::string(graph::schema(training->graph[u.node]).name)}, {"reason", u.reason}});
  return list;
}

/// The training step; nothing, with a warning, where the model cannot be trained.
std::optional<graph::TrainingGraph> training_of(const ModelOptions& model, const LoadedModel& loaded, std::vector<std::string>& warnings) {
  if (!loaded.unknown_text.empty()) return std::nullopt;
  std::optional<graph::TrainingGraph> training;
  try {
    auto options = roles_asked_for(model, loaded.damage);
    options.loss = model.loss;
    training = graph::build_training_graph(graph::with_initial_values(loaded.graph), options);
    warnings.insert(warnings.end(), training->warnings.begin(), training->warnings.end());
  } catch (const Error& error) {
    if (error.status() == ExitStatus::Internal || !model.loss.empty()) throw;  // a loss that was asked for must be possible
    warnings.push_back(std::string("no training graph: ") + error.what());
    return std::nullopt;
  }
  if (model.batch && training->batch != *model.batch)
    throw BadInput(model.model, "the model is written for a batch of " + std::to_string(training->batch) + ", not " +
                                    std::to_string(*model.batch) + "; export it with a dynamic batch");
  return training;
}

/// Nobody where passes are not shown: what they change is noted for listeners alone.
formats::ImportListener listener_for(const InspectOptions& o, std::vector<formats::ImportPassResult>& passes) {
  if (!o.passes) return {};
  return [&passes](const formats::ImportPassResult& result) { passes.push_back(result); };
}

/// Tables of passes are an answer of their own in text; JSON has both.
void refuse_beside_passes(const InspectOptions& o) {
  const auto refuse = [](const std::string& option) {
    throw WrongUsage(option, "changes nothing of --passes, which shows the import alone; leave one of them out, or use --format json");
  };
  for (const auto& [option, asked] : {std::pair{"--tensors", o.tensors}, {"--dims", o.dims}, {"--kernels", o.kernels}})
    if (asked) refuse(option);
  for (const auto& option : o.model.typed)
    if (option != "batch" && option != "bind") refuse("--" + option);
}

/// Adds what is to be said of it to the warnings.
Json model_json(const InspectOptions& o, const LoadedModel& loaded, std::vector<std::string>& warnings) {
  Json result{{"schema", 1}, {"model", o.model.model}};
  result["inputs"] = list_json(loaded.graph, loaded.graph.inputs());
  result["outputs"] = list_json(loaded.graph, loaded.graph.outputs());
  add_parameters(loaded.graph, result);
  std::map<std::string, std::int64_t> operators;
  for (const auto& node : loaded.graph.nodes()) ++operators[std::string(graph::schema(node).name)];
  const auto training = training_of(o.model, loaded, warnings);
  if (training) add_costs(*training, result);
  result["operators"] = operators;
  result["recognized"] = loaded.recognized;
  result["untrainable"] = untrainable_json(loaded, training ? &*training : nullptr);
  result["unresolved"] = loaded.unresolved;
  result["damage"] = damage_json(loaded);
  if (o.tensors) {
    Json tensors = Json::object();
    for (const auto& [name, type] : loaded.tensors) tensors[name] = type_json(type);
    result["tensors"] = tensors;
  }
  if (o.dims && training) add_dims(*training, result);
  if (o.kernels && training) result["kernels"] = kernels_json(o, warnings);
  return result;
}

int inspect(const InspectOptions& o, Terminal& terminal) {
  if (o.kernels) require_kernels_for(o.model.dtype);
  const auto completeness = o.dims ? Completeness::Structure : Completeness::Inspected;
  if (o.passes && is_built(o.model.model))
    throw Refusal("--passes: " + o.model.model + " is built by Rehearsal itself; passes of import are of ONNX files");
  if (o.passes && !terminal.json()) refuse_beside_passes(o);
  std::vector<formats::ImportPassResult> passes;
  const auto loaded = load_model(o.model, completeness, listener_for(o, passes));
  if (o.passes && !terminal.json()) {
    print_import_passes(passes, terminal.out());
    return 0;
  }
  auto warnings = loaded.warnings;
  auto result = model_json(o, loaded, warnings);
  if (o.passes) result["passes"] = import_passes_json(passes);
  // In text they stand where every command's do.
  if (terminal.json()) result["warnings"] = warnings;
  if (!terminal.json())
    for (const auto& warning : warnings) terminal.warn(warning);
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_inspect(CLI::App& app) {
  auto o = std::make_shared<InspectOptions>();
  o->model.add_to(app);
  app.add_flag("--tensors", o->tensors, "type of every tensor");
  app.add_flag("--dims", o->dims, "logical dimensions, how far each can be split, and what blocks it");
  auto* kernels = app.add_flag("--kernels", o->kernels, "what runs every operator of a training step here, and why nothing faster does");
  app.add_flag("--passes", o->passes,
               "of a file: the passes that import it, what each leaves, and what it folded, dropped or recognized; in text that alone");
  app.add_option("--backend", o->backend, "whose kernels --kernels shows: " + kernels_here_names() + "; default: auto, with --device cuda");
  app.add_option("--device", o->device,
                 "show what would run on this NVIDIA GPU, which need not be here: h100, or another of `rehearse platform devices`")
      ->needs(kernels);
  app.add_option("--machine", o->machine,
                 "a calibration of this machine, by whose times kernels are chosen where several can run an operator")
      ->needs(kernels);
  // Kernels alone depend on how gradients are used, and on the type of elements.
  for (const char* option : {"--backend", "--dropout", "--optimizer", "--lr", "--lr-scaling", "--base-batch", "--momentum", "--nesterov",
                             "--betas", "--trust", "--eps", "--weight-decay", "--clip-norm", "--clip-value", "--loss-scale", "--dtype"})
    app.get_option(option)->needs(kernels);
  return [o](Terminal& terminal) { return inspect(*o, terminal); };
}

}  // namespace rehearsal::cli
