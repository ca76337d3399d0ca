#include "cli/commands/bench_step.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/bench/measured.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/narrow.hpp"
#include "exec/trainer.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/memory/under_way.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Share {
  double seconds = 0, flops = 0;
  std::int64_t nodes = 0;
};
/// By operator and implementation.
using Shares = std::map<std::pair<std::string, std::string>, Share>;

std::vector<std::optional<graph::TensorType>> types_of(const plan::Role& role, const std::vector<plan::BufferIndex>& buffers) {
  std::vector<std::optional<graph::TensorType>> types;
  for (const auto b : buffers)
    types.push_back(b == plan::kNoBuffer ? std::nullopt
                                         : std::optional(graph::TensorType{role.buffers[b].dtype, role.buffers[b].shapes.front()}));
  return types;
}

/// An instruction that computed, and how long.
struct Computed {
  std::string op, implementation, name;
  DType dtype = DType::F32;
  double seconds = 0;
  graph::Work work = {};  ///< of what is no kernel its bytes alone
};

double bytes_of(const std::vector<std::optional<graph::TensorType>>& types) {
  double bytes = 0;
  for (const auto& type : types) bytes += type ? graph::size_of(*type).value() : 0;
  return bytes;
}

Computed computed(const predict::TimedInstruction& played, const plan::Role& role, const graph::Graph& g) {
  const auto& i = role.bodies[played.body].instructions[played.instruction];
  const auto inputs = types_of(role, i.inputs), outputs = types_of(role, i.outputs);
  Computed c{std::string(plan::name(i.kind)), "", i.tensor == graph::TensorId::None ? "" : g[i.tensor].name};
  c.seconds = played.end - played.begin;
  c.work.bytes = Bytes(bytes_of(inputs) + bytes_of(outputs));
  if (i.kind != plan::InstructionKind::Kernel) return c;
  const auto& schema = plan::schema_of(role, i, g[i.node]);
  c.op = schema.name;
  c.implementation = role.kernels[static_cast<std::size_t>(i.kernel)].implementation;
  c.name = g[i.node].name;
  for (const auto& types : {inputs, outputs})
    for (const auto& type : types)
      if (type && exec::is_narrow(type->dtype)) c.dtype = type->dtype;
  if (!inputs.empty() && inputs.front() && inputs.front()->dtype == DType::F64) c.dtype = DType::F64;
  c.work = graph::work_of(schema, {inputs, outputs, plan::attributes_of(role, i, g[i.node])});
  return c;
}

std::vector<Computed> all_computed(const exec::StepResult& result, const plan::Role& role, const graph::Graph& g) {
  std::vector<Computed> all;
  for (const auto& played : result.played)
    if (!plan::communicates(role.bodies[played.body].instructions[played.instruction])) all.push_back(computed(played, role, g));
  return all;
}

Shares shares_of(const std::vector<Computed>& all) {
  Shares shares;
  for (const auto& c : all) {
    auto& share = shares[{c.op, c.implementation}];
    share.seconds += c.seconds;
    share.flops += c.implementation.empty() ? 0 : c.work.flops.value();
    ++share.nodes;
  }
  return shares;
}

bool is_reference(const std::string& implementation) { return implementation.find("reference:") != std::string::npos; }

