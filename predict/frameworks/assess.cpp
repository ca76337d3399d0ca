#include "predict/frameworks/assess.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "costmodel/power.hpp"
#include "predict/frameworks/compose.hpp"
#include "predict/frameworks/lower.hpp"
#include "predict/frameworks/memory.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr double kUnseen = 1.5;  // wider where no published run of the device entered the fit

void refuse_unless(bool holds, const char* sentence) {
  if (!holds) throw Refusal(sentence);
}

bool known_device(const AnalyticJob& job) {
  const auto& seen = costmodel::published_constants().evidence.devices;
  return std::find(seen.begin(), seen.end(), job.device().name) != seen.end();
}

costmodel::Interval interval_of(double seconds, const AnalyticJob& job, bool image) {
  const auto& evidence = costmodel::published_constants().evidence;
  const double factor = std::exp(evidence.of(image ? "image" : "transformer") * (known_device(job) ? 1 : kUnseen));
  return {seconds, seconds / factor, seconds * factor};
}

std::string largest_part(const Breakdown& b) {
  const std::pair<Seconds, const char*> parts[] = {{b.compute, "compute"},     {b.exposed_communication, "exposed communication"},
                                                   {b.bubble, "bubble"},       {b.recompute, "recompute"},
                                                   {b.optimizer, "optimizer"}, {b.io, "io"}};
  return std::max_element(std::begin(parts), std::end(parts), [](const auto& x, const auto& y) { return x.first < y.first; })->second;
}

Breakdown breakdown_of(const StepTime& s) {
  Breakdown b;
  b.exposed_communication = Seconds(s.exposed + s.tensor);
  b.bubble = Seconds(s.bubble);
  b.recompute = Seconds(s.recompute);
  b.optimizer = Seconds(s.optimizer);
  b.compute = Seconds(std::max(0.0, s.seconds - s.exposed - s.tensor - s.bubble - s.recompute - s.optimizer));
  return b;
}

}  // namespace

ParallelPlan parallel_plan(const plan::Plan& plan, std::int64_t batch, const costmodel::FrameworkProfile& framework) {
  refuse_unless(plan.spatial == std::array<int, 3>{1, 1, 1}, "--framework: spatial splits are rehearse's own execution only");
  const int replicas = plan.dp * plan.ep;  // experts are spread over replicas of everything else
  refuse_unless(batch % replicas == 0, "--framework: dp (times ep) must divide the batch");
  ParallelPlan p;
  p.dp = replicas;
  p.cp = plan.cp;
  p.ep = plan.ep;
  p.tp = plan.tp;
  p.pp = plan.pp;
  p.interleave = plan.interleave;
  const auto replica = batch / replicas, micro = plan.micro_batch.value_or(replica);
  refuse_unless(replica % micro == 0, "--framework: micro_batch must divide the replica's batch");
  p.micro_batch = static_cast<double>(micro);
  const std::int64_t slots = replica / micro;
  p.micro_batches = static_cast<double>(slots);
  p.global_batch = static_cast<double>(batch);
  p.zero = plan.zero;
  p.recompute = recompute_from_text(plan.recompute);
  p.sequence_parallel = plan.sequence_parallel;
  p.gpipe = plan.schedule == "gpipe";
  p.gradient_overlap = plan.overlap;
  p.channels_last = framework.channels_last;
  p.channels_last_single = framework.channels_last_single;
  return p;
}

Assessment assess_analytic(const graph::Graph& micro_batch, const AnalyticJob& job, const plan::Plan& plan) {
  const auto& constants = costmodel::published_constants().values;
  const auto rows = lower_to_rows(micro_batch, job);
  const costmodel::Network network(job.platform);
  const auto step = compose(rows, job, network, constants);
  const auto power = costmodel::device_power(job.device(), {step.matrix_share, step.memory_share}, job.power_limit, constants);
  const auto memory = memory_of(rows, job);
  Assessment a;
  a.plan = plan;
  a.ranks = plan.ranks();
  a.step = Seconds(step.seconds);
  a.step_seconds = interval_of(step.seconds, job, rows.image);
  a.samples_per_second = job.plan.global_batch / step.seconds;
  a.breakdown = breakdown_of(step);
  a.bottleneck = largest_part(a.breakdown);
  a.evidence = {0, 1, 0};
  double flops = 0;
  for (const auto& part : rows.parts) flops += part.flops * part.span.repeats;
  a.mfu = 3 * flops * job.plan.micro_batches * job.plan.dp * job.plan.cp / (step.seconds * a.ranks * job.precision.peak);
  a.memory_bytes = static_cast<std::int64_t>(device_reading(memory, job, constants));
  a.memory_log_factor = costmodel::published_constants().evidence.of("memory") * (known_device(job) ? 1 : kUnseen);
  a.memory_capacity = static_cast<std::int64_t>(job.device().memory.value.value());
  a.cost = costmodel::job_cost(job.platform, a.ranks, a.step, Watts(power.watts) * a.step * a.ranks);
  return a;
}

}  // namespace rehearsal::predict::frameworks
