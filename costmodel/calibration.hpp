#pragma once
// What was measured on a machine, in which circumstances, and what was fitted to it. Stored as JSON.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"
#include "costmodel/kernel_choices.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::costmodel {

/// What identifies a kernel's cost: everything that its time depends on, and nothing of the model it comes from.
struct KernelCase {
  std::string op;              ///< operator row
  std::string implementation;  ///< as the Backend named it; "" on devices that are not here
  std::string signature;       ///< attributes, local shapes and formats: two kernels with equal signature take equal time
  graph::CostFamily family = graph::CostFamily::Elementwise;
  graph::Work work;
  DType dtype = DType::F32;
  int threads = 1;

  /// Kernels of equal keys are measured together.
  [[nodiscard]] auto key() const { return std::tie(op, implementation, signature, dtype, threads); }
};

/// The implementation of kernels that are asked about on a device that is not here (plan::TableBackend): whichever it was measured with.
inline constexpr std::string_view kAnyImplementation = "table";
/// How kernels end in name that round factors in f32 for tensor cores: they are apart from those that do not.
inline constexpr std::string_view kRoundingKernels = "-tf32";
/// How those end that convolve by Winograd's tiles. They multiply less often than the FLOPs of their taps say, and take so many times less
/// by the datasheet: four times less for 4 x 4 results at once, without what the transforms take (Lavin and Gray, CVPR 2016).
inline constexpr std::string_view kTiledKernels = ":winograd";
inline constexpr double kTiledSaving = 2.7;
/// And those that add up gradients of depthwise weights, at a rate that says nothing of kernels which sum over channels.
inline constexpr std::string_view kDepthwiseKernels = ":depthwise";
/// What stands for all kernels of the same arithmetic, whatever they are called.
[[nodiscard]] inline std::string_view any_kernel(std::string_view implementation) {
  for (const auto ending : {kRoundingKernels, kTiledKernels, kDepthwiseKernels})
    if (implementation.ends_with(ending)) return ending;
  return {};
}

/// True of kernels of a library that stands beside another version of itself: "onednn3.2:matmul".
[[nodiscard]] inline bool names_version(std::string_view implementation) {
  const auto colon = implementation.rfind(':');
  return colon != std::string_view::npos && colon > 0 && implementation[colon - 1] >= '0' && implementation[colon - 1] <= '9';
}
/// What it is called without: "onednn:matmul".
[[nodiscard]] inline std::string without_version(std::string_view implementation) {
  const auto colon = implementation.rfind(':');
  const auto end = implementation.find_last_not_of("0123456789.", colon - 1) + 1;
  return std::string(implementation.substr(0, end)) + std::string(implementation.substr(colon));
}

/// Robust statistics of repeated measurements of one kernel: of thread CPU time (per thread) and of the wall clock.
struct Sample {
  KernelCase kernel;
  std::int64_t count = 0;  ///< repetitions, over all bursts
  Seconds cpu_min, cpu_quartile, cpu_median;
  Seconds wall_min, wall_median;
  double spread = 0;           ///< standard deviation of log(time), robust (from quartiles)
  bool from_training = false;  ///< learned from a trace rather than from a micro-benchmark
};

/// t = max(flops / flop_rate, bytes / byte_rate) + overhead, times exp(N(0, log_error)): fitted per family, type and threads.
struct FamilyFit {
  std::string op;  ///< "" for the family's general fit, else of one operator row; its implementation is any_kernel()'s then, or its own
  std::string implementation;
  graph::CostFamily family = graph::CostFamily::Elementwise;
  DType dtype = DType::F32;
  int threads = 1;
  FlopsPerSecond flop_rate;
  BytesPerSecond byte_rate;
  Seconds overhead;
  double log_error = 0;  ///< residual of the fit
  std::int64_t samples = 0;
};

/// Messages between two ranks, and all-reduces, as measured.
struct LinkSample {
  std::string what;  ///< "point-to-point" (ranks of one node), "between nodes" or an all-reduce algorithm
  int ranks = 2;
  Bytes size;
  Seconds seconds;
  double spread = 0;
};
struct LinkFit {
  Seconds latency;
  BytesPerSecond bandwidth;
  BytesPerSecond reduction;  ///< adding received bytes
  double log_error = 0.3;
};

/// Corrections that were learned from traces: factors on what the fits say, by mechanism and operator kind.
struct Correction {
  std::string scope;  ///< "op:Conv", "family:convolution", "communication", "step": what it applies to
  int threads = 0;    ///< 0: any
  double factor = 1.0;
  double log_error = 0.1;         ///< what is left after correcting
  std::int64_t observations = 0;  ///< shrunk towards 1 while few
};

/// Context of a calibration of a GPU: which.
inline constexpr std::string_view kGpuItem = "gpu";
/// The same of processors, in every calibration and trace of this machine's cores.
inline constexpr std::string_view kCpuItem = "cpu";

struct MachineContext {
  std::map<std::string, std::string> items;  ///< host, cpu, cores, caches, load, date, build type, library versions
  /// Empty where nothing says it.
  [[nodiscard]] std::string item(std::string_view name) const;
};

struct Calibration {
  int schema = 1;
  MachineContext context;
  std::vector<Sample> samples;
  std::vector<FamilyFit> fits;
  std::vector<LinkSample> link_samples;
  LinkFit link;                      ///< between ranks of one node
  std::optional<LinkFit> node_link;  ///< between nodes, where several were measured; reduction as in `link`
  std::vector<Correction> corrections;
  KernelChoices choices;
  [[nodiscard]] bool empty() const { return samples.empty() && fits.empty(); }
};

[[nodiscard]] std::string_view family_name(graph::CostFamily);  ///< "convolution"

/// What applies to a kernel that was not itself seen in training: its operator's correction, else its family's; null: none.
[[nodiscard]] const Correction* correction_for(const Calibration&, const KernelCase&);

/// Reads the "calibration" part of machine.json. Throws BadInput naming file and key.
[[nodiscard]] Calibration read_calibration(const std::string& path);
/// Whether it is a file, of a platform say, that holds a calibration, too, as `rehearse calibrate` writes it.
[[nodiscard]] bool holds_calibration(const std::string& path);
/// JSON text of the calibration part alone.
[[nodiscard]] std::string to_json_text(const Calibration&);
[[nodiscard]] Calibration calibration_from_json_text(const std::string& text, const std::string& where);

/// Fits `fits`, `link` and `node_link` to the samples (robust least squares of relative errors). Samples from training are first divided by
/// the correction of their operator, so that fits speak of micro-benchmarks throughout and corrections apply to all that is fitted.
void fit(Calibration&);

}  // namespace rehearsal::costmodel
