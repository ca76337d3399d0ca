#include "tests/exec/executor/interpreters.hpp"

#include <algorithm>
#include <sstream>

#include "costmodel/cost_model.hpp"
#include "platforms/catalog.hpp"
#include "predict/playing.hpp"
#include "traces/build.hpp"

namespace rehearsal::exec::sample {
namespace {

std::string to_text(const Done& d) {
  std::ostringstream out;
  out << plan::name(d.identity.kind) << " " << d.name << " (" << plan::name(d.identity.body) << " #" << d.identity.ordinal
      << ", micro-batch " << d.micro_batch << ", " << d.op << " " << d.implementation << ", " << d.bytes << " bytes)";
  return out.str();
}

}  // namespace

std::vector<Done> done_on(const traces::RankTrace& rank, plan::Stream stream, int step) {
  std::vector<const traces::Event*> events;
  for (const auto& e : rank.events)
    if (e.stream == stream && e.step == step) events.push_back(&e);
  std::stable_sort(events.begin(), events.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
  std::vector<Done> done;
  for (const auto* e : events) {
    const auto& kind = rank.kinds[e->kind];
    done.push_back({kind.identity, e->micro_batch, kind.name, kind.kernel.op, kind.kernel.implementation, kind.message_bytes});
  }
  return done;
}

int usual_step(const plan::Program& program) { return plan::crosses_steps(program) ? 1 : 0; }

std::optional<std::string> difference(const traces::Trace& some, const traces::Trace& all, int step) {
  if (some.model_hash != all.model_hash) return "the models differ";
  for (const auto& rank : some.ranks) {
    const auto other = std::find_if(all.ranks.begin(), all.ranks.end(), [&](const auto& r) { return r.rank == rank.rank; });
    if (other == all.ranks.end()) return "rank " + std::to_string(rank.rank) + " is in one trace only";
    for (auto stream : {plan::Stream::Compute, plan::Stream::Collective, plan::Stream::Send, plan::Stream::Receive, plan::Stream::Host}) {
      const auto a = done_on(rank, stream, 0), b = done_on(*other, stream, step);
      const auto where = "rank " + std::to_string(rank.rank) + ", " + std::string(plan::name(stream)) + " stream, ";
      for (std::size_t n = 0; n < std::min(a.size(), b.size()); ++n)
        if (!(a[n] == b[n])) return where + "event " + std::to_string(n) + ": " + to_text(a[n]) + " against " + to_text(b[n]);
      if (a.size() != b.size()) return where + std::to_string(a.size()) + " events against " + std::to_string(b.size());
    }
  }
  return std::nullopt;
}

traces::Trace simulated(const plan::Program& program, const graph::TrainingGraph& training, predict::StepEvaluator& evaluator) {
  const auto platform = platforms::with_devices(platforms::load("dgx-a100"), program.ranks);
  const costmodel::CostModel model(platforms::device_of(platform, 0), {}, "f32");
  const auto costs = predict::cost_of(program, training, model, 1);
  const auto cost = evaluator.evaluate({program, costs, platform, model, true});
  const auto representatives = plan::representatives(program);
  const bool by_rank = cost.timeline.size() == static_cast<std::size_t>(program.ranks);
  traces::TraceBuilder builder(program, training.graph, "simulated", 1);
  for (std::size_t n = 0; n < cost.timeline.size(); ++n)
    builder.add(by_rank ? static_cast<int>(n) : representatives[n], 0, cost.timeline[n], 0.0);
  return std::move(builder).finish();
}

}  // namespace rehearsal::exec::sample
