// Weights that an exporter merged because their values are equal.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "formats/onnx/damage.hpp"
#include "formats/onnx/folded.hpp"
#include "formats/onnx/module_path.hpp"
#include "formats/onnx/notes.hpp"
#include "formats/onnx/plain_norms.hpp"

namespace rehearsal::formats {
namespace {

constexpr std::int64_t kLargestMerged = 1024;  ///< elements: torch.onnx merges no larger ones

constexpr std::int64_t kLongestBias = std::int64_t{1} << 20;

/// One operand that reads a stored tensor.
struct WeightUse {
  int node = 0, operand = 0;
};

/// Names that differ in numbers only: layers that were copied have equal random values.
std::string without_numbers(const std::string& name) {
  std::string result;
  for (const char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) result += c;
  }
  return result;
}

class Separation {
 public:
  explicit Separation(onnx::ModelProto& model) : graph_(*model.mutable_graph()), declarations_(model) {
    for (int i = 0; i < graph_.initializer_size(); ++i) stored_[graph_.initializer(i).name()] = i;
    std::set<std::string> present;
    for (const auto& input : graph_.input()) present.insert(input.name());
    for (const std::string& name : declarations_.parameters()) {
      if (!stored_.contains(name) && !present.contains(name)) missing_.insert(name);
    }
  }

  std::vector<ExporterDamage> run() && {
    folded_ = folded_tensors(graph_, declarations_);
    for (const auto& [tensor, origin] : folded_) elsewhere_.insert(origin.parameters.begin(), origin.parameters.end());
    for (auto& node : *graph_.mutable_node()) separate_by_call(node);
    if (missing_.empty()) return std::move(separated_);
    separate_views();
    find_uses();
    for (const auto& [key, uses] : uses_) {
      const auto& [order, module, merged, bias] = key;
      separate(module, merged, bias, uses);
    }
    separate_renamed();
    for (auto& node : *graph_.mutable_node()) restore_bias(node);
    return std::move(separated_);
  }

 private:
  /// What the model's call names and the file lacks takes the place of the weights that the call does not name, in its order.
  void separate_by_call(onnx::NodeProto& node) {
    std::vector<std::string> named;
    for (const std::string& argument : source_arguments(node)) add_named(argument, named);
    const auto is_named = [&](const std::string& name) { return std::find(named.begin(), named.end(), name) != named.end(); };
    std::vector<int> operands;
    const int weights = node.op_type() == "BatchNormalization" ? 3 : node.input_size();  // statistics behind them get copies anyway
    for (int i = 0; i < std::min(weights, node.input_size()); ++i) {
      const auto stored = stored_.find(node.input(i));
      const bool listed = stored != stored_.end() && declarations_.parameters().contains(node.input(i));
      if (listed && !is_named(node.input(i)) && may_be_merged(graph_.initializer(stored->second))) operands.push_back(i);
    }
    std::erase_if(named, [&](const std::string& name) {
      return elsewhere_.contains(name) || (stored_.contains(name) && !called_.contains(name)) || is_statistic(node, name);
    });
    if (operands.empty() || operands.size() != named.size()) return;
    for (std::size_t k = 0; k < named.size(); ++k) {
      const std::string merged = node.input(operands[k]);
      if (!is_uniform(merged) && without_numbers(named[k]) != without_numbers(merged)) continue;
      if (called_.insert(named[k]).second) add_copy(merged, named[k]);
      missing_.erase(named[k]);
      node.set_input(operands[k], named[k]);
    }
  }

  /// Running statistics of a normalization: buffers that its call names.
  [[nodiscard]] bool is_statistic(const onnx::NodeProto& node, const std::string& name) const {
    return node.op_type() == "BatchNormalization" && declarations_.buffers().contains(name);
  }

  /// The parameters and buffers of "[%p_weight, %x]".
  void add_named(const std::string& argument, std::vector<std::string>& named) const {
    for (std::size_t at = argument.find('%'); at != std::string::npos; at = argument.find('%', at + 1)) {
      const std::size_t end = argument.find_first_of(",)] ", at);
      const std::string* name = declarations_.called(argument.substr(at + 1, end == std::string::npos ? end : end - at - 1));
      if (name) named.push_back(*name);
    }
  }

