#pragma once
// Samples for a device that is not the host. They are read into memory of the host from which the device copies quickly; those that are
// wanted next are read while the device computes.

#include <future>
#include <map>
#include <memory>

#include "exec/kernels/compute_device.hpp"
#include "exec/play/sample_loading.hpp"

namespace rehearsal::exec {

/// Of one rank. What it refers to must outlive it.
class StagedSamples {
 public:
  StagedSamples(const SampleLoading& loading, ComputeDevice& device) : loading_(loading), device_(device) {}

  struct SampleLoad {
    const plan::Buffer& buffer;
    const graph::TensorType& type;  ///< local
    SampleLoading::MicroBatchOfStep place;
    int passes = 1;  ///< that load it in a step, of the same type; 0: the next one is of another
  };
  /// To memory of the device. Throws what reading the samples throws.
  void load(DataSource&, const SampleLoad&, void* to);

  /// While it lives, samples may be read ahead; its end waits for them, so that a source may go when a step has ended.
  class ReadingAhead {
   public:
    explicit ReadingAhead(StagedSamples& staged) : staged_(staged) {}
    ~ReadingAhead() { staged_.wait(); }
    ReadingAhead(const ReadingAhead&) = delete;
    ReadingAhead& operator=(const ReadingAhead&) = delete;

   private:
    StagedSamples& staged_;
  };

 private:
  /// What was read ahead, and of which source; memory without samples otherwise.
  struct StagedSample {
    std::unique_ptr<DeviceMemory> memory;
    const DataSource* source = nullptr;
    plan::SampleRange samples{};
    std::shared_future<void> reading;  ///< what was begun last
  };
  StagedSample& place_for(const SampleLoad&);
  void read(DataSource&, const SampleLoad&, StagedSample&) const;
  void read_ahead(DataSource&, const SampleLoad&, StagedSample&);
  void wait();

  const SampleLoading& loading_;
  ComputeDevice& device_;
  std::map<const plan::Buffer*, StagedSample> staged_;
  std::shared_future<void> last_;  ///< of all: sources are read by one thread at a time
};

}  // namespace rehearsal::exec
