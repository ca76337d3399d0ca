#include "plan/lowering/meeting_rules.hpp"

#include <algorithm>

#include "plan/batch_shares.hpp"
#include "plan/schedules/model_chunks.hpp"

namespace rehearsal::plan {
namespace {

/// Replicas that meet one by one wait for nobody in between.
void check_meetings_in_part(const graph::TrainingGraph& training, const Plan& p, std::vector<Violation>& violations) {
  const auto refuse = [&](bool holds, const std::string& key, const std::string& problem, const std::string& remedy) {
    if (holds) violations.push_back({key, problem, remedy});
  };
  refuse(p.outer.rule == OuterRule::Elastic && !p.staleness, "outer", "elastic wants a center, at which replicas meet one by one",
         "use staleness=0, where all wait for all, or a larger one");
  refuse(p.outer.rule == OuterRule::Adasum && (p.dp & (p.dp - 1)) != 0, "outer",
         "adasum adds the ways of pairs of replicas, then of pairs of pairs, and dp=" + std::to_string(p.dp) + " is no power of two",
         "use outer=average, or a dp of 2, 4, 8 ...");
  refuse(!p.servers.all() && !p.staleness, "servers", "hold the center, and without staleness there is none", "set staleness=0 or more");
  const int least = p.servers.least_replicas();
  refuse(least > p.dp, "servers",
         p.servers.named().empty()
             ? std::to_string(least) + " are more than the " + std::to_string(p.dp) + " replicas"
             : "replicas are numbered 0 to " + std::to_string(p.dp - 1) + "; there is no replica " + std::to_string(least - 1),
         p.servers.named().empty() ? "use at most dp, or all" : "use at most dp-1");
  if (!p.staleness) return;
  refuse(p.outer.rule != OuterRule::Average && p.outer.rule != OuterRule::Elastic, "staleness",
         "outer=" + to_text(p.outer) + " is of all replicas at once", "use outer=average or outer=elastic, or staleness=none");
  const auto& g = training.graph;
  const bool normalizes = std::ranges::any_of(g.nodes(), [](const graph::Node& n) { return graph::schema(n).batch_statistics != 0; });
  refuse(normalizes && p.bn != BatchStatistics::Local, "staleness",
         "replicas wait for each other's statistics in every batch norm under bn=" + std::string(name(p.bn)), "use bn=local");
}

std::string_view source_of_meetings(const Plan& plan) {
  if (plan.outer.rule == OuterRule::Nesterov)
    return "Douillard et al., \"DiLoCo: distributed low-communication training of language models\", 2023";
  if (plan.outer.rule == OuterRule::Elastic) return "Zhang, Choromanska, LeCun, \"Deep learning with elastic averaging SGD\", NIPS 2015";
  if (plan.outer.rule == OuterRule::Gossip)
    return "Lian et al., \"Can decentralized algorithms outperform centralized algorithms?\", NIPS 2017";
  if (plan.outer.rule == OuterRule::Adasum) return "Maleki et al., \"Scaling distributed training with adaptive summation\", MLSys 2021";
  if (plan.staleness) return "Ho et al., \"More effective distributed ML via a stale synchronous parallel parameter server\", NIPS 2013";
  return "Stich, \"Local SGD converges fast and communicates little\", ICLR 2019";
}

}  // namespace

void check_meetings(const graph::TrainingGraph& training, const Plan& p, std::vector<Violation>& violations) {
  if (p.local_steps == 0) {
    const auto wants_meetings = [&](bool given, const std::string& key) {
      if (given)
        violations.push_back({key, "is for replicas when they meet, and local_steps=0 lets them never part", "use local_steps=50"});
    };
    wants_meetings(p.outer != OuterStep{}, "outer");
    wants_meetings(p.staleness.has_value(), "staleness");
    wants_meetings(!p.servers.all(), "servers");
    return;
  }
  check_meetings_in_part(training, p, violations);
  const auto refuse = [&](bool holds, const std::string& problem, const std::string& remedy) {
    if (holds) violations.push_back({"local_steps", problem, "use " + remedy + ", or local_steps=0"});
  };
  refuse(p.zero > 0, "replicas keep all of what they train, and zero=" + std::to_string(p.zero) + " gives each a part", "zero=0");
  refuse(p.ep > 1, "replicas keep all of what they train, and ep gives every replica different experts", "ep=1");
  refuse(p.compression.of_sums() || p.compression.type_on_the_way(),
         "gradients do not travel, and compression=" + to_text(p.compression) + " is for their way", "compression=none");
  refuse(schedule_of(p).placement == ChunkPlacement::Both, "two ranks have halves of a gradient under schedule=" + p.schedule,
         "another schedule");
  refuse(schedule_of(p).asynchronous, "steps run into each other under schedule=" + p.schedule, "schedule=1f1b");
  refuse(training.batch % p.dp != 0 || has_uneven_shares(training.batch, p),
         "weights are averaged with equal shares, so every replica must see equally many samples",
         "shares=equal and a batch that dp divides");
  const auto& optimizer = graph::optimizer_row(training.optimizer.name);
  refuse(optimizer.sees_products, "optimizer " + std::string(optimizer.name) + " sums its factors over all samples in every step",
         "another optimizer");
  refuse(training.noise.whole != graph::TensorId::None, "--noise-scale compares gradients that replicas sum", "no --noise-scale");
}

namespace {

std::string how_often(const Plan& plan) {
  const std::string steps = plan.local_steps == 1 ? "in every step" : "every " + std::to_string(plan.local_steps) + " steps";
  if (!plan.staleness) return steps;
  const auto bound = *plan.staleness;
  return "one by one " + steps +
         (bound == 0 ? ", none ahead of the others"
          : bound == kAnyStaleness
              ? ", however far ahead of the others"
              : ", at most " + std::to_string(bound) + (bound == 1 ? " meeting" : " meetings") + " ahead of the slowest");
}

}  // namespace

void warn_about_meetings(Program& program) {
  const auto& plan = program.plan;
  if (plan.local_steps == 0) return;
  if (plan.dp == 1) return program.warnings.push_back("local_steps=" + std::to_string(plan.local_steps) + " is without effect for dp=1");
  program.warnings.push_back(
      "local_steps=" + std::to_string(plan.local_steps) + ",outer=" + to_text(plan.outer) +
      ": different mathematics: replicas train by themselves, with a batch of " + std::to_string(program.batch / plan.dp) +
      " each, and meet " + how_often(plan) + " (" + std::string(source_of_meetings(plan)) + ")" +
      (plan.exact_steps > 0 ? "; before step " + std::to_string(plan.exact_steps + 1) + " they sum gradients in every step" : ""));
}

}  // namespace rehearsal::plan
