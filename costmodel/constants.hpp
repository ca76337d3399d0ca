#pragma once
// The fitted and fixed numbers of the accelerator model, read from costmodel/constants/accelerators.json. All else comes from shapes,
// datasheets and counts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "costmodel/evidence.hpp"

namespace rehearsal::costmodel {

/// One number of the model. Shares are of a datasheet figure; "us", "ms", "W" and "GiB" are the units of the file.
enum class Coefficient : std::uint8_t {
  Matmul16bitVolta,           ///< share of the 16-bit peak of Volta and Turing matrix units that large GEMMs reach
  Matmul16bitAmpere,          ///< the same, A100 class
  Matmul16bitHopper,          ///< the same, Hopper
  Matmul16bitBlackwell,       ///< the same, Blackwell of data centres
  Matmul16bitBlackwellUltra,  ///< the same, B300 and GB300
  Matmul16bitCdna,            ///< the same, AMD Instinct MI300 and later
  Matmul16bitConsumer,        ///< the same, GDDR boards of Ampere and Ada
  Matmul16bitOther,           ///< the same, generations without measurements
  MatmulCpu,                  ///< share of its peak that large products reach on a processor that nobody calibrated
  MatmulTf32,                 ///< share of the tf32 peak
  MatmulF32,                  ///< share of the fp32 peak of CUDA cores, Pascal and newer
  MatmulF32Old,               ///< the same, Kepler and Maxwell
  Convolution16bit,           ///< 16-bit convolution relative to GEMM
  ConvolutionF32,             ///< fp32 convolution relative to GEMM
  ConvolutionTf32,            ///< tf32 convolution relative to GEMM
  ConvolutionPascal,          ///< convolutions on Pascal relative to newer boards: libraries of its years
  Winograd,                   ///< fp32 Winograd convolution relative to GEMM, after dividing its FLOPs
  DepthwiseF32,               ///< share of the fp32 peak that depthwise convolutions reach
  BatchedMatmul,              ///< batched GEMM of plain attention relative to GEMM
  FlashAttention,             ///< flash attention of 2022 and 2023 relative to GEMM
  FlashAttentionTuned,        ///< attention kernels of cuDNN and Transformer Engine relative to GEMM
  FlashAttentionHopper,       ///< kernels written for Ampere, on Hopper, relative to GEMM
  MemoryGddrVolta,            ///< share of memory bandwidth, Volta, Turing and boards with GDDR
  MemoryPascal,               ///< share of memory bandwidth, Pascal and older
  MemoryAmpere,               ///< share of memory bandwidth, A100 class
  MemoryHopper,               ///< share of memory bandwidth, Hopper and newer
  MemoryCpu,                  ///< share of memory bandwidth, processors that nobody calibrated
  MemoryDepthwise,            ///< depthwise convolution bytes rate relative to other kernels
  ElementwiseUnoptimised,     ///< bytes moved over bytes counted by image networks where a framework fuses activations in the backward pass
                              ///< only (TensorFlow 1 without XLA)
  HostSecondsPerKernel,       ///< host time to issue one kernel of Megatron-style eager code, us
  HostEager,                  ///< the same, other eager execution, us
  HostStatic,                 ///< the same, executor of a static graph, us
  GapQueued,                  ///< device idle between two kernels that wait in its queue, us
  GapCaptured,                ///< the same, captured graph, us
  LinkNvlink,                 ///< share of NVLink bandwidth a ring reaches
  LinkPcie,                   ///< share of PCI Express bandwidth
  LinkInfiniband,             ///< share of the network card of InfiniBand
  LinkEthernet,               ///< share of the network card of Ethernet below 8 GB/s a node
  CollectiveMemoryPasses,     ///< passes of an all-reduce over device memory
  CollectiveLaunch,           ///< start of a collective, us
  CollectiveStep,             ///< one ring step inside a node, us
  CollectiveNodeStep,         ///< one step between nodes, us
  Congestion,                 ///< slow-down per doubling of nodes
  OverlapInterference,        ///< share of hidden communication that slows computation, hooks of DDP, Horovod, TensorFlow
  OverlapInterferenceTuned,   ///< the same, tuned code (MLPerf, NeMo, FSDP)
  ShardedOverlap,             ///< share of the shorter of computation and gathering that does not hide (ZeRO-3, FSDP)
  TensorOverlap,              ///< share of tensor-parallel communication hidden where overlap is on
  Spread,                     ///< slow-down of a step per doubling of nodes
  CoordinationHorovod,        ///< fixed cost of a data-parallel step, Horovod and TensorFlow, ms
  CoordinationDdp,            ///< the same, DDP, ms
  OptimizerBytes,             ///< bytes moved by an optimizer over bytes counted
  PowerBase,                  ///< share of (TDP - idle) of a busy device without matrix or memory work
  PowerMatrix,                ///< share added by matrix work
  PowerMemory,                ///< share added by memory work
  PowerPascal,                ///< power of Pascal and older relative to the model
  ClockFloor,                 ///< share of dynamic power below which the voltage is at its floor
  HostPower8,                 ///< everything but the devices in a node of 8, W
  MemoryReserveDeepspeed,     ///< GiB beyond tensors: NCCL, buckets, cache of Megatron-DeepSpeed
  MemoryFactorDeepspeed,      ///< device reading over tensors, Megatron-DeepSpeed
  MemoryReservePytorch,       ///< GiB beyond tensors, PyTorch
  MemoryFactorPytorch,        ///< device reading over tensors, PyTorch
  MemoryReserveStatic,        ///< GiB beyond tensors, static graphs
  MemoryFactorStatic,         ///< device reading over tensors, static graphs
  Count
};
inline constexpr std::size_t kCoefficients = static_cast<std::size_t>(Coefficient::Count);
[[nodiscard]] std::string_view name(Coefficient);

/// What a fit may do with a number, and where its value comes from.
struct CoefficientFacts {
  bool fitted = false;       ///< fixed otherwise
  double low = 0, high = 0;  ///< physical bounds
  double spread = 0.2;       ///< prior standard deviation of the logarithm
  double prior = 1;          ///< centre of the prior
  std::string meaning, source;
};

class Constants {
 public:
  [[nodiscard]] double operator[](Coefficient c) const { return values_[static_cast<std::size_t>(c)]; }
  void set(Coefficient c, double value) { values_[static_cast<std::size_t>(c)] = value; }

 private:
  std::array<double, kCoefficients> values_{};
};

struct ConstantsFile {
  Constants values;
  std::array<CoefficientFacts, kCoefficients> facts;
  FittedEvidence evidence;
  std::string frozen_date, frozen_commit;
};

/// Throws BadInput naming `where` and the number that is missing, unknown or outside its bounds.
[[nodiscard]] ConstantsFile constants_from_json_text(const std::string& text, const std::string& where);
[[nodiscard]] std::string to_json_text(const ConstantsFile&);
/// The numbers that travel inside the library.
[[nodiscard]] const ConstantsFile& published_constants();

}  // namespace rehearsal::costmodel
