// Logical dimensions written out, to be read: of small models what each dimension is called and used for, how far it can be split and which
// nodes stand in the way, what stored tensors are made of, and along which dimensions forward nodes can be split (docs/testing.md).
#include "tests/written_out.hpp"

#include <array>
#include <sstream>

#include "base/join.hpp"
#include "graph/dims/dims.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/graph/dims/models.hpp"

namespace rehearsal::graph {
namespace {

class WrittenDims {
 public:
  explicit WrittenDims(const Graph& graph) : graph_(graph), dims_(graph) {}

  std::string text() {
    text_ << "batch: " << joined(dims_.batch(), " ", [&](AtomId a) { return dims_.name(a); }) << "\n\nuses\n";
    for (const DimGroup& g : group_dims(graph_, dims_)) {
      text_ << "  " << g.name << ": " << size(g.size, g.splittable) << ", of " << joined(g.members) << blocks(g.blocked_by) << "\n";
      if (const auto all = dims_.named(g.name); all.size() != g.members.size()) text_ << "    named so: " << all.size() << "\n";
    }
    text_ << "\ndimensions\n";
    for (const DimReport& d : report_dims(graph_, dims_))
      text_ << "  " << d.name << ": " << size(d.size, d.splittable) << blocks(d.blocked_by) << "\n";
    text_ << "\nstored\n";
    for (std::size_t i = 0; i < graph_.tensors().size(); ++i)
      if (is_weight(graph_.tensors()[i].role)) stored(static_cast<TensorId>(i));
    text_ << "\nnodes\n";
    for (std::size_t n = 0; n < graph_.nodes().size() && graph_.nodes()[n].phase == Phase::Forward; ++n) node(static_cast<NodeId>(n));
    return text_.str();
  }

 private:
  static std::string size(std::int64_t size, std::int64_t splittable) {
    return std::to_string(size) + (splittable == size ? "" : ", split by " + std::to_string(splittable) + " at most");
  }
  std::string blocks(const std::vector<Misfit>& misfits) const {
    std::string text;
    for (const Misfit& m : misfits) text += "\n    whole in " + graph_[m.node].name + ": " + m.reason;
    return text;
  }
  /// Factors from outer to inner; of a sum its segments.
  [[nodiscard]] std::string text_of(const Factors& factors) const {
    return factors.empty() ? "1" : joined(dims_.atoms().leaves(factors), " x ", [&](AtomId a) { return text_of(a); });
  }
  [[nodiscard]] std::string text_of(AtomId a) const {
    if (!dims_.atoms().is_sum(a)) return dims_.name(a) + (dims_.atoms().is_window(a) ? "~" : "");
    return "(" + joined(dims_.atoms().segments(a), " + ", [&](const Factors& segment) { return text_of(segment); }) + ")";
  }
  void stored(TensorId t) {
    text_ << "  " << graph_[t].name << " " << to_text(graph_[t].type.shape) << ": ";
    text_ << joined(dims_.of(t), ", ", [&](const Factors& dimension) { return text_of(dimension); }) << "\n";
  }
  void node(NodeId id) {
    constexpr std::array kKinds{"", "sum ", "max ", "min ", "log-sum-exp ", "window ", "opaque "};
    text_ << "  " << graph_[id].name << ": " << joined(dims_.iteration(id), ", ", [&](const IterDim& way) {
      return kKinds.at(static_cast<std::size_t>(way.kind)) + dims_.name(way.atom) + (way.ranged ? " in ranges" : "") + " (" +
             places(way.inputs) + " -> " + places(way.outputs) + ")";
    }) << "\n";
    for (const Misfit& misfit : dims_.misfits())
      if (misfit.node == id) text_ << "    misfit: " << misfit.reason << "\n";
  }
  static std::string places(const std::vector<OperandDim>& places) {
    return joined(places, " ", [](const OperandDim& p) {
      return std::to_string(p.operand) + "." + std::to_string(p.dim) + (p.factor > 0 ? "." + std::to_string(p.factor) : "");
    });
  }

