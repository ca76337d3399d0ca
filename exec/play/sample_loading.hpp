#pragma once
// What a Load instruction does: this rank's part of the samples of a micro-batch.

#include <cstdint>
#include <vector>

#include "exec/data/data.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

/// Of one rank. What it refers to must outlive it.
class SampleLoading {
 public:
  SampleLoading(const plan::Program&, const graph::Graph&, int rank);

  /// `step` began with sample number `first` of the training; later ones follow.
  void continue_at(std::int64_t step, std::int64_t first) { step_ = step, first_ = first; }
  struct MicroBatchOfStep {
    std::int64_t step = 0;
    int micro_batch = 0;  ///< 0 where an input is loaded once a step
  };
  /// The first sample of which the rank has a part, and how many there are.
  [[nodiscard]] plan::SampleRange samples(const plan::Buffer&, const MicroBatchOfStep&) const;
  /// Of the batch, the first of this rank's micro-batch.
  [[nodiscard]] std::int64_t first_of_batch(int micro_batch) const { return first_of_[static_cast<std::size_t>(micro_batch)]; }
  /// Where this rank wants a part of each sample, that is read alone; a source that cannot has room for one whole sample at a time.
  void load(DataSource&, const plan::Buffer&, const graph::TensorType& local, const MicroBatchOfStep&, void* to) const;

 private:
  [[nodiscard]] std::int64_t sample(const MicroBatchOfStep& place, std::int64_t row) const {
    return first_ + (place.step - step_) * program_.batch + row;
  }
  [[nodiscard]] plan::Region region(const plan::Buffer&, const MicroBatchOfStep&) const;

  const plan::Program& program_;
  const graph::Graph& g_;
  int rank_;
  std::int64_t step_ = 0, first_ = 0;
  std::vector<std::int64_t> first_of_;  ///< by micro-batch
};

}  // namespace rehearsal::exec