  /// A part of a merged tensor, taken once for all modules: each module that lacks a tensor of that name gets one, and takes its own part.
  void separate_views() {
    std::map<std::string, std::vector<WeightUse>> readers;
    for (int n = 0; n < graph_.node_size(); ++n) {
      for (int i = 0; i < graph_.node(n).input_size(); ++i) readers[graph_.node(n).input(i)].push_back({n, i});
    }
    std::vector<std::pair<int, onnx::NodeProto>> added;
    for (int n = 0; n < graph_.node_size(); ++n) {
      if (!takes_part(graph_.node(n))) continue;
      const std::string merged = graph_.node(n).input(0), leaf = merged.substr(merged.rfind('.') + 1);
      for (const std::string& module : modules_reading(graph_.node(n), readers)) {
        const std::string name = module + "." + leaf;
        if (missing_.erase(name) == 0) continue;
        add_copy(merged, name);
        added.emplace_back(n, part_for(graph_.node(n), module, name, readers));
      }
    }
    for (auto entry = added.rbegin(); entry != added.rend(); ++entry) {
      *graph_.add_node() = std::move(entry->second);
      for (int at = graph_.node_size() - 1; at > entry->first + 1; --at) graph_.mutable_node()->SwapElements(at, at - 1);
    }
  }

  /// A Split or Slice of a listed parameter that other modules may share.
  [[nodiscard]] bool takes_part(const onnx::NodeProto& node) const {
    if ((node.op_type() != "Split" && node.op_type() != "Slice") || node.input_size() == 0) return false;
    const auto stored = stored_.find(node.input(0));
    return stored != stored_.end() && declarations_.parameters().contains(node.input(0)) && node.input(0).find('.') != std::string::npos &&
           may_be_merged(graph_.initializer(stored->second));
  }

  using Readers = std::map<std::string, std::vector<WeightUse>>;

  [[nodiscard]] std::set<std::string> modules_reading(const onnx::NodeProto& node, const Readers& readers) const {
    std::set<std::string> modules;
    for (const std::string& output : node.output()) {
      const auto uses = readers.find(output);
      if (uses == readers.end()) continue;
      for (const WeightUse& use : uses->second) modules.insert(module_path(graph_.node(use.node)));
    }
    return modules;
  }

  /// The node again, reading `name`; what reads it in the module reads the new one.
  onnx::NodeProto part_for(const onnx::NodeProto& node, const std::string& module, const std::string& name, const Readers& readers) {
    onnx::NodeProto part = node;
    part.set_name(node.name() + "/" + module);
    part.set_input(0, name);
    for (std::string& output : *part.mutable_output()) {
      const auto uses = readers.find(output);
      output += "/" + module;
      if (uses == readers.end()) continue;
      for (const WeightUse& use : uses->second)
        if (module_path(graph_.node(use.node)) == module) graph_.mutable_node(use.node)->set_input(use.operand, output);
    }
    return part;
  }

  /// By the first node of the module, so that names are given in the order in which modules run.
  using Key = std::tuple<int, std::string, std::string, bool>;

  void find_uses() {
    std::map<std::string, int> reads;
    for (const auto& node : graph_.node()) {
      for (const std::string& name : node.input()) ++reads[name];
    }
    std::map<std::tuple<std::string, std::string, bool>, int> first;
    for (int n = 0; n < graph_.node_size(); ++n) {
      const auto& node = graph_.node(n);
      const std::string module = module_path(node);
      if (module.empty()) continue;
      for (int i = 0; i < node.input_size(); ++i) {
        const auto stored = stored_.find(node.input(i));
        if (stored == stored_.end() || !declarations_.parameters().contains(node.input(i)) || reads[node.input(i)] < 2 ||
            !may_be_merged(graph_.initializer(stored->second)))
          continue;
        const bool bias = is_bias_operand(node, i);
        const int order = first.try_emplace({module, node.input(i), bias}, n).first->second;
        uses_[{order, module, node.input(i), bias}].push_back({n, i});
      }
    }
  }