  const Graph& graph_;
  const LogicalDims dims_;
  std::ostringstream text_;
};

/// Slices and pieces that cut through factors, a group of channels that does not fit, one constant of two uses, layouts that turn round.
Graph of_odd_pieces() {
  test::Net n;
  const std::vector<std::int64_t> one{1}, three{3}, nine{9}, twelve{12};
  const TensorId x = n.input("x", {6, 4, 5}), flat = n.reshape(x, {6, 20}), shared = n.constant("shared", {6, 20});
  const TensorId through = n.op("Slice", {flat}, {{"starts", three}, {"ends", nine}, {"axes", one}});
  const TensorId strided = n.op("Slice", {flat}, {{"starts", one}, {"ends", twelve}, {"axes", one}, {"steps", three}});
  const std::vector<std::int64_t> last{-1}, before_first{-21}, minus_one{-1};  // turned round: as long, and other numbers in every place
  const TensorId reversed = n.op("Slice", {flat}, {{"starts", last}, {"ends", before_first}, {"axes", one}, {"steps", minus_one}});
  const auto pieces = n.b.add("Split", {flat}, {{"axis", std::int64_t{-1}}, {"split", std::vector<std::int64_t>{7, 5, 8}}});
  const TensorId joined_again = n.op("Concat", {pieces[2], pieces[0], through}, {{"axis", std::int64_t{1}}});
  const TensorId used_twice = n.op("Mul", {n.op("Add", {flat, shared}), shared});
  const TensorId turned = n.reshape(n.transpose(x, {2, 0, 1}), {5, 8, 3});
  const TensorId other = n.op("Concat", {n.reshape(turned, {10, 12}), n.reshape(used_twice, {10, 12})}, {{"axis", std::int64_t{0}}});
  const TensorId windows = n.op("Conv", {n.reshape(x, {1, 6, 20}), n.parameter("taps", {6, 2, 3})}, {{"group", std::int64_t{3}}});
  const TensorId picked = n.op("Gather", {n.constant("angles", {7, 4}), n.input("ids", {6}, DType::I64)});
  // 15 elements as 3 x 5 and as 5 x 3 have no factors in common, nor do 2 x 5 channels have 5 groups.
  const TensorId tall = n.reshape(n.input("tall", {3, 5, 6}), {15, 6}), wide = n.reshape(n.input("wide", {5, 3, 6}), {15, 6});
  const TensorId sums = n.op("Add", {tall, wide}), beside = n.op("Concat", {tall, wide}, {{"axis", std::int64_t{1}}});
  const TensorId channels = n.reshape(n.input("channels", {2, 5, 6}), {1, 10, 6});
  const TensorId beginning = n.op("Slice", {n.input("words", {2, 12})},
                                  {{"starts", std::vector<std::int64_t>{0}}, {"ends", std::vector<std::int64_t>{5}}, {"axes", one}});
  const TensorId end = n.op("Slice", {n.input("last", {2, 12})},
                            {{"starts", std::vector<std::int64_t>{-5}}, {"ends", std::vector<std::int64_t>{100}}, {"axes", one}});
  // A window over an axis of two factors slides along the outer one.
  const TensorId slid = n.op("Conv", {n.reshape(n.input("factors", {2, 3, 3, 4}), {2, 3, 12}), n.parameter("sliding", {4, 3, 1})});
  const TensorId grouped = n.op("Conv", {channels, n.parameter("grouped", {5, 2, 3})}, {{"group", std::int64_t{5}}});
  n.b.set_outputs({strided, reversed, joined_again, other, windows, picked, sums, beside, grouped, beginning, end, slid});
  return std::move(n.b).build();
}

Graph training_of(const std::string& model) {
  TrainingOptions options;
  options.optimizer.name = "adam";
  return build_training_graph(zoo::build(model), options).graph;
}

}  // namespace

TEST_CASE("Logical dimensions are those that are written out") {
  struct Written {
    const char *file, *model;
  };
  const auto [file, model] = GENERATE(values<Written>({
      {"odd", ""},
      {"gpt", "gpt?layers=1&hidden=16&heads=2&seq=6&vocab=11&batch=5"},
      {"moe", "moe?layers=1&hidden=16&heads=4&kv_heads=2&ffn=12&seq=8&vocab=19&experts=3&top_k=2&batch=5"},
      {"bert", "bert?layers=1&hidden=16&heads=2&seq=8&vocab=11&positions=16&predictions=5&batch=3"},
      {"dlrm", "dlrm?tables=3&rows=7&width=8&dense=4&batch=5"},
      {"unet3d", "unet3d?image=16&channels=3&max_channels=8&depth=2&batch=2"},
      {"resnet18", "resnet18?image=32&classes=7&batch=3"},
      {"vit", "vit?image=16&patch=4&layers=1&hidden=16&heads=2&classes=7&batch=3"},
      {"gnmt", "gnmt?layers=2&hidden=8&enc_seq=3&dec_seq=2&vocab=11&batch=3"},
  }));
  const Graph graph = *model == '\0' ? of_odd_pieces() : training_of(model);
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/" + file + ".txt", WrittenDims(graph).text());
}

}  // namespace rehearsal::graph
