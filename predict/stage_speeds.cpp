#include "predict/stage_speeds.hpp"

#include <algorithm>
#include <limits>

#include "graph/op_schema.hpp"
#include "plan/sharding/fusion.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::predict {
namespace {

/// A kernel with nothing to do, and of no shape that was measured.
Seconds launch_of(costmodel::KernelCase kernel, const costmodel::CostModel& model) {
  kernel.work = {};
  kernel.signature.clear();
  return model.kernel(kernel).seconds;
}

/// Sums over kernels of one kind, beside their launches.
struct KernelSums {
  double work = 0, seconds = 0;  ///< FLOPs or bytes
  [[nodiscard]] double rate() const { return seconds > 0 && work > 0 ? work / seconds : std::numeric_limits<double>::infinity(); }
};

}  // namespace

plan::StageSpeed speed_of_operators(const Workload& job, const costmodel::CostModel& model) {
  const auto& g = job.training.graph;
  auto whole = plan::shard(job.training, job.dims, {});
  if (job.backend.fuses_attention()) plan::fuse_attention(job.training, whole);
  KernelSums products, others;
  Seconds launches;
  double kernels = 0;
  for (std::size_t n = 0; n < g.nodes().size(); ++n) {
    const auto& node = g.nodes()[n];
    const auto& schema = graph::schema(node);
    if (whole.fused_at(static_cast<graph::NodeId>(n)) != nullptr || schema.family == graph::CostFamily::View) continue;
    const graph::NodeTypes types(g, node);
    const auto kernel = kernel_case({schema, types.view(), {}}, 1);
    const bool is_product = kernel.family == graph::CostFamily::MatMul || kernel.family == graph::CostFamily::Convolution;
    const auto launch = launch_of(kernel, model);
    auto& sums = is_product ? products : others;
    sums.work += is_product ? kernel.work.flops.value() : kernel.work.bytes.value();
    sums.seconds += std::max(0.0, (model.kernel(kernel).seconds - launch).value());
    launches += launch;
    ++kernels;
  }
  return {FlopsPerSecond(products.rate()), BytesPerSecond(others.rate()), launches / std::max(1.0, kernels)};
}

std::vector<plan::StageSpeed> stage_speeds(const Workload& job, const plan::Plan& plan) {
  auto& of_group = job.facts->speeds;
  if (of_group.empty())
    for (const auto* model : job.models) of_group.push_back(speed_of_operators(job, *model));
  std::vector<plan::StageSpeed> speeds(static_cast<std::size_t>(plan.pp), of_group.front());
  int stride = 1;
  for (const auto& axis : plan::mesh_of(plan))
    if (axis.name == "pp") stride = axis.stride;
  std::vector<bool> known(speeds.size(), false);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto stage = static_cast<std::size_t>(rank / stride % plan.pp);
    const auto& own = of_group[static_cast<std::size_t>(platforms::place(job.platform, rank).group)];
    if (!known[stage] || own.flops < speeds[stage].flops) speeds[stage] = own;
    known[stage] = true;
  }
  return speeds;
}

}  // namespace rehearsal::predict
