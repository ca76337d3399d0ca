#include "tests/exec/property/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "exec/data/data.hpp"
#include "exec/kernels/narrow.hpp"
#include "exec/play/interpreter.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::property {
namespace {

using graph::TensorId;
using graph::TensorRole;

bool is_stored(const graph::Tensor& t) {
  return (t.role == TensorRole::Parameter || t.role == TensorRole::Slot || t.role == TensorRole::State) && is_float(t.type.dtype);
}

std::vector<double> reals(const std::byte* data, DType dtype, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  if (exec::is_narrow(dtype)) {
    std::vector<float> wide(values.size());
    exec::widen(data, dtype, wide.data(), count);
    std::copy(wide.begin(), wide.end(), values.begin());
    return values;
  }
  for (std::size_t n = 0; n < values.size(); ++n)
    values[n] =
        dtype == DType::F64 ? reinterpret_cast<const double*>(data)[n] : static_cast<double>(reinterpret_cast<const float*>(data)[n]);
  return values;
}

/// Every number up or down by one unit of rounding, at random.
template <class Real>
void disturb(std::span<std::byte> bytes, std::uint64_t seed, TensorId t) {
  auto* values = reinterpret_cast<Real*>(bytes.data());
  for (std::size_t n = 0; n < bytes.size() / sizeof(Real); ++n)
    values[n] *= 1 + ((random_bits(seed, graph::index(t), n) & 1U) != 0 ? 1 : -1) * std::numeric_limits<Real>::epsilon();
}

/// The same for numbers of 16 bits.
void disturb_narrow(std::span<std::byte> bytes, DType dtype, std::uint64_t seed, TensorId t) {
  std::vector<float> wide(bytes.size() / size_of(dtype));
  const auto count = static_cast<std::int64_t>(wide.size());
  exec::widen(bytes.data(), dtype, wide.data(), count);
  for (std::size_t n = 0; n < wide.size(); ++n)
    wide[n] *= static_cast<float>(1 + ((random_bits(seed, graph::index(t), n) & 1U) != 0 ? 1 : -1) * rounding_of(dtype));
  exec::narrow(wide.data(), dtype, bytes.data(), count);
}

/// Rounding happens everywhere: to what comes in and is trained, and to every result of every node (Monte Carlo arithmetic: Parker, "Monte
/// Carlo Arithmetic", 1997). Noise in inputs and parameters alone does not reach what cancels behind them: a bias' gradient of two samples
/// whose errors are nearly opposite is as wrong as the two, however small, and an optimizer that divides by its size shows that.
void disturb(const graph::Graph& g, std::span<std::byte> bytes, std::uint64_t seed, TensorId t) {
  if (g[t].type.dtype == DType::F64) disturb<double>(bytes, seed, t);
  if (g[t].type.dtype == DType::F32) disturb<float>(bytes, seed, t);
  if (exec::is_narrow(g[t].type.dtype)) disturb_narrow(bytes, g[t].type.dtype, seed, t);
}

template <class Run>
void disturb(Run& run, const graph::TrainingGraph& training, std::uint64_t seed) {
  const auto move = [&](TensorId t) {
    const auto values = run.get(t);
    std::vector<std::byte> bytes(values.begin(), values.end());
    disturb(training.graph, bytes, seed, t);
    run.set(t, bytes);
  };
  for (const auto& p : training.parameters) move(p.value);
  for (const TensorId t : training.graph.inputs()) move(t);
  run.touch_results([&g = training.graph, seed](TensorId t, std::span<std::byte> bytes) { disturb(g, bytes, seed, t); });
}

/// NaN is a difference without end.
double distance(double a, double b) { return a == b ? 0 : std::isnan(a - b) ? HUGE_VAL : std::abs(a - b); }

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

void compare(const std::vector<double>& found, const std::vector<double>& expected, double scale, TensorId where, Difference& d) {
  for (std::size_t n = 0; n < found.size(); ++n) {
    const double off = distance(found[n], expected[n]) / scale;
    if (off > d.stored) d.stored = off, d.where = where;
  }
}

double loss_difference(const std::vector<double>& found, const std::vector<double>& expected) {
  double most = found.size() == expected.size() ? 0 : HUGE_VAL;
  for (std::size_t n = 0; n < std::min(found.size(), expected.size()); ++n)
    most = std::max(most, distance(found[n], expected[n]) / std::max(1.0, std::abs(expected[n])));
  return most;
}

double scale_of(const std::vector<double>& values) { return std::max(1e-3, largest(values)); }

/// Weights as the updates of a training left them: passes see old ones, updates change new ones.
class Delayed {
 public:
  Delayed(const graph::Graph& g, const std::map<TensorId, int>& delays) : run_(g), delays_(delays) {}

