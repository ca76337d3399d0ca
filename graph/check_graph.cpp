#include "graph/check_graph.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "base/error.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

class GraphCheck {
 public:
  GraphCheck(const Graph& graph, std::string_view pass) : g_(graph), pass_(pass) {}

  void run() const {
    for (std::size_t t = 0; t < g_.tensors().size(); ++t) check_tensor(static_cast<TensorId>(t));
    for (const TensorId t : g_.inputs())
      if (!is_there(t) || g_[t].role != TensorRole::Input) fail("an input of the graph is no tensor of that role");
    for (const TensorId t : g_.outputs())
      if (!is_there(t)) fail("an output of the graph is not there");
    std::unordered_set<std::string> names;
    for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
      if (!names.insert(g_.nodes()[n].name).second) fail("two nodes have the name '" + g_.nodes()[n].name + "'");
      check_operands(n);
      check_results(n);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InternalError("after '" + std::string(pass_) + "': " + what); }
  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    fail("node '" + node.name + "' (" + std::string(schema(node).name) + ") " + what);
  }

  [[nodiscard]] bool is_there(TensorId t) const { return t != TensorId::None && index(t) < g_.tensors().size(); }

  void check_tensor(TensorId t) const {
    const Tensor& tensor = g_[t];
    const std::string called = "tensor '" + tensor.name + "' ";
    if (g_.find(tensor.name) != t) fail(called + "is not found by its name, or shares it");
    if (tensor.role == TensorRole::Input && (tensor.producer != NodeId::None || std::ranges::count(g_.inputs(), t) != 1))
      fail(called + "has the role of an input, and is none");
    if (tensor.stored_in != TensorId::None && (!is_there(tensor.stored_in) || g_[tensor.stored_in].type != tensor.type))
      fail(called + "overwrites what is not there, or of another type");
    if (tensor.producer == NodeId::None) return;
    if (index(tensor.producer) >= g_.nodes().size() || std::ranges::count(g_[tensor.producer].outputs, t) != 1)
      fail(called + "names a node that does not produce it");
  }

  void check_operands(std::size_t n) const {
    for (const TensorId t : g_.nodes()[n].inputs) {
      if (t == TensorId::None) continue;
      if (!is_there(t)) fail(g_.nodes()[n], "reads what is not there");
      const NodeId producer = g_[t].producer;
      if (producer != NodeId::None && index(producer) >= n) fail(g_.nodes()[n], "reads '" + g_[t].name + "', which comes later");
    }
  }

  void check_results(std::size_t n) const {
    const Node& node = g_.nodes()[n];
    const NodeTypes known(g_, node);
    const auto types = schema(node).infer({known.view().inputs, {}, node.attributes});
    if (node.outputs.size() > types.size()) fail(node, "has more results than its row");
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorId t = node.outputs[i];
      if (t == TensorId::None) continue;
      if (!is_there(t) || index(g_[t].producer) != n) fail(node, "has a result that names another producer");
      if (g_[t].type != types[i])
        fail(node, "makes '" + g_[t].name + "' of shape " + to_text(types[i].shape) + ", which has " + to_text(g_[t].type.shape) +
                       " or another element type");
    }
  }

  const Graph& g_;
  std::string_view pass_;
};

}  // namespace

void check_graph(const Graph& graph, std::string_view after_pass) { GraphCheck(graph, after_pass).run(); }

}  // namespace rehearsal::graph
