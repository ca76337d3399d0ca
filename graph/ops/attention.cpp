#include "graph/ops/attention.hpp"

#include "base/error.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::string_view kAttentionNoGradient = "written by lowering, behind all gradients";
constexpr std::size_t kIntegersOfStep = 3;

Shape batch_of(const Shape& shape) {
  if (shape.size() < 2) throw BadInput("queries, keys and values need rows and columns, not " + to_text(shape));
  return {shape.begin(), shape.end() - 2};
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw BadInput(otherwise);
}

std::vector<AttentionStep> steps_of(const Attributes& attributes, std::size_t others) {
  const auto integers = attributes.integers("steps");
  const auto numbers = attributes.numbers("numbers");
  require(integers.size() == kIntegersOfStep * numbers.size(), "attribute 'steps' must have three integers for each of 'numbers'");
  std::vector<AttentionStep> steps;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t* step = &integers[kIntegersOfStep * i];
    require(step[0] >= 0 && step[0] <= static_cast<int>(AttentionStep::Kind::HideWhere), "attribute 'steps' names no kind of step");
    const auto kind = static_cast<AttentionStep::Kind>(step[0]);
    const bool reads = kind >= AttentionStep::Kind::Add;
    require(reads ? step[1] >= 0 && step[1] < static_cast<std::int64_t>(others) : step[1] == -1,
            "attribute 'steps' names operand " + std::to_string(step[1]) + " of " + std::to_string(others));
    steps.push_back({kind, numbers[i], static_cast<int>(step[1]), step[2] != 0});
  }
  return steps;
}

/// Types of dq, dk, dv and of wanted gradients, in the order of the steps.
std::vector<TensorType> infer_gradient(const NodeView& node) {
  const auto p = attention_problem(node, 1);
  const auto whole = [&](const TensorType& of) {
    TensorType type = of;
    type.shape = p.batch;
    type.shape.insert(type.shape.end(), of.shape.end() - 2, of.shape.end());
    return type;
  };
  std::vector<TensorType> types{whole(node.input(1)), whole(node.input(2)), whole(node.input(3))};
  for (const auto& step : p.steps)
    if (step.differentiated) types.push_back(node.input(4 + static_cast<std::size_t>(step.operand)));
  return types;
}

std::vector<TensorType> infer_attention(const NodeView& node) {
  const auto p = attention_problem(node, 0);
  Shape shape = p.batch;
  shape.insert(shape.end(), {p.rows, p.width});
  return {{node.input(0).dtype, std::move(shape)}};
}

/// Exponentials and steps, of each of them about one operation, and of an exponential about as many as elsewhere (softmax).
double elementwise_flops(const AttentionProblem& p) { return 9.0 + static_cast<double>(p.steps.size()) + (p.ratio > 0 ? 2 : 0); }

/// 2 products forward; backward the scores again and 4 more. Of scores, nothing moves.
template <std::size_t kQueries>
Work work_of_attention(const NodeView& node) {
  const auto p = attention_problem(node, kQueries);
  const double pairs = static_cast<double>(p.matrices()) * static_cast<double>(p.rows) * static_cast<double>(p.keys);
  const auto depth = static_cast<double>(p.depth), width = static_cast<double>(p.width);
  const double forward = 2 * (depth + width) + elementwise_flops(p), backward = 2 * (3 * depth + 2 * width) + 1.5 * elementwise_flops(p);
  return {Flops(pairs * (kQueries == 0 ? forward : backward)), traffic(node)};
}

constexpr OpSchema kAttentionRows[] = {
    {.name = "Attention",
     .description = "softmax of scaled and masked products of queries and keys, and by it a mean of values: in blocks of rows",
     .family = CostFamily::MatMul,
     .traits = Trait::Random | Trait::Positional,
     .infer = infer_attention,
     .work = work_of_attention<0>,
     .no_gradient = kAttentionNoGradient},
    {.name = "AttentionGrad",
     .description = "gradients of Attention by queries, keys, values and added biases; scores and weights are recomputed",
     .family = CostFamily::MatMul,
     .traits = Trait::Random | Trait::Positional,
     .infer = infer_gradient,
     .work = work_of_attention<1>,
     .no_gradient = kAttentionNoGradient},
};

}  // namespace

AttentionProblem attention_problem(const NodeView& node, std::size_t queries) {
  require(node.inputs.size() >= queries + 3, "queries, keys and values are needed");
  require_all(node);
  for (std::size_t i = 0; i < queries + 3; ++i) require_float(node, i);
  const Shape &q = node.input(queries).shape, &k = node.input(queries + 1).shape, &v = node.input(queries + 2).shape;
  AttentionProblem p;
  p.batch = broadcast(batch_of(q), batch_of(k));
  const Shape batch_of_values = batch_of(v);
  p.keys_last = node.attributes.integer("keys_last", 0) != 0;
  const auto guard = node.attributes.integer("guarded", 0);
  require(guard >= 0 && guard <= 2, "attribute 'guarded' must be 0, 1 or 2");
  p.guard = static_cast<AttentionProblem::Guard>(guard);
  p.rows = q[q.size() - 2], p.depth = q.back();
  p.keys = p.keys_last ? k.back() : k[k.size() - 2];
  p.width = v.back();
  require((p.keys_last ? k[k.size() - 2] : k.back()) == p.depth, "queries " + to_text(q) + " and keys " + to_text(k) + " do not multiply");
  require(v[v.size() - 2] == p.keys && broadcast(p.batch, batch_of_values) == p.batch,
          "values " + to_text(v) + " do not suit " + std::to_string(p.keys) + " keys of " + to_text(p.batch));
  p.causal = node.attributes.integer("causal", 0) != 0;
  p.steps = steps_of(node.attributes, node.inputs.size() - queries - 3);
  p.ratio = node.attributes.has("stream") ? node.attributes.number("ratio", 0.5) : 0;
  p.stream = node.attributes.integer("stream", 0);
  return p;
}

std::int64_t AttentionStrides::offset(std::int64_t number, const Shape& batch_shape) const {
  std::int64_t at = 0;
  for (std::size_t d = batch_shape.size(); d-- > 0; number /= batch_shape[d]) at += number % batch_shape[d] * batch[d];
  return at;
}

AttentionStrides attention_strides(const AttentionProblem& p, const Shape& operand, bool matrix) {
  Shape scores = p.batch;
  const std::size_t own = operand.size() - (matrix ? 2 : 0), all = p.batch.size() + (matrix ? 0 : 2);
  if (!matrix) scores.insert(scores.end(), {p.rows, p.keys});
  require(own <= all, "an operand of shape " + to_text(operand) + " has more dimensions than the scores");
  AttentionStrides strides{std::vector<std::int64_t>(p.batch.size()), 0, 0};
  std::int64_t step = matrix ? operand[own] * operand[own + 1] : 1;
  for (std::size_t d = own; d-- > 0; step *= operand[d]) {
    const std::size_t at = d + all - own;
    require(operand[d] == scores[at] || operand[d] == 1,
            "an operand of shape " + to_text(operand) + " does not suit scores of " + to_text(scores));
    const std::int64_t stride = operand[d] == 1 ? 0 : step;
    if (at < p.batch.size())
      strides.batch[at] = stride;
    else
      (at == p.batch.size() ? strides.row : strides.key) = stride;
  }
  return strides;
}

std::span<const OpSchema> attention_ops() { return kAttentionRows; }

}  // namespace rehearsal::graph
