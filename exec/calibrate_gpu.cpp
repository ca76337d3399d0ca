#include <algorithm>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/bench/measured.hpp"
#include "exec/calibrate.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::int64_t kBeyondCaches = std::int64_t{256} << 20;
constexpr std::int64_t kMostBytes = std::int64_t{12} << 30;  ///< of one kernel's operands and results
constexpr std::size_t kRuns = 6;                             ///< of every kernel; the first is left out
constexpr std::string_view kHostKernel = "host:";

double bytes_of_case(const bench::Case& c) {
  double bytes = 0;
  for (const auto& type : c.inputs) bytes += type ? graph::size_of(*type).value() : 0;
  return bytes;
}

bool is_product(const bench::Case& c) { return c.op == "MatMul" || c.op == "Gemm" || c.op.starts_with("Conv"); }
bool is_f32(const bench::Case& c) {
  return std::ranges::all_of(c.inputs, [](const auto& type) { return !type || type->dtype != DType::BF16; });
}

/// What the GPU has a kernel for of its own, made ready; nothing else.
std::optional<bench::Measured> ready(const bench::Case& c, const ComputeBackend& backend) {
  if (bytes_of_case(c) > static_cast<double>(kMostBytes) / 3) return std::nullopt;
  try {
    bench::Measured measured(c, backend, 1);
    if (measured.kernel().implementation.starts_with(kHostKernel)) return std::nullopt;
    return measured;
  } catch (const Refusal&) {
    return std::nullopt;
  }
}

struct Measuring {
  const DeviceMemory& other;
  costmodel::Calibration& calibration;
  std::vector<double> issues;  ///< seconds in which the host asked for a kernel

  void measure(bench::Measured& kernel) {
    for (std::size_t run = 0; run < kRuns; ++run) kernel.run_behind(other);
    const auto counted = std::span(kernel.runs()).subspan(1);
    calibration.samples.push_back(bench::sample_of(kernel.kernel(), counted));
    for (const auto& run : counted) issues.push_back(run.issue);
  }
};

/// The machine of the catalogue that has this GPU, one of them.
platforms::Platform platform_of(const std::string& gpu) {
  const auto* known = platforms::find_device(gpu);
  if (known == nullptr)
    throw Refusal("calibrate: " + gpu + " is no device of the catalogue, whose datasheets say what is not measured (memory, links, power)");
  return platforms::with_devices(platforms::load(known->name), 1);
}

}  // namespace

CalibrationResult calibrate_gpu(const GpuArithmetics& gpu, const CalibrationBudget& budget, Progress& progress) {
  refuse_debug_build();
  auto& device = gpu.f32.device();
  CalibrationResult result{platform_of(device.name()), {}};
  auto& c = result.calibration;
  c.context = bench::describe_machine();
  c.context.items[std::string(costmodel::kGpuItem)] = device.name();
  const DeviceMemory other(device, kBeyondCaches);
  Measuring measuring{other, c, {}};
  const auto cases = bench::sweep_of_gpus(budget.thorough);
  const double begin = now_seconds();
  for (std::size_t i = 0; i < cases.size() && !progress.stop_requested(); ++i) {
    if (now_seconds() - begin > budget.seconds) break;
    if (auto kernel = ready(cases[i], gpu.f32)) measuring.measure(*kernel);
    if (gpu.tf32 != nullptr && is_product(cases[i]) && is_f32(cases[i]))
      if (auto kernel = ready(cases[i], *gpu.tf32)) measuring.measure(*kernel);
    progress.advance("kernels", static_cast<double>(i + 1), static_cast<double>(cases.size()));
  }
  if (c.samples.empty() && !progress.stop_requested()) throw EnvironmentFailure("calibrate: no kernel was measured on " + device.name());
  costmodel::fit(c);
  for (auto& node : result.platform.nodes)
    node.device.launch_overhead = {Seconds(median_of(measuring.issues)), "measured by rehearse calibrate: the host asking for a kernel"};
  return result;
}

}  // namespace rehearsal::exec
