// Control flow that is known: branches are chosen, loops unrolled, optional values looked at. Nothing of it is left in the graph.

#include <algorithm>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

constexpr std::int64_t kMostRounds = 1 << 14;

void branch(NodeImport& n) {
  BodyMemory memory;
  auto results = n.run_body(n.known_number(0, "the condition") != 0 ? "then_branch" : "else_branch", {}, memory);
  for (std::size_t i = 0; i < results.size(); ++i) n.set_meaning(i, std::move(results[i]));
}

TensorId tensor_of(const NodeImport& n, const Meaning& meaning, const char* what) {
  const auto* t = std::get_if<TensorId>(&meaning);
  if (!t) n.fail(std::string(what) + " must be a tensor");
  return *t;
}

/// Results of single rounds, one after another along a new axis.
TensorId stacked(NodeImport& n, std::vector<TensorId> rounds, std::size_t axis) {
  for (TensorId& t : rounds) {
    Shape shape = n.builder().type(t).shape;
    if (axis > shape.size()) n.fail("axis " + std::to_string(axis) + " lies outside what its body gives");
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    t = n.reshape(t, shape);
  }
  return n.emit("Concat", std::move(rounds), {{"axis", static_cast<std::int64_t>(axis)}});
}

bool goes_on(NodeImport& n, const Meaning& condition) {
  const TensorId t = tensor_of(n, condition, "the condition");
  return n.known_tensor(t, "its condition says how often it runs").real(0) != 0;
}

/// Operands: rounds, condition, states. The body takes (round, condition, states) and gives (condition, states, results of the round).
void loop(NodeImport& n) {
  const std::int64_t most = n.has(0) ? n.known_integer(0, "how often it runs") : kMostRounds;
  const std::size_t states = n.input_count() < 2 ? 0 : n.input_count() - 2;
  std::vector<Meaning> state{Meaning{}, n.has(1) ? n.meaning(1) : Meaning{n.constant(graph::Value::of_integers({1}, {}, DType::Bool))}};
  for (std::size_t i = 0; i < states; ++i) state.push_back(n.meaning(i + 2));
  std::vector<std::vector<TensorId>> results(n.output_count() - std::min(n.output_count(), states));
  BodyMemory memory;
  std::int64_t round = 0;
  for (; round < most && goes_on(n, state[1]); ++round) {
    if (round == kMostRounds) n.unsupported("more than " + std::to_string(kMostRounds) + " rounds are not supported");
    state[0] = n.constant(graph::Value::of_integers({round}, {}));
    const auto given = n.run_body("body", state, memory);
    if (given.size() < 1 + states + results.size()) n.fail("its body has too few results");
    std::copy_n(given.begin(), states + 1, state.begin() + 1);
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(tensor_of(n, given[1 + states + i], "a result of its body"));
  }
  for (std::size_t i = 0; i < states; ++i) n.set_meaning(i, state[i + 2]);
  for (std::size_t i = 0; i < results.size() && n.wants(states + i); ++i) {
    if (round == 0) n.unsupported("results of a loop that never runs are not supported");
    n.set(states + i, stacked(n, std::move(results[i]), 0));
  }
}

/// How a Scan walks over its operands and joins its results.
struct ScanPlan {
  std::size_t first = 0, states = 0, scanned = 0;
  std::vector<std::int64_t> in_axes, in_backwards, out_axes, out_backwards;
};

std::int64_t entry(const std::vector<std::int64_t>& list, std::size_t i) { return i < list.size() ? list[i] : 0; }

/// Element `at` of operand i along its axis, in its direction.
TensorId element(NodeImport& n, const ScanPlan& plan, std::size_t i, TensorId t, std::int64_t at) {
  Shape shape = n.builder().type(t).shape;
  const std::int64_t axis = graph::normalize_axis(entry(plan.in_axes, i), shape.size());
  const auto d = static_cast<std::size_t>(axis);
  const std::int64_t from = entry(plan.in_backwards, i) != 0 ? shape[d] - 1 - at : at;
  const TensorId part = n.emit("Slice", {t}, {{"starts", Shape{from}}, {"ends", Shape{from + 1}}, {"axes", Shape{axis}}});
  shape.erase(shape.begin() + axis);
  return n.reshape(part, shape);
}

struct Scanned {
  std::vector<Meaning> states;
  std::vector<TensorId> results;
};

Scanned scan_one(NodeImport& n, const ScanPlan& plan, std::vector<Meaning> states, const std::vector<TensorId>& over, BodyMemory& memory) {
  const Shape first = n.builder().type(over.at(0)).shape;
  const std::int64_t rounds = first.at(static_cast<std::size_t>(graph::normalize_axis(entry(plan.in_axes, 0), first.size())));
  if (rounds < 1 || rounds > kMostRounds) n.unsupported("a scan of " + std::to_string(rounds) + " rounds is not supported");
  std::vector<std::vector<TensorId>> results(n.output_count() - std::min(n.output_count(), plan.states));
  for (std::int64_t at = 0; at < rounds; ++at) {
    std::vector<Meaning> arguments = states;
    for (std::size_t i = 0; i < over.size(); ++i) arguments.emplace_back(element(n, plan, i, over[i], at));
    const auto given = n.run_body("body", arguments, memory);
    if (given.size() < plan.states + results.size()) n.fail("its body has too few results");
    states.assign(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(plan.states));
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(tensor_of(n, given[plan.states + i], "a result of its body"));
  }
  Scanned scanned{std::move(states), {}};
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (entry(plan.out_backwards, i) != 0) std::reverse(results[i].begin(), results[i].end());
    const std::size_t rank = n.builder().type(results[i][0]).shape.size() + 1;
    scanned.results.push_back(stacked(n, results[i], static_cast<std::size_t>(graph::normalize_axis(entry(plan.out_axes, i), rank))));
  }
  return scanned;
}

