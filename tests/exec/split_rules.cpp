// What a row's labels promise: splitting an iteration dimension into blocks, running the kernel on each, and joining, adding or
// comparing the results gives what the whole gives. Every node of every gradient case is tried, forward and backward.

#include <algorithm>
#include <cmath>
#include <set>

#include "exec/play/interpreter.hpp"
#include "tests/catch.hpp"
#include "tests/exec/gradient_problem.hpp"

namespace rehearsal::exec {
namespace {

using graph::LabelKind;
using graph::Shape;
using graph::TensorId;
using Numbers = std::vector<double>;

/// A tensor as doubles, with the labels of its dimensions.
struct Labelled {
  graph::TensorType type;
  graph::TensorLabels labels;
  Numbers values;
};

struct Cut {
  int label;
  std::int64_t first, last;
};

/// Indices of a dimension that fall into the block of `cut`: all, when it does not have the label.
std::vector<std::int64_t> kept_indices(const graph::DimLabels& factors, std::int64_t size, const Cut& cut) {
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < size; ++i) {
    std::int64_t inner = 1;
    bool inside = true;
    for (std::size_t f = factors.size(); f-- > 0;) {
      const std::int64_t at = i / inner % factors[f].size;
      inside = inside && (factors[f].label != cut.label || (at >= cut.first && at < cut.last));
      inner *= factors[f].size;
    }
    if (inside) kept.push_back(i);
  }
  return kept;
}

bool has_label(const graph::TensorLabels& labels, int label) {
  return std::any_of(labels.begin(), labels.end(), [label](const auto& dim) {
    return std::any_of(dim.begin(), dim.end(), [label](const auto& f) { return f.label == label; });
  });
}

/// The block of a tensor, and the numbers of its elements in the whole.
struct Block {
  Shape shape, origin;
  std::vector<std::int64_t> elements;

  Block(const Labelled& whole, const Cut& cut) : elements{0} {
    for (std::size_t d = 0; d < whole.type.shape.size(); ++d) {
      const auto kept = kept_indices(whole.labels[d], whole.type.shape[d], cut);
      shape.push_back(static_cast<std::int64_t>(kept.size()));
      origin.push_back(kept.empty() ? 0 : kept.front());
      std::vector<std::int64_t> next;
      for (const std::int64_t e : elements) {
        for (const std::int64_t i : kept) next.push_back(e * whole.type.shape[d] + i);
      }
      elements = std::move(next);
    }
  }
};

graph::Contents stored_as(DType type, std::span<const std::byte> bytes) {
  return {type, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())}};
}

/// One node with its operands and results as the whole has them.
struct Whole {
  const graph::Node& node;
  std::vector<std::optional<Labelled>> inputs, outputs;

  Whole(const graph::Graph& graph, const graph::Node& n, const graph::SplitRule& rule, const Interpreter& values) : node(n) {
    const auto add = [&](std::vector<std::optional<Labelled>>& to, const std::vector<TensorId>& ids,
                         const std::vector<graph::TensorLabels>& labels) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        to.push_back(ids[i] == TensorId::None ? std::nullopt
                                              : std::optional(Labelled{graph[ids[i]].type, labels[i], values.get_reals(ids[i])}));
      }
    };
    REQUIRE(rule.inputs.size() == n.inputs.size());
    REQUIRE(rule.outputs.size() == n.outputs.size());
    add(inputs, n.inputs, rule.inputs);
    add(outputs, n.outputs, rule.outputs);
  }
};

/// Buffers and views of the blocks of all operands or results.
struct Local {
  std::vector<std::optional<graph::TensorType>> types;
  std::vector<std::optional<Block>> blocks;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> views;

  Local(const std::vector<std::optional<Labelled>>& wholes, const Cut& cut)
      : types(wholes.size()), blocks(wholes.size()), bytes(wholes.size()), views(wholes.size()) {
    for (std::size_t i = 0; i < wholes.size(); ++i) {
      if (!wholes[i]) continue;
      blocks[i].emplace(*wholes[i], cut);
      types[i] = graph::TensorType{wholes[i]->type.dtype, blocks[i]->shape};
      Numbers numbers;
      for (const std::int64_t e : blocks[i]->elements) numbers.push_back(wholes[i]->values[static_cast<std::size_t>(e)]);
      bytes[i].resize(std::max<std::size_t>(1, numbers.size() * size_of(types[i]->dtype)));
      graph::read_into(stored_as(DType::F64, std::as_bytes(std::span(numbers))), blocks[i]->shape, types[i]->dtype, {}, bytes[i].data());
      views[i] = {.data = bytes[i].data(), .type = &*types[i], .origin = &blocks[i]->origin, .global_shape = &wholes[i]->type.shape};
    }
  }

  void clear(int i) { std::fill(bytes[static_cast<std::size_t>(i)].begin(), bytes[static_cast<std::size_t>(i)].end(), std::byte{0}); }
  void clear() {
    for (auto& buffer : bytes) std::fill(buffer.begin(), buffer.end(), std::byte{0x7F});
  }
  [[nodiscard]] Numbers numbers(std::size_t i) const {
    const auto count = static_cast<std::size_t>(graph::element_count(blocks[i]->shape)) * size_of(types[i]->dtype);
    return graph::read_reals(stored_as(types[i]->dtype, std::span(bytes[i]).first(count)), blocks[i]->shape, 0, 0);
  }
};