  /// Matrices of copied layers have equal random values, and the exporter's name for the one that it kept transposed tells of no module:
  /// modules whose paths differ in numbers only, and that all lack a listed weight, get one each.
  void separate_renamed() {
    std::map<std::string, std::vector<WeightUse>> readers;
    const auto is_renamed = [&](const onnx::NodeProto& node, int i) {
      const auto stored = stored_.find(node.input(i));
      if (stored == stored_.end() || declarations_.parameters().contains(node.input(i))) return false;
      const auto origin = folded_.find(node.input(i));
      const bool product = i == 1 && (node.op_type() == "MatMul" || node.op_type() == "Gemm");
      return (product || (origin != folded_.end() && origin->second.is_view())) && may_be_merged(graph_.initializer(stored->second));
    };
    for (int n = 0; n < graph_.node_size(); ++n) {
      for (int i = 0; i < graph_.node(n).input_size(); ++i) {
        if (is_renamed(graph_.node(n), i)) readers[graph_.node(n).input(i)].push_back({n, i});
      }
    }
    for (const auto& [name, uses] : readers) {
      std::map<std::string, std::string> own{{module_path(graph_.node(uses[0].node)), name}};
      const std::string& first = own.begin()->first;
      const std::string pattern = without_numbers(first);
      if (first.empty() || !lacks_weight(first)) continue;
      for (const WeightUse& use : uses) {
        const std::string module = module_path(graph_.node(use.node));
        if (without_numbers(module) != pattern || !lacks_weight(module)) continue;
        const auto [known, is_new] = own.try_emplace(module, name + "/" + module);
        if (is_new) add_copy(name, known->second);
        if (is_new && folded_.contains(name)) declare_parameter(graph_, known->second);
        graph_.mutable_node(use.node)->set_input(use.operand, known->second);
      }
    }
  }

  /// A listed weight of the module itself, other than a bias, is not in the file.
  [[nodiscard]] bool lacks_weight(const std::string& module) const {
    const std::string prefix = module + ".";
    for (auto name = missing_.lower_bound(prefix); name != missing_.end() && name->starts_with(prefix); ++name) {
      const std::string leaf = name->substr(prefix.size());
      if (leaf.find('.') == std::string::npos && !is_bias_name(leaf)) return true;
    }
    return false;
  }

  [[nodiscard]] static bool may_be_merged(const onnx::TensorProto& tensor) {
    const auto type = dtype_from_onnx(tensor.data_type());
    if (!type || !is_float(*type) || tensor.dims_size() == 0) return false;
    std::int64_t count = 1;
    for (const std::int64_t d : tensor.dims()) {
      if (d <= 0 || d > kLargestMerged) return false;
      count *= d;
    }
    return count <= kLargestMerged;
  }

  /// Listed parameters of the module that the file lacks, those of its parts behind its own; its own alone where as many are wanted.
  [[nodiscard]] std::vector<std::string> candidates(const std::string& module, const std::string& merged, bool bias,
                                                    std::size_t wanted) const {
    std::vector<std::string> own, of_parts;
    const std::string prefix = module + ".";
    for (auto name = missing_.lower_bound(prefix); name != missing_.end() && name->starts_with(prefix); ++name) {
      const std::string leaf = name->substr(name->rfind('.') + 1);
      if (elsewhere_.contains(*name)) continue;
      const bool alike = is_uniform(merged) || without_numbers(*name) == without_numbers(merged);
      if (is_bias_name(leaf) == bias && alike) (name->find('.', prefix.size()) == std::string::npos ? own : of_parts).push_back(*name);
    }
    if (own.size() == wanted) return own;
    own.insert(own.end(), of_parts.begin(), of_parts.end());
    return own;
  }

