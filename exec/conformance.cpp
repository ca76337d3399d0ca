#include "exec/conformance.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/short_number.hpp"
#include "exec/play/interpreter.hpp"
#include "graph/gradient.hpp"
#include "graph/training.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;
using Reals = std::vector<double>;

constexpr double kConformanceStep = 1e-5;  ///< of a finite difference, relative to the entry
constexpr double kAgreement = 1e-4;        ///< of a gradient with a central difference, relative to the larger one or 1
constexpr double kKink = 1e-3;             ///< one-sided differences further apart belong to a kink
constexpr std::int64_t kMostEntries = 48;  ///< tried of one input
constexpr double kMostWork = 4e8;          ///< floating-point operations of all runs together, about
constexpr std::uint64_t kWeightStream = 0x5eed;

std::string text_of(const graph::TensorType& type) { return std::string(name(type.dtype)) + graph::to_text(type.shape); }

void feed(Interpreter& interpreter, const graph::Graph& graph, const std::vector<Fed>& inputs) {
  for (const Fed& input : inputs) {
    const TensorId t = graph.find(input.tensor);
    if (t == TensorId::None) continue;  // nothing reads it
    if (graph[t].type.shape != input.value.type.shape)
      throw BadInput("input '" + input.tensor + "'",
                     "has shape " + graph::to_text(input.value.type.shape) + ", the model takes " + graph::to_text(graph[t].type.shape));
    interpreter.set_value(t, input.value);
  }
}

bool draws(const graph::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const graph::Node& node) { return has(graph::schema(node).traits, graph::Trait::Random); });
}

/// Equal as numbers: two NaN are, and infinities of one sign.
bool same(double result, double expected, Tolerance tolerance) {
  if (std::isnan(expected) || std::isinf(expected)) return std::isnan(expected) ? std::isnan(result) : result == expected;
  return std::abs(result - expected) <= tolerance.absolute + tolerance.relative * std::abs(expected);
}

struct ConformanceMoments {
  double mean = 0, deviation = 0;
};
template <class At>
ConformanceMoments moments_of(std::int64_t count, const At& at) {
  ConformanceMoments m;
  for (std::int64_t i = 0; i < count; ++i) m.mean += at(i) / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) m.deviation += (at(i) - m.mean) * (at(i) - m.mean) / static_cast<double>(count);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

/// Means of as many draws differ by four standard errors at most, once in 16000 times by more.
std::optional<std::string> statistics_difference(const graph::Value& result, const graph::Value& expected) {
  const std::int64_t count = expected.count();
  const ConformanceMoments own = moments_of(count, [&](std::int64_t i) { return result.real(i); }),
                           other = moments_of(count, [&](std::int64_t i) { return expected.real(i); });
  const double error = (own.deviation + other.deviation) / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, count)));
  if (std::abs(own.mean - other.mean) <= 4 * error + 1e-6) return std::nullopt;
  return "has mean " + short_number(own.mean, 9) + ", expected about " + short_number(other.mean, 9);
}

std::optional<std::string> value_difference(const graph::Value& result, const graph::Value& expected, Tolerance tolerance) {
  // Where a chain of 16-bit operations rounds is not specified, nor whether it rounds or truncates: two units in the last place,
  // which of a number's 8 significant bits (bf16) is 2^-6 of it at most, of 11 (f16) 2^-9.
  if (expected.type.dtype == DType::BF16) tolerance.relative = std::max(tolerance.relative, 0x1p-6);
  if (expected.type.dtype == DType::F16) tolerance.relative = std::max(tolerance.relative, 0x1p-9);
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    const bool exact = expected.integral();
    const bool equal = exact ? result.integer(i) == expected.integer(i) : same(result.real(i), expected.real(i), tolerance);
    if (!equal)
      return "element " + std::to_string(i) + " is " + short_number(result.real(i), 9) + ", not " + short_number(expected.real(i), 9);
  }
  return std::nullopt;
}

// Gradients

/// A graph in f64 with its loss and gradients.
struct Differentiated {
  graph::Graph graph;
  TensorId loss = TensorId::None;
  std::vector<std::string> inputs;  ///< that are differentiated
  std::vector<TensorId> gradients;  ///< None where nothing flows
  std::vector<graph::Untrainable> blocked;
};