double combined(LabelKind kind, double a, double b) {
  if (kind == LabelKind::LogSumExp) return std::log(std::exp(a) + std::exp(b));
  return kind == LabelKind::Sum ? a + b : kind == LabelKind::Max ? std::max(a, b) : std::min(a, b);
}

/// Results of one block joined to those of the blocks before it; `filled` counts the blocks before.
void join(std::vector<Numbers>& joined, const Local& results, const Whole& whole, std::pair<const Cut&, LabelKind> how, int filled) {
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    if (!whole.outputs[i]) continue;
    const Numbers numbers = results.numbers(i);
    const bool labelled = has_label(whole.outputs[i]->labels, how.first.label);
    for (std::size_t e = 0; e < numbers.size(); ++e) {
      double& target = joined[i][static_cast<std::size_t>(results.blocks[i]->elements[e])];
      const bool reduces = !labelled && how.second != LabelKind::Parallel && filled > 0;
      if (!labelled && how.second == LabelKind::Parallel && filled > 0) CHECK(target == Approx(numbers[e]));
      target = reduces ? combined(how.second, target, numbers[e]) : numbers[e];
    }
  }
}

std::vector<Numbers> run_in_blocks(const Whole& whole, int label, LabelKind kind, std::int64_t size) {
  std::vector<Numbers> joined;
  for (const auto& output : whole.outputs) joined.emplace_back(output ? output->values.size() : 0);
  const std::int64_t middle = (size + 2) / 3;  // uneven on purpose
  int filled = 0;
  for (const Cut cut : {Cut{label, 0, middle}, Cut{label, middle, size}}) {
    Local inputs(whole.inputs, cut), outputs(whole.outputs, cut);
    outputs.clear();
    const int addend = graph::schema(whole.node).addend;
    const bool has_addend = addend >= 0 && addend < static_cast<int>(whole.inputs.size()) && whole.inputs[static_cast<std::size_t>(addend)];
    if (kind == LabelKind::Sum && filled > 0 && has_addend) inputs.clear(addend);  // one block adds it
    const std::vector<plan::Format> plain(std::max(inputs.types.size(), outputs.types.size()), plan::Format::Plain);
    const auto kernel =
        make_reference_kernel({graph::schema(whole.node), whole.node.attributes, inputs.types, outputs.types,
                               std::span(plain).first(inputs.types.size()), std::span(plain).first(outputs.types.size()), 1});
    kernel->run(inputs.views, outputs.views, {});
    join(joined, outputs, whole, {cut, kind}, filled++);
  }
  return joined;
}

/// Sizes of the labels that occur, by label.
std::vector<std::int64_t> label_sizes(const graph::SplitRule& rule) {
  std::vector<std::int64_t> sizes(rule.kinds.size(), 1);
  for (const auto* tensors : {&rule.inputs, &rule.outputs}) {
    for (const auto& tensor : *tensors) {
      for (const auto& dim : tensor) {
        for (const auto& factor : dim) {
          if (factor.label >= 0) sizes[static_cast<std::size_t>(factor.label)] = factor.size;
        }
      }
    }
  }
  return sizes;
}

void check_node(const graph::Graph& graph, const graph::Node& node, const Interpreter& values) {
  const graph::NodeTypes types(graph, node);
  const graph::SplitRule rule = graph::schema(node).labels(types.view());
  const Whole whole(graph, node, rule, values);
  const auto sizes = label_sizes(rule);
  for (std::size_t label = 0; label < sizes.size(); ++label) {
    if (sizes[label] < 2 || rule.kinds[label] == LabelKind::Opaque || rule.kinds[label] == LabelKind::Window) continue;
    INFO(graph::schema(node).name << " " << node.attributes.to_text() << ", label " << label);
    const auto joined = run_in_blocks(whole, static_cast<int>(label), rule.kinds[label], sizes[label]);
    for (std::size_t i = 0; i < joined.size(); ++i) {
      double worst = 0;
      for (std::size_t e = 0; e < joined[i].size(); ++e) {
        const double difference = std::abs(joined[i][e] - whole.outputs[i]->values[e]);
        worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
      }
      CHECK(worst <= (whole.outputs[i]->type.dtype == DType::F32 ? 1e-6 : 1e-12));
    }
  }
}

/// Calls check_node for every node whose row has labels; adds the rows' names to `seen`.
void check_graph(const graph::Graph& graph, const Interpreter& values, std::set<std::string, std::less<>>& seen) {
  for (const graph::Node& node : graph.nodes()) {
    if (!graph::schema(node).labels) continue;
    seen.insert(std::string(graph::schema(node).name));
    check_node(graph, node, values);
  }
}

}  // namespace

TEST_CASE("blocks of every split give what the whole gives") {
  std::set<std::string, std::less<>> seen;
  for (const GradientCase& one : all_gradient_cases()) {
    const GradientProblem problem(one);
    Interpreter interpreter(problem.graph());
    problem.set_inputs(interpreter);
    interpreter.run();
    check_graph(problem.graph(), interpreter, seen);
  }
  for (const graph::OpSchema& row : graph::op_table()) {
    if (row.labels && (row.gradient || row.name.ends_with("Grad"))) {
      INFO(row.name << " has labels, but no case splits it");
      CHECK(seen.contains(row.name));
    }
  }
}

}  // namespace rehearsal::exec
