#pragma once
// Looks at what an instruction made for numbers that are none, and says which tensor it is, who made it, and of which sample.

#include "exec/data/data.hpp"
#include "exec/host/non_finite.hpp"
#include "exec/play/operand_views.hpp"
#include "exec/play/sample_loading.hpp"

namespace rehearsal::exec {

/// All that it refers to must outlive it.
class NonFiniteLook {
 public:
  NonFiniteLook(const plan::Role& role, const graph::Graph& graph, const SampleLoading& loading, ComputeDevice& device)
      : role_(role), g_(graph), loading_(loading), device_(device) {}

  struct PassSamples {
    SampleLoading::MicroBatchOfStep place;
    DataSource& data;
    int micro_batch = 0;
    bool backward = false;
  };
  /// `operands`: those of the instruction.
  void look(NonFiniteWatch&, const plan::Instruction&, const OperandViews& operands, const PassSamples&) const;

 private:
  [[nodiscard]] BadTensor described(const plan::Instruction&, const graph::Shape& shape, std::size_t output, std::int64_t element,
                                    const PassSamples&) const;
  const plan::Role& role_;
  const graph::Graph& g_;
  const SampleLoading& loading_;
  ComputeDevice& device_;
};

}  // namespace rehearsal::exec