/// The sum of all floating-point outputs times fixed numbers between 0.5 and 1.5.
TensorId weighted_sum(graph::GraphBuilder& builder) {
  TensorId loss = TensorId::None;
  std::uint64_t stream = kWeightStream;
  const auto outputs = builder.so_far().outputs();
  for (const TensorId t : outputs) {
    const graph::TensorType type = builder.type(t);
    if (!is_float(type.dtype) || graph::element_count(type.shape) == 0 || builder[t].producer == graph::NodeId::None) continue;
    Reals weights;
    for (std::int64_t i = 0; i < graph::element_count(type.shape); ++i)
      weights.push_back(0.5 + random_uniform(1, stream, static_cast<std::uint64_t>(i)));
    ++stream;
    const TensorId w = builder.add_constant(builder.fresh_name("weights"), graph::Value::of_reals(weights, type.shape, type.dtype));
    TensorId part = builder.add1("ReduceSum", {builder.add1("Mul", {t, w})}, {{"keepdims", std::int64_t{0}}});
    loss = loss == TensorId::None ? part : builder.add1("Add", {loss, part});
  }
  return loss;
}

/// Whether an input reaches an output through floating-point tensors, and through operators that are not constant in pieces.
bool reaches(const graph::Graph& graph, const std::vector<TensorId>& inputs) {
  std::set<TensorId> reached(inputs.begin(), inputs.end());
  for (const graph::Node& node : graph.nodes()) {
    const auto reads = [&](TensorId t) { return reached.contains(t); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), reads)) continue;
    for (const TensorId t : node.outputs)
      if (t != TensorId::None && is_float(graph[t].type.dtype)) reached.insert(t);
  }
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](TensorId t) { return graph[t].producer != graph::NodeId::None && reached.contains(t); });
}

bool is_narrow_of_conformance(DType type) { return type == DType::F16 || type == DType::BF16; }

/// f16 and bf16 as f32: rounding has no derivative, so gradients are those of the numbers before it.
graph::Graph without_narrow_types(const graph::Graph& source) {
  graph::GraphBuilder builder(source);
  for (std::size_t t = 0; t < source.tensors().size(); ++t)
    if (is_narrow_of_conformance(source.tensors()[t].type.dtype)) builder.set_dtype(static_cast<TensorId>(t), DType::F32);
  for (std::size_t n = 0; n < source.nodes().size(); ++n) {
    for (const char* key : {"to", "dtype"}) {
      const auto type = dtype_from_name(source.nodes()[n].attributes.text(key, ""));
      if (type && is_narrow_of_conformance(*type)) builder.set_attribute(static_cast<graph::NodeId>(n), key, std::string(name(DType::F32)));
    }
  }
  builder.keep_all();
  return std::move(builder).build();
}

Differentiated differentiated(const graph::Graph& source) {
  graph::GraphBuilder builder(graph::with_float_type(without_narrow_types(source), DType::F64));
  Differentiated result;
  std::vector<TensorId> wanted;
  for (const TensorId t : builder.so_far().inputs()) {
    if (!is_float(builder.type(t).dtype) || graph::element_count(builder.type(t).shape) == 0) continue;
    wanted.push_back(t);
    result.inputs.push_back(builder[t].name);
  }
  const TensorId loss = reaches(builder.so_far(), wanted) ? weighted_sum(builder) : TensorId::None;
  if (loss == TensorId::None) return result;
  const auto gradients = graph::differentiate(builder, loss, wanted, result.blocked);
  builder.keep(loss);
  for (const TensorId t : wanted) builder.keep(t);
  for (const TensorId t : gradients)
    if (t != TensorId::None) builder.keep(t);
  graph::Renumbering numbers;
  result.graph = std::move(builder).build(&numbers);
  result.loss = numbers(loss);
  for (const TensorId t : gradients) result.gradients.push_back(numbers(t));
  return result;
}

double work_of(const graph::Graph& graph) { return 1e4 + graph::flops_of(graph); }

