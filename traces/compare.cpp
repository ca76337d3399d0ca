#include "traces/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

/// Predicted and measured, in this order.
using Pair = std::array<double, 2>;

struct TimesOfInstruction {
  std::string phase, op, name;
  Pair seconds{};
  std::array<bool, 2> known{};
};

using Instructions = std::map<plan::InstructionIdentity, TimesOfInstruction>;

void refuse_unless_equal(const std::string& what, const std::string& predicted, const std::string& measured) {
  if (predicted == measured) return;
  throw BadInput("the two traces", "are of different " + what + " (" + predicted + " and " + measured +
                                       "); compare traces of the same model, plan and batch");
}

/// Each framework's kernels are its own, and so are their names and numbers.
void refuse_unless_of_one_framework(const Trace& predicted, const Trace& measured) {
  if (of_one_framework(predicted, measured)) return;
  throw BadInput("the two traces", "are of different frameworks (" + predicted.framework + " and " + measured.framework +
                                       "), which have no instructions in common; `rehearse report` shows them side by side");
}

void check_alike(const Trace& predicted, const Trace& measured) {
  refuse_unless_of_one_framework(predicted, measured);
  refuse_unless_equal("plans", predicted.plan, measured.plan);
  refuse_unless_equal("batches", std::to_string(predicted.batch), std::to_string(measured.batch));
  refuse_unless_equal("element types", predicted.dtype, measured.dtype);
  // The hash is of all that is trained, batch and type included: it comes last.
  refuse_unless_equal("models, losses or optimizers", predicted.model_hash, measured.model_hash);
}

/// One trace's share: seconds of every instruction, and of what is none, in the mean of steps and ranks.
struct Side {
  const Trace& trace;
  std::size_t which;
  double step = 0, exposed = 0, idle = 0;
};

void add_rank(Side& side, const RankTrace& rank, double ranks, Instructions& instructions) {
  const auto steps = central_steps(side.trace);
  const double share = 1.0 / (static_cast<double>(steps.size()) * ranks);
  std::set<std::int32_t> counted;
  for (const auto& s : steps) counted.insert(s.step);
  for (const auto& kind : rank.kinds) {
    if (communicates(kind)) continue;
    auto& i = instructions[kind.identity];
    i.phase = std::string(plan::name(kind.identity.body));
    i.op = kind.kernel.op;
    i.name = kind.name;
    i.known[side.which] = true;
  }
  for (const auto& e : rank.events)
    if (counted.contains(e.step) && !communicates(rank.kinds[e.kind]))
      instructions[rank.kinds[e.kind].identity].seconds[side.which] += (e.end - e.begin) * share;
  for (const auto& a : accounts(rank, steps)) {
    side.step += a.seconds * share;
    side.exposed += a.exposed * share;
    side.idle += a.idle * share;
  }
}

Side side_of(const Trace& trace, std::size_t which, const std::set<int>& ranks, Instructions& instructions) {
  Side side{trace, which};
  for (const auto& rank : trace.ranks)
    if (ranks.contains(rank.rank)) add_rank(side, rank, static_cast<double>(ranks.size()), instructions);
  return side;
}

/// Errors that are no more than what adding up in another order leaves are none.
template <class Row>
void drop_rounding(std::vector<Row>& rows, double step) {
  constexpr double kOfStep = 1e-12;
  for (auto& row : rows)
    if (std::fabs(row.error()) <= kOfStep * step) row.predicted = row.measured;
}

template <class Row>
void largest_error_first(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return std::fabs(a.error()) > std::fabs(b.error()); });
}

void add_rows(const Instructions& instructions, Comparison& result) {
  std::map<std::pair<std::string, std::string>, ComparedRow> rows;
  for (const auto& [identity, i] : instructions) {
    auto& row = rows[{i.phase, i.op}];
    row.phase = i.phase;
    row.op = i.op;
    row.predicted += i.seconds[0];
    row.measured += i.seconds[1];
    ++row.instructions;
    if (identity.kind == plan::InstructionKind::Load) {
      result.predicted_input += i.seconds[0];
      result.measured_input += i.seconds[1];
    }
    result.only_predicted += i.known[0] && !i.known[1] ? 1 : 0;
    result.only_measured += i.known[1] && !i.known[0] ? 1 : 0;
    result.instructions.push_back({i.phase, i.op, i.name, i.seconds[0], i.seconds[1]});
  }
  for (auto& [key, row] : rows) result.rows.push_back(std::move(row));
}

}  // namespace

std::set<int> common_ranks(const Trace& predicted, const Trace& measured) {
  std::set<int> ranks;
  for (const auto& a : predicted.ranks)
    for (const auto& b : measured.ranks)
      if (a.rank == b.rank) ranks.insert(a.rank);
  if (ranks.empty()) throw BadInput("the two traces", "hold no rank in common");
  return ranks;
}

Comparison compare(const Trace& predicted, const Trace& measured) {
  check_alike(predicted, measured);
  const auto ranks = common_ranks(predicted, measured);
  Instructions instructions;
  const auto left = side_of(predicted, 0, ranks, instructions);
  const auto right = side_of(measured, 1, ranks, instructions);
  Comparison result;
  result.predicted_step = median_step_seconds(predicted);
  result.measured_step = median_step_seconds(measured);
  result.predicted_rows = left.step;
  result.measured_rows = right.step;
  add_rows(instructions, result);
  result.rows.push_back({"step", "exposed communication", left.exposed, right.exposed, 0});
  result.rows.push_back({"step", "idle", left.idle, right.idle, 0});
  const double longest = std::max(left.step, right.step);
  drop_rounding(result.rows, longest);
  drop_rounding(result.instructions, longest);
  largest_error_first(result.rows);
  largest_error_first(result.instructions);
  return result;
}

}  // namespace rehearsal::traces
