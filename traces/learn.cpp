#include "traces/learn.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/statistics.hpp"
#include "costmodel/learning.hpp"
#include "costmodel/measured_device.hpp"
#include "traces/composition.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

using costmodel::Calibration;
using costmodel::CostModel;

constexpr const char* kLearnedKey = "learned traces";
constexpr double kPriorCommunicationError = 0.3, kPriorCompositionError = 0.15;

/// Recognises a trace that is learned a second time.
std::string fingerprint(const Trace& trace) {
  Hasher hasher;
  hasher.add(trace.model_hash).add(trace.plan).add(trace.batch);
  for (const auto& s : trace.steps) hasher.add(&s.begin, sizeof s.begin).add(&s.end, sizeof s.end);
  return hasher.text();
}

bool learned_before(const Calibration& c, const Trace& trace) {
  return c.context.item(kLearnedKey).find(fingerprint(trace)) != std::string::npos;
}

void note_learned(Calibration& c, const Trace& trace) {
  auto& list = c.context.items[kLearnedKey];
  list += (list.empty() ? "" : " ") + fingerprint(trace);
}

CostModel model_of(const Calibration& c, const platforms::Platform& platform, const Trace& trace) {
  return {platforms::device_of(platform, 0), c, trace.dtype};
}

// ---- exact samples

using KernelKey = std::tuple<std::string, std::string, std::string, DType, int>;

/// What was measured of one kernel: a value for every rank and step, the mean over the events of the kernel in that step.
struct KernelTimes {
  costmodel::KernelCase kernel;
  std::vector<double> wall, cpu;
  std::int64_t events = 0;
};
using Kernels = std::map<KernelKey, KernelTimes>;

void add_step(const RankTrace& rank, const StepAccount& account, Kernels& kernels) {
  struct Sum {
    double wall = 0, cpu = 0;
    std::int64_t events = 0;
  };
  std::map<KernelKey, Sum> sums;
  for (const auto& e : account.charged) {
    const auto& kind = rank.kinds[e.kind];
    if (kind.identity.kind == plan::InstructionKind::Report) continue;
    const KernelKey key = kind.kernel.key();
    auto& sum = sums[key];
    sum.wall += e.seconds;
    sum.cpu += e.busy;
    ++sum.events;
    kernels[key].kernel = kind.kernel;
  }
  for (const auto& [key, sum] : sums) {
    auto& times = kernels[key];
    times.wall.push_back(sum.wall / static_cast<double>(sum.events));
    times.cpu.push_back(sum.cpu / static_cast<double>(sum.events));
    times.events += sum.events;
  }
}

double robust_spread(const std::vector<double>& values) {
  return log_deviation(inner_quantile_of(values, 0.25), inner_quantile_of(values, 0.75));
}

costmodel::Sample sample_of(const KernelTimes& times) {
  costmodel::Sample s;
  s.kernel = times.kernel;
  s.count = times.events;
  s.cpu_min = Seconds(inner_quantile_of(times.cpu, 0));
  s.cpu_quartile = Seconds(inner_quantile_of(times.cpu, 0.25));
  s.cpu_median = Seconds(median_of(times.cpu));
  s.wall_min = Seconds(inner_quantile_of(times.wall, 0));
  s.wall_median = Seconds(median_of(times.wall));
  s.spread = robust_spread(times.wall);
  s.from_training = true;
  return s;
}

void add_samples(Calibration& c, const Trace& trace, LearnOutcome& outcome) {
  Kernels kernels;
  const auto steps = counted_steps(trace);
  for (const auto& rank : trace.ranks)
    for (const auto& account : accounts(rank, steps)) add_step(rank, account, kernels);
  for (const auto& [key, times] : kernels)
    if (median_of(times.wall) > 0) ++(costmodel::merge_sample(c, sample_of(times)) ? outcome.samples_added : outcome.samples_merged);
}

// ---- mechanisms

/// Mean and spread of log(value / predicted) around the middle of the values.
costmodel::FactorObservation observed(const std::vector<double>& values, double predicted) {
  return {std::log(median_of(values) / predicted), std::pow(robust_spread(values), 2), static_cast<std::int64_t>(values.size())};
}

/// Exposed communication of every step, of the rank that waited least: what the others wait longer is waiting for that rank's kernels.
std::vector<double> exposed_by_step(const Trace& trace) {
  const auto steps = counted_steps(trace);
  std::vector<double> least(steps.size(), HUGE_VAL);
  for (const auto& rank : trace.ranks) {
    const auto of_rank = accounts(rank, steps);
    for (std::size_t n = 0; n < steps.size(); ++n) least[n] = std::min(least[n], of_rank[n].exposed);
  }
  return least;
}

void learn_communication(Calibration& c, const platforms::Platform& platform, const Trace& trace) {
  const auto composed = compose(trace, platform, model_of(c, platform, trace));
  const double predicted = composed.communication;
  auto exposed = exposed_by_step(trace);
  for (double& seconds : exposed) seconds -= composed.bubble;  // waiting for other stages is no fault of the messages
  if (!(predicted > 0) || !(median_of(exposed) > 0) || !std::isfinite(median_of(exposed))) return;
  auto seen = observed(exposed, predicted);
  seen.log_factor = std::clamp(seen.log_factor, -3.0, 3.0);
  costmodel::merge_factor(c, "communication", seen, kPriorCommunicationError);
}