/// Compares entry by entry.
class Differences {
 public:
  Differences(const Differentiated& problem, const std::vector<Fed>& inputs) : problem_(problem), interpreter_(problem.graph) {
    feed(interpreter_, problem.graph, inputs);
    middle_ = loss();
    for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
      const TensorId g = problem.gradients[i];
      values_.push_back(interpreter_.get_reals(problem.graph.find(problem.inputs[i])));
      gradients_.push_back(g == TensorId::None ? Reals(values_.back().size(), 0.0) : interpreter_.get_reals(g));
    }
    runs_ =
        static_cast<std::int64_t>(kMostWork / work_of(problem.graph) / static_cast<double>(2 * std::max<std::size_t>(1, values_.size())));
  }

  GradientCheck run() {
    GradientCheck check;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto count = static_cast<std::int64_t>(values_[i].size());
      const std::int64_t tried = std::min({count, kMostEntries, std::max<std::int64_t>(2, runs_)});
      for (std::int64_t k = 0; k < tried; ++k) {
        const auto wrong = compare(i, static_cast<std::size_t>(k * count / tried), check.entries);
        if (wrong) return {GradientVerdict::Differs, *wrong, check.entries};
      }
    }
    if (check.entries == 0) return {GradientVerdict::NotDifferentiable, "no entry has a finite derivative at the values given", 0};
    return check;
  }

 private:
  double loss() {
    interpreter_.run();
    return interpreter_.get_reals(problem_.loss)[0];
  }
  double loss_at(std::size_t input, std::size_t entry, double x) {
    Reals values = values_[input];
    values[entry] = x;
    const TensorId t = problem_.graph.find(problem_.inputs[input]);
    interpreter_.set_reals(t, values);
    const double result = loss();
    interpreter_.set_reals(t, values_[input]);
    return result;
  }
  /// Across a jump the quotient grows as the step shrinks.
  bool jumps(std::size_t input, std::size_t entry, double step, double quotient) {
    const double x = values_[input][entry], closer = step / 8;
    const double change = loss_at(input, entry, x + closer) - loss_at(input, entry, x - closer);
    return std::abs(change / (2 * closer)) > 4 * std::abs(quotient) + kAgreement;
  }
  /// What is wrong with the gradient of one entry.
  std::optional<std::string> compare(std::size_t input, std::size_t entry, std::int64_t& entries) {
    const double x = values_[input][entry], step = kConformanceStep * std::max(1.0, std::abs(x)), own = gradients_[input][entry];
    const double above = loss_at(input, entry, x + step), below = loss_at(input, entry, x - step);
    const double right = (above - middle_) / step, left = (middle_ - below) / step, central = (above - below) / (2 * step);
    if (!std::isfinite(left) || !std::isfinite(right)) return std::nullopt;
    // differences of large losses have few digits
    const double noise = 1e-14 * std::abs(middle_) / step;
    const double allowed = kAgreement * std::max({1.0, std::abs(central), std::abs(own)}) + noise;
    if (std::abs(own - central) > allowed && jumps(input, entry, step, central)) return std::nullopt;
    ++entries;
    if (std::abs(own - central) <= allowed) return std::nullopt;
    const bool kink = std::abs(right - left) > kKink * std::max(1.0, std::abs(central)) + noise;
    if (kink && own >= std::min(left, right) - allowed && own <= std::max(left, right) + allowed) return std::nullopt;
    return "d/d " + problem_.inputs[input] + "[" + std::to_string(entry) + "] is " + short_number(own, 9) + ", differences give " +
           short_number(central, 9);
  }

  const Differentiated& problem_;
  Interpreter interpreter_;
  double middle_ = 0;
  std::vector<Reals> values_, gradients_;
  std::int64_t runs_ = 0;
};

}  // namespace

std::optional<std::string> forward_difference(const graph::Graph& graph, const std::vector<Fed>& inputs, const std::vector<Fed>& expected,
                                              Tolerance tolerance) {
  Interpreter interpreter(graph);
  feed(interpreter, graph, inputs);
  interpreter.run();
  const bool random = draws(graph);
  for (const Fed& wanted : expected) {
    const TensorId t = graph.find(wanted.tensor);
    if (t == TensorId::None) return "output '" + wanted.tensor + "' is not computed";
    if (graph[t].type != wanted.value.type)
      return "output '" + wanted.tensor + "' is " + text_of(graph[t].type) + ", not " + text_of(wanted.value.type);
    const graph::Value result = interpreter.get_value(t);
    const auto difference = random ? statistics_difference(result, wanted.value) : value_difference(result, wanted.value, tolerance);
    if (difference) return "output '" + wanted.tensor + "': " + *difference;
  }
  return std::nullopt;
}

GradientCheck check_gradient(const graph::Graph& graph, const std::vector<Fed>& inputs) {
  if (draws(graph)) return {GradientVerdict::NotDifferentiable, "it draws random numbers", 0};
  const Differentiated problem = differentiated(graph);
  if (problem.loss == TensorId::None)
    return {GradientVerdict::NotDifferentiable, "no floating-point input reaches a floating-point output", 0};
  if (!problem.blocked.empty()) {
    const graph::Node& node = problem.graph[problem.blocked[0].node];
    return {GradientVerdict::NoGradient, std::string(graph::schema(node).name) + ": " + problem.blocked[0].reason, 0};
  }
  return Differences(problem, inputs).run();
}

}  // namespace rehearsal::exec