ScanPlan scan_plan(NodeImport& n, std::size_t first) {
  ScanPlan plan;
  plan.first = first;
  plan.scanned = static_cast<std::size_t>(std::max<std::int64_t>(0, n.integer("num_scan_inputs", 0)));
  if (plan.scanned < 1 || plan.scanned + first > n.input_count())
    n.fail("num_scan_inputs is " + std::to_string(plan.scanned) + ", it has " + std::to_string(n.input_count()) + " operands");
  plan.states = n.input_count() - first - plan.scanned;
  return plan;
}

void scan(NodeImport& n) {
  ScanPlan plan = scan_plan(n, 0);
  plan.in_axes = n.integers("scan_input_axes");
  plan.in_backwards = n.integers("scan_input_directions");
  plan.out_axes = n.integers("scan_output_axes");
  plan.out_backwards = n.integers("scan_output_directions");
  std::vector<Meaning> states;
  std::vector<TensorId> over;
  for (std::size_t i = 0; i < plan.states; ++i) states.push_back(n.meaning(i));
  for (std::size_t i = 0; i < plan.scanned; ++i) over.push_back(n.input(plan.states + i));
  BodyMemory memory;
  const Scanned scanned = scan_one(n, plan, std::move(states), over, memory);
  for (std::size_t i = 0; i < plan.states; ++i) n.set_meaning(i, scanned.states[i]);
  for (std::size_t i = 0; i < scanned.results.size(); ++i) n.set(plan.states + i, scanned.results[i]);
}

/// Version 8 has a batch: operand 0 gives lengths, all others have a leading dimension of samples, each scanned for itself.
void batched_scan(NodeImport& n) {
  if (n.has(0)) n.unsupported("samples of different lengths are not supported");
  ScanPlan plan = scan_plan(n, 1);
  plan.in_backwards = n.integers("directions");
  const ScanPlan rows;  // the batch is axis 0, forward
  const std::int64_t batch = n.shape(1).at(0);
  BodyMemory memory;
  std::vector<std::vector<TensorId>> results(n.output_count());
  for (std::int64_t sample = 0; sample < batch; ++sample) {
    std::vector<Meaning> states;
    std::vector<TensorId> over;
    for (std::size_t i = 0; i < plan.states; ++i) states.emplace_back(element(n, rows, 0, n.input(1 + i), sample));
    for (std::size_t i = 0; i < plan.scanned; ++i) over.push_back(element(n, rows, 0, n.input(1 + plan.states + i), sample));
    const Scanned scanned = scan_one(n, plan, std::move(states), over, memory);
    for (std::size_t i = 0; i < results.size(); ++i)
      results[i].push_back(i < plan.states ? tensor_of(n, scanned.states[i], "a state") : scanned.results.at(i - plan.states));
  }
  if (batch < 1) n.unsupported("an empty batch is not supported");
  for (std::size_t i = 0; i < results.size(); ++i) n.set(i, stacked(n, std::move(results[i]), 0));
}

/// The body runs for every element of the first sequence; others give an element each too, tensors are the same in every round.
void sequence_map(NodeImport& n) {
  const std::size_t length = n.sequence(0).size();
  std::vector<std::vector<TensorId>> results(n.output_count());
  BodyMemory memory;
  for (std::size_t at = 0; at < length; ++at) {
    std::vector<Meaning> arguments;
    for (std::size_t i = 0; i < n.input_count(); ++i) {
      const Meaning meaning = n.meaning(i);
      if (const auto* parts = std::get_if<std::vector<TensorId>>(&meaning)) {
        if (parts->size() != length) n.fail("its sequences have different lengths");
        arguments.emplace_back((*parts)[at]);
      } else {
        arguments.push_back(meaning);
      }
    }
    const auto given = n.run_body("body", arguments, memory);
    if (given.size() < results.size()) n.fail("its body has too few results");
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(tensor_of(n, given[i], "a result of its body"));
  }
  for (std::size_t i = 0; i < results.size(); ++i) n.set_sequence(i, std::move(results[i]));
}

void optional(NodeImport& n) { n.set_meaning(0, n.meaning(0)); }
void has_element(NodeImport& n) { n.set(0, n.constant(graph::Value::of_integers({n.has(0) ? 1 : 0}, {}, DType::Bool))); }
void get_element(NodeImport& n) {
  if (!n.has(0)) n.fail("the optional has no element");
  n.set_meaning(0, n.meaning(0));
}

constexpr ImportRow kControlRows[] = {
    {kDefaultDomain, "If", 1, kNewest, branch},
    {kDefaultDomain, "Loop", 1, kNewest, loop},
    {kDefaultDomain, "Scan", 8, 8, batched_scan},
    {kDefaultDomain, "Scan", 9, kNewest, scan},
    {kDefaultDomain, "SequenceMap", 17, kNewest, sequence_map},
    {kDefaultDomain, "Optional", 15, kNewest, optional},
    {kDefaultDomain, "OptionalHasElement", 15, kNewest, has_element},
    {kDefaultDomain, "OptionalGetElement", 15, kNewest, get_element},
};

}  // namespace

std::span<const ImportRow> control_rows() { return kControlRows; }

}  // namespace rehearsal::formats