void learn_composition(Calibration& c, const platforms::Platform& platform, const Trace& trace) {
  const auto model = model_of(c, platform, trace);
  const double predicted = compose(trace, platform, model).uncomposed(model);
  std::vector<double> seconds;
  for (const auto& s : counted_steps(trace)) seconds.push_back(s.end - s.begin);
  if (!(predicted > 0) || !(median_of(seconds) > 0)) return;
  costmodel::merge_factor(c, "step", observed(seconds, predicted), kPriorCompositionError);
}

// ---- outcome

std::vector<CorrectionChange> changes(const Calibration& before, const Calibration& after) {
  std::vector<CorrectionChange> result;
  for (const auto& now : after.corrections) {
    CorrectionChange change;
    change.after = now;
    change.before.log_error = 0;
    for (const auto& old : before.corrections)
      if (old.scope == now.scope && old.threads == now.threads) change.before = old;
    if (std::fabs(std::log(now.factor / change.before.factor)) > 0.001) result.push_back(change);
  }
  const auto size = [](const CorrectionChange& c) { return std::fabs(std::log(c.after.factor / c.before.factor)); };
  std::stable_sort(result.begin(), result.end(), [&](const auto& a, const auto& b) { return size(a) > size(b); });
  return result;
}

/// Does it compute in some steps only (graph/ops/decomposition.cpp, outer_products.cpp)? The middle of its times would say that it costs
/// nothing.
bool skips_steps(const costmodel::KernelCase& k) {
  const std::string_view every = "interval=1;";
  const auto at = k.signature.find(every.substr(0, every.find('=') + 1));
  return at != std::string::npos && k.signature.compare(at, every.size(), every) != 0;
}

void check(const Trace& trace) {
  if (trace.kind != "measured")
    throw BadInput("trace of " + trace.model, "was " + trace.kind + "; only what `rehearse run --trace` measured can be learned from");
  if (only_warms_up(trace) || !(median_step_seconds(trace) > 0))
    throw BadInput("trace of " + trace.model, "holds no step after its warm-up; run at least 3 steps");
  for (const auto& rank : trace.ranks)
    for (const auto& kind : rank.kinds)
      if (skips_steps(kind.kernel))
        throw BadInput("trace of " + trace.model,
                       kind.kernel.op +
                           " computes in some steps only, of which too few are seen to learn from; trace a run "
                           "with interval=1, as in --optimizer shampoo:interval=1 or kfac:interval=1,factor_interval=1");
}

double predict(const Calibration& c, const platforms::Platform& platform, const Trace& trace) {
  const auto model = model_of(c, platform, trace);
  return compose(trace, platform, model).step(model);
}

/// What one GPU needs says nothing of another, nor of a processor, and processors learn from their own traces. Older traces do not say
/// what measured them.
void refuse_another_device(const Calibration& c, const platforms::Platform& platform, const Trace& trace) {
  const auto measured = costmodel::identity_of(costmodel::MachineContext{{trace.context.begin(), trace.context.end()}});
  auto own = costmodel::identity_of(c.context);
  if (!own.kind) own.kind = platforms::device_of(platform, 0).kind;
  const auto of = likeness(own, measured);
  if (of == costmodel::Likeness::Same || of == costmodel::Likeness::NotSaid) return;
  const bool of_gpu = measured.kind == platforms::DeviceKind::Gpu;
  throw BadInput("trace of " + trace.model, "was measured on " + measured.text() + ", and the machine file on " + own.text() +
                                                "; `rehearse calibrate " + (of_gpu ? "--backend cuda " : "") +
                                                "-o FILE` there writes a file for it");
}

}  // namespace

LearnOutcome learn(Calibration& calibration, const platforms::Platform& platform, std::span<const Trace> traces) {
  LearnOutcome outcome;
  auto learning = calibration;
  std::vector<const Trace*> fresh;
  for (const auto& trace : traces) {
    check(trace);
    refuse_another_device(calibration, platform, trace);
    const bool known = learned_before(learning, trace);
    outcome.traces.push_back({median_step_seconds(trace), predict(calibration, platform, trace), 0, known, share_waiting_for_cores(trace)});
    if (known) continue;
    fresh.push_back(&trace);
    note_learned(learning, trace);
  }
  for (const auto* trace : fresh) add_samples(learning, *trace, outcome);
  if (!fresh.empty()) costmodel::learn_kernel_corrections(learning, platforms::device_of(platform, 0), fresh.front()->dtype);
  for (const auto* trace : fresh) learn_communication(learning, platform, *trace);
  for (const auto* trace : fresh) learn_composition(learning, platform, *trace);
  for (std::size_t n = 0; n < traces.size(); ++n) outcome.traces[n].after = predict(learning, platform, traces[n]);
  outcome.corrections = changes(calibration, learning);
  calibration = std::move(learning);
  return outcome;
}

std::int64_t forget(Calibration& c) {
  std::istringstream learned(c.context.item(kLearnedKey));
  const auto traces = std::distance(std::istream_iterator<std::string>(learned), {});
  c.context.items.erase(kLearnedKey);
  costmodel::forget_training(c);
  return traces;
}

}  // namespace rehearsal::traces
