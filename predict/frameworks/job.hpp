#pragma once
// A training job in the terms of the closed form: degrees of parallelism and how the step is run.

#include <cstdint>
#include <string>

#include "costmodel/accelerator.hpp"
#include "costmodel/framework.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::predict::frameworks {

enum class Recompute : std::uint8_t {
  None,
  Full,            ///< every block once more
  FullExceptLast,  ///< GPipe's: not for the last micro-batch
  Selective,       ///< the attention core
  SelectiveOps,    ///< half of the products and all element-wise operators
};
/// Throws BadInput listing the kinds.
[[nodiscard]] Recompute recompute_from_text(const std::string&);

struct ParallelPlan {
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  int interleave = 1;
  double micro_batch = 1;    ///< samples; below 1: a sample is split over ranks
  double micro_batches = 1;  ///< per replica and step
  double global_batch = 1;
  int zero = 0;
  bool keeps_gathered = false;  ///< ZeRO-3 that gathers parameters once a step (SHARD_GRAD_OP)
  bool fp32_reduction = false;  ///< sharded gradients are reduced in fp32
  Recompute recompute = Recompute::None;
  bool sequence_parallel = false;
  bool gpipe = false;
  bool gradient_overlap = true;
  double tensor_overlap = -1;    ///< 0 off, 1 on, below 0: as the framework does
  bool parallel_blocks = false;  ///< attention and MLP share one reduction
  double attention_window = 0;   ///< tokens; 0: all
  double trained_share = 1;      ///< of the parameters (LoRA)
  bool parameter_servers = false;
  bool channels_last = true;
  bool channels_last_single = false;  ///< the same for 32-bit tensors
  std::string optimizer = "adam";
};

struct AnalyticJob {
  const platforms::Platform& platform;
  const costmodel::FrameworkProfile& framework;
  costmodel::Precision precision;
  ParallelPlan plan;
  double power_limit = 0;  ///< watts a device may draw; 0: what its datasheet says
  [[nodiscard]] const platforms::Device& device() const { return platform.nodes.front().device; }
};

}  // namespace rehearsal::predict::frameworks
