#include "traces/build.hpp"

#include <algorithm>

namespace rehearsal::traces {

using plan::InstructionKind;

TraceBuilder::TraceBuilder(const plan::Program& program, const graph::Graph& graph, std::string kind, int threads)
    : program_(program), graph_(graph), threads_(threads) {
  trace_.kind = std::move(kind);
  trace_.model_hash = program.model_hash;
  trace_.plan = plan::to_text(program.plan);
  trace_.batch = program.batch;
  trace_.dtype = std::string(name(program.dtype));
  trace_.threads = threads;
  for (const auto& role : program.roles) trace_.arena_bytes = std::max(trace_.arena_bytes, role.memory.arena_bytes);
}

void TraceBuilder::add(int rank, int step, std::span<const predict::TimedInstruction> played, double shift) {
  auto at = std::find_if(trace_.ranks.begin(), trace_.ranks.end(), [&](const RankTrace& r) { return r.rank == rank; });
  if (at == trace_.ranks.end()) {
    trace_.ranks.push_back({rank, {}, {}});
    known_.emplace_back();
    at = trace_.ranks.end() - 1;
  }
  const auto& role = program_.role(rank);
  const auto& memory = in_use(rank);
  for (const auto& p : played) {
    Event event;
    event.kind = kind_of(*at, p);
    event.micro_batch = p.micro_batch;
    event.step = step;
    event.stream = p.issue ? plan::Stream::Host : role.bodies[p.body].instructions[p.instruction].stream;
    event.begin = p.begin + shift;
    event.end = p.end + shift;
    event.busy = p.busy;
    if (event.stream == plan::Stream::Compute) event.in_use = memory.at(p.body, p.instruction, p.micro_batch);
    at->events.push_back(event);
  }
}

const plan::BytesInUse& TraceBuilder::in_use(int rank) {
  return in_use_.try_emplace(program_.role_of[static_cast<std::size_t>(rank)], program_, program_.role(rank)).first->second;
}

std::uint32_t TraceBuilder::kind_of(RankTrace& rank, const predict::TimedInstruction& p) {
  const auto& role = program_.role(rank.rank);
  const bool repeated = plan::per_micro_batch(role.bodies[p.body].kind);
  const std::uint64_t variant = repeated ? plan::variant_of_micro_batch(role, p.micro_batch) : 0;
  const std::uint64_t key = (std::uint64_t{p.body} << 48) | (variant << 40) | p.instruction;
  auto& known = known_[static_cast<std::size_t>(&rank - trace_.ranks.data())];
  const auto at = std::lower_bound(known.begin(), known.end(), key, [](const auto& entry, std::uint64_t k) { return entry.first < k; });
  if (at != known.end() && at->first == key) return at->second;
  const auto index = static_cast<std::uint32_t>(rank.kinds.size());
  known.insert(at, {key, index});
  rank.kinds.push_back(describe(rank.rank, p));
  return index;
}

EventKind TraceBuilder::describe(int rank, const predict::TimedInstruction& p) const {
  const auto& role = program_.role(rank);
  const auto& body = role.bodies[p.body];
  const auto& i = body.instructions[p.instruction];
  const std::size_t variant = plan::per_micro_batch(body.kind) ? plan::variant_of_micro_batch(role, p.micro_batch) : 0;
  EventKind kind;
  kind.identity = plan::identity(role, p.body, p.instruction, 0);
  if (i.node != graph::NodeId::None)
    kind.name = graph_[i.node].name;
  else if (i.tensor != graph::TensorId::None)
    kind.name = graph_[i.tensor].name;
  switch (i.kind) {
    case InstructionKind::Send:
    case InstructionKind::Receive:
    case InstructionKind::Collective:
      kind.kernel.op = i.kind == InstructionKind::Collective
                           ? std::string(plan::name(role.collectives[static_cast<std::size_t>(i.collective)].kind))
                           : std::string(plan::name(i.kind));
      if (i.kind == InstructionKind::Collective) {
        const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
        kind.kernel.implementation = info.algorithm;
        kind.message_ranks = program_.axes[info.axis].size;
      }
      kind.message_bytes = plan::message_bytes(role, i, variant);
      break;
    case InstructionKind::Report:
      kind.kernel.op = "report";
      break;
    default:
      kind.kernel = predict::kernel_case(program_, graph_, {role, i, variant, threads_});
  }
  if (costs_ != nullptr) {
    const auto& by_variant = costs_->roles[program_.role_of[static_cast<std::size_t>(rank)]].seconds[p.body][p.instruction];
    kind.predicted = by_variant[std::min(variant, by_variant.size() - 1)];
  }
  return kind;
}

}  // namespace rehearsal::traces
