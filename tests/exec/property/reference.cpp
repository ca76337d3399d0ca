#include "tests/exec/property/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "exec/data/data.hpp"
#include "exec/interpreter.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::property {
namespace {

using graph::Role;
using graph::TensorId;

bool is_stored(const graph::Tensor& t) {
  return (t.role == Role::Parameter || t.role == Role::Slot || t.role == Role::State) && is_float(t.type.dtype);
}

std::vector<double> reals(const std::byte* data, DType dtype, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t n = 0; n < values.size(); ++n)
    values[n] =
        dtype == DType::F64 ? reinterpret_cast<const double*>(data)[n] : static_cast<double>(reinterpret_cast<const float*>(data)[n]);
  return values;
}

/// Rounding happens in every step: to what is trained, and to what comes in.
template <class Run>
void disturb(Run& run, const graph::TrainingGraph& training, std::uint64_t noise) {
  const auto move = [&](TensorId t) {
    if (!is_float(training.graph[t].type.dtype)) return;
    auto values = run.get_reals(t);
    const bool wide = training.graph[t].type.dtype == DType::F64;
    const double unit = wide ? std::numeric_limits<double>::epsilon() : static_cast<double>(std::numeric_limits<float>::epsilon());
    for (std::size_t n = 0; n < values.size(); ++n) values[n] *= (random_bits(noise, graph::index(t), n) & 1U) != 0 ? 1 + unit : 1 - unit;
    run.set_reals(t, values);
  };
  for (const auto& p : training.parameters) move(p.value);
  for (const TensorId t : training.graph.inputs()) move(t);
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

template <class Run>
Trained train_by(Run& run, const graph::TrainingGraph& training, std::int64_t steps, std::uint64_t noise) {
  const auto& g = training.graph;
  const auto data = exec::synthetic_data(training, 1);
  Trained trained;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const auto t : g.inputs()) {
      const auto& type = g[t].type;
      std::vector<std::byte> samples(static_cast<std::size_t>(graph::size_of(type).value()));
      data->read({g[t].name, type, step, 0, type.shape.front()}, samples.data());
      run.set(t, samples);
    }
    if (noise != 0) disturb(run, training, noise + 100 * static_cast<std::uint64_t>(step));
    run.run(step);
    trained.losses.push_back(run.get_reals(training.loss).front());
  }
  for (std::size_t t = 0; t < g.tensors().size(); ++t)
    if (is_stored(g.tensors()[t])) trained.stored[static_cast<TensorId>(t)] = run.get_reals(static_cast<TensorId>(t));
  return trained;
}

}  // namespace

Trained train_whole(const graph::TrainingGraph& training, std::int64_t steps, const SampleGroups& groups, std::uint64_t noise) {
  if (groups.empty()) {
    exec::Interpreter run(training.graph);
    return train_by(run, training, steps, noise);
  }
  GroupedRun run(training.graph, groups);
  return train_by(run, training, steps, noise);
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