  void set(TensorId t, std::span<const std::byte> elements) { run_.set(t, elements); }
  void set_reals(TensorId t, std::span<const double> values) { run_.set_reals(t, values); }
  [[nodiscard]] std::vector<double> get_reals(TensorId t) const { return run_.get_reals(t); }
  [[nodiscard]] std::span<const std::byte> get(TensorId t) const { return run_.get(t); }
  void touch_results(exec::Interpreter::Touch touch) { run_.touch_results(std::move(touch)); }
  void run(std::int64_t step) {
    for (const auto& [t, delay] : delays_) {
      auto& all = made_[t];
      all.push_back(run_.get_reals(t));
      run_.set_reals(t, all[static_cast<std::size_t>(std::max<std::int64_t>(0, step - delay))]);
    }
    run_.run_phase(graph::Phase::Forward, step);
    run_.run_phase(graph::Phase::Backward, step);
    for (const auto& [t, delay] : delays_) run_.set_reals(t, made_[t].back());
    run_.run_phase(graph::Phase::Update, step);
  }

 private:
  exec::Interpreter run_;
  const std::map<TensorId, int>& delays_;
  std::map<TensorId, std::vector<std::vector<double>>> made_;
};

template <class Run>
Trained train_by(Run& run, const graph::TrainingGraph& training, const WholeOptions& options) {
  const auto& g = training.graph;
  const auto data = exec::synthetic_data(training, 1);
  Trained trained;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    for (const auto t : g.inputs()) {
      const auto& type = g[t].type;
      std::vector<std::byte> samples(static_cast<std::size_t>(graph::size_of(type).value()));
      data->read({g[t].name, type, step * training.batch, type.shape.front()}, samples.data());
      run.set(t, samples);
    }
    if (options.noise != 0) disturb(run, training, options.noise + 100 * static_cast<std::uint64_t>(step));
    run.run(step);
    trained.losses.push_back(run.get_reals(training.loss).front());
  }
  for (std::size_t t = 0; t < g.tensors().size(); ++t)
    if (is_stored(g.tensors()[t])) trained.stored[static_cast<TensorId>(t)] = run.get_reals(static_cast<TensorId>(t));
  return trained;
}

}  // namespace

double rounding_of(DType dtype) {
  if (dtype == DType::BF16) return 0x1p-7;
  if (dtype == DType::F16) return 0x1p-10;
  return dtype == DType::F64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

std::map<TensorId, int> delays_of(const plan::Program& program) {
  std::map<TensorId, int> delays;
  for (const auto& role : program.roles)
    for (const auto& buffer : role.buffers)
      if (buffer.versions > 1) delays[buffer.tensor] = buffer.versions - 1;
  return delays;
}

std::int64_t steps_to_prove(const plan::Program& program) {
  std::int64_t ahead = 0;
  for (const auto& role : program.roles) ahead = std::max(ahead, static_cast<std::int64_t>(role.opening.size()));
  return std::max<std::int64_t>(3, 2 + (ahead + program.micro_batches - 1) / program.micro_batches);
}

Trained train_whole(const graph::TrainingGraph& training, const WholeOptions& options) {
  ensure(options.groups.empty() || options.delays.empty(), "old weights and groups of samples are held against what each of them means");
  if (!options.groups.empty()) {
    GroupedRun run(training.graph, options.groups);
    return train_by(run, training, options);
  }
  Delayed run(training.graph, options.delays);
  return train_by(run, training, options);
}

Difference difference(const graph::TrainingGraph& training, exec::Executor& executor, const std::vector<double>& losses,
                      const Trained& whole) {
  Difference d;
  d.losses = loss_difference(losses, whole.losses);
  for (const auto t : executor.stored_tensors()) {
    const auto at = whole.stored.find(t);
    if (at == whole.stored.end()) continue;
    const auto& type = training.graph[t].type;
    const auto mine = executor.stored_region(t);
    std::vector<double> expected(static_cast<std::size_t>(plan::element_count(mine)));
    plan::BlockCopy(plan::whole_region(type.shape), mine).for_each_run([&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(at->second.begin() + from, count, expected.begin() + to);
    });
    const auto found = reals(executor.stored(t).data(), type.dtype, static_cast<std::int64_t>(expected.size()));
    compare(found, expected, scale_of(at->second), t, d);
  }
  return d;
}

Difference difference(const graph::TrainingGraph&, const Trained& found, const Trained& whole) {
  Difference d;
  d.losses = loss_difference(found.losses, whole.losses);
  for (const auto& [t, expected] : whole.stored) compare(found.stored.at(t), expected, scale_of(expected), t, d);
  return d;
}

}  // namespace rehearsal::property