  /// All elements are equal; a vector whose values were left out is taken for one.
  [[nodiscard]] bool is_uniform(const std::string& name) const {
    const auto& tensor = graph_.initializer(stored_.at(name));
    const auto same_bytes = [&](const std::string& bytes, std::size_t size) {
      for (std::size_t i = size; i < bytes.size(); ++i) {
        if (bytes[i] != bytes[i - size]) return false;
      }
      return true;
    };
    if (!tensor.raw_data().empty()) return same_bytes(tensor.raw_data(), size_of(*dtype_from_onnx(tensor.data_type())));
    if (tensor.float_data_size() > 0)
      return std::all_of(tensor.float_data().begin(), tensor.float_data().end(), [&](float x) { return x == tensor.float_data(0); });
    return tensor.dims_size() == 1;
  }

  void separate(const std::string& module, const std::string& merged, bool bias, const std::vector<WeightUse>& uses) {
    const bool own = merged.starts_with(module + ".");
    const std::size_t kept = own ? 1 : 0;
    const auto names = candidates(module, merged, bias, uses.size() - kept);
    if (names.empty() || (own && uses.size() == 1)) return;
    const bool one_each = names.size() + kept == uses.size();
    if (!one_each && own) return;  // used several times on purpose, as far as can be told
    for (std::size_t u = kept; u < uses.size(); ++u) {
      const std::string& name = one_each ? names[u - kept] : names[0];
      if (missing_.erase(name) > 0) add_copy(merged, name);
      graph_.mutable_node(uses[u].node)->set_input(uses[u].operand, name);
    }
  }

  /// Exporters leave out biases of zeros: a layer whose weight is there and whose listed bias is not has one.
  void restore_bias(onnx::NodeProto& node) {
    const std::string& op = node.op_type();
    if ((op != "Gemm" && op != "Conv") || node.input_size() != 2 || !node.input(1).ends_with(".weight")) return;
    const std::string name = node.input(1).substr(0, node.input(1).size() - 6) + "bias";
    const auto weight = stored_.find(node.input(1));
    if (!missing_.contains(name) || weight == stored_.end() || graph_.initializer(weight->second).dims_size() < 2) return;
    bool transposed = op == "Conv";
    for (const auto& attribute : node.attribute()) transposed = transposed || (attribute.name() == "transB" && attribute.i() != 0);
    const std::int64_t size = graph_.initializer(weight->second).dims(transposed ? 0 : 1);
    const int type = graph_.initializer(weight->second).data_type();
    const auto dtype = dtype_from_onnx(type);
    if (size < 1 || size > kLongestBias || !dtype || !is_float(*dtype)) return;
    auto& bias = *graph_.add_initializer();
    bias.set_name(name);
    bias.set_data_type(type);
    bias.add_dims(size);
    bias.set_raw_data(std::string(static_cast<std::size_t>(size) * size_of(*dtype), '\0'));
    node.add_input(name);
    missing_.erase(name);
    separated_.push_back({name, "restored", "the exporter left it out because it was 0; it is trained again", true});
  }

  void add_copy(const std::string& merged, const std::string& name) {
    onnx::TensorProto copy = graph_.initializer(stored_.at(merged));
    copy.set_name(name);
    *graph_.add_initializer() = std::move(copy);
    stored_[name] = graph_.initializer_size() - 1;
    const std::string stored = "the exporter stored it as '" + merged + "', which had the same values";
    const bool constant = declarations_.buffers().contains(name);
    separated_.push_back({name, constant ? "constant" : "merged", constant ? stored : stored + "; it is trained apart again", true});
  }

  onnx::GraphProto& graph_;
  Declarations declarations_;
  std::map<std::string, int> stored_;
  std::set<std::string> missing_;
  std::map<std::string, Origin> folded_;
  std::set<std::string> called_;     ///< parameters and buffers that were taken apart by the calls that name them
  std::set<std::string> elsewhere_;  ///< parameters that the exporter says it folded into other tensors
  std::map<Key, std::vector<WeightUse>> uses_;
  std::vector<ExporterDamage> separated_;
};

}  // namespace

std::vector<ExporterDamage> separate_merged(onnx::ModelProto& model) {
  std::vector<ExporterDamage> separated = separate_plain_norms(*model.mutable_graph(), Declarations(model));
  const auto weights = Separation(model).run();
  separated.insert(separated.end(), weights.begin(), weights.end());
  return separated;
}

}  // namespace rehearsal::formats