/// What takes longest first.
Json operators_json(const Shares& shares, double seconds, double peak) {
  std::vector<std::pair<std::pair<std::string, std::string>, Share>> sorted(shares.begin(), shares.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  Json operators = Json::array();
  for (const auto& [key, share] : sorted)
    operators.push_back({{"op", key.first},
                         {"implementation", key.second},
                         {"nodes", share.nodes},
                         {"share", share.seconds / seconds},
                         {"share_of_peak", share.flops / share.seconds / peak}});
  return operators;
}

/// What one core can do.
class Ceilings {
 public:
  Ceilings(const exec::bench::CoreLimits& limits, const exec::CpuBackend& backend) : limits_(limits) {
    for (const auto type : {DType::BF16, DType::F16})
      // What large products reach, where the machine has no units for the type and computes in f32.
      rates_[type] = std::max(limits.f32.value(), exec::bench::product_rate(backend, type).value());
  }
  [[nodiscard]] double flops(DType type) const {
    if (const auto narrow = rates_.find(type); narrow != rates_.end()) return narrow->second;
    return (type == DType::F64 ? limits_.f64 : limits_.f32).value();
  }
  [[nodiscard]] double bytes() const { return limits_.memory.value(); }

 private:
  exec::bench::CoreLimits limits_;
  std::map<DType, double> rates_;
};

/// The instructions that lose most, and what all lose together.
Json roofline(const std::vector<Computed>& all, const Ceilings& ceilings) {
  constexpr std::size_t kMostRows = 25;
  struct Placed {
    const Computed* what;
    double compute, memory;  ///< seconds at the ceilings
    [[nodiscard]] double least() const { return std::max(compute, memory); }
    [[nodiscard]] double lost() const { return what->seconds - least(); }
  };
  std::vector<Placed> placed;
  double seconds = 0, least = 0;
  for (const auto& c : all) {
    placed.push_back({&c, c.work.flops.value() / ceilings.flops(c.dtype), c.work.bytes.value() / ceilings.bytes()});
    seconds += c.seconds;
    least += placed.back().least();
  }
  std::ranges::sort(placed, std::greater(), &Placed::lost);
  Json rows = Json::array();
  for (const auto& p : std::span(placed).first(std::min(placed.size(), kMostRows)))
    rows.push_back({{"op", p.what->op},
                    {"name", p.what->name},
                    {"implementation", p.what->implementation},
                    {"dtype", name(p.what->dtype)},
                    {"measured_seconds", p.what->seconds},
                    {"least_seconds", p.least()},
                    {"lost_seconds", p.lost()},
                    {"bound", p.compute > p.memory ? "arithmetic" : "memory"},
                    {"share_of_bound", p.least() / p.what->seconds}});
  return {{"memory_bytes_per_second", ceilings.bytes()},
          {"f32_flops_per_second", ceilings.flops(DType::F32)},
          {"bf16_flops_per_second", ceilings.flops(DType::BF16)},
          {"instructions", all.size()},
          {"share_of_bound", least / seconds},
          {"losses", rows}};
}

/// The fastest of some steps.
struct Fastest {
  double seconds = HUGE_VAL;
  std::vector<Computed> computed;
};
Fastest fastest_step(const StepBenchmark& o, const graph::TrainingGraph& training, const exec::CpuBackend& backend) {
  exec::MpiSession mpi;
  if (mpi.world().size() > 1) throw BadInput("bench step", "runs in one process; start it without mpirun");
  const auto program = plan::lower(training, plan::Plan{}, backend, {});
  const exec::Training job{program, training, mpi.world()};
  exec::Executor executor(job, backend, {1, o.model.seed});
  const auto data = exec::synthetic_data(training, o.model.seed);
  Fastest fastest;
  for (std::int64_t n = 0; n < o.steps; ++n) {
    const auto result = executor.step({{n, n + 1}, n, true, {}}, *data);
    if (result.end - result.begin >= fastest.seconds) continue;
    fastest = {result.end - result.begin, all_computed(result, program.roles.front(), training.graph)};
  }
  return fastest;
}

}  // namespace

Json step_benchmark(const StepBenchmark& o) {
  require_kernels_for(o.model.dtype);
  if (o.model.dtype == "tf32") throw Refusal("--dtype tf32: a benchmark of a step runs on processors, which do not compute in it; use f32");
  std::vector<std::string> warnings;
  auto model = o.model;
  if (!model.batch) model.batch = 8;
  const auto training = load_training(model, warnings);
  const exec::CpuBackend backend(element_type(model) == DType::F64 ? "reference" : "auto");
  const auto step = fastest_step({model, o.steps, o.roofline}, training, backend);
  const auto limits = exec::bench::measure_core(0.4);
  const double best = (element_type(model) == DType::F64 ? limits.f64 : limits.f32).value();
  double seconds = 0, flops = 0, reference = 0;
  for (const auto& c : step.computed) {
    seconds += c.seconds;
    flops += c.implementation.empty() ? 0 : c.work.flops.value();
    if (is_reference(c.implementation)) reference += c.seconds;
  }
  Json result{{"model", model.model},
              {"batch", training.batch},
              {"threads", 1},
              {"step_seconds", step.seconds},
              {"yardstick", "multiply-adds of one core in registers"},
              {"yardstick_flops_per_second", best},
              {"ratio", flops / step.seconds / best},
              {"share_in_reference_kernels", reference / seconds},
              {"operators", operators_json(shares_of(step.computed), seconds, best)}};
  if (o.roofline) result["roofline"] = roofline(step.computed, Ceilings(limits, backend));
  return result;
}

}  // namespace rehearsal::cli
