#pragma once
// One sample of a training, checked, in whatever part it is wanted.

#include <atomic>
#include <memory>
#include <vector>

#include "exec/data/dataset.hpp"
#include "exec/data/order.hpp"

namespace rehearsal::exec {

struct SampleSlot {
  std::size_t wanted = 0;
  std::int64_t sample = 0;             ///< number in the training
  const plan::Region* part = nullptr;  ///< see SampleRequest
};

/// By any number of threads at once.
class SampleReader {
 public:
  SampleReader(std::unique_ptr<const Dataset> dataset, std::vector<WantedTensor> wanted, const SampleOrder& order)
      : dataset_(std::move(dataset)), wanted_(std::move(wanted)), order_(order) {}

  [[nodiscard]] const Dataset& dataset() const { return *dataset_; }
  [[nodiscard]] const std::vector<WantedTensor>& wanted() const { return wanted_; }
  [[nodiscard]] std::size_t index_of(const std::string& input) const;
  [[nodiscard]] std::string origin_of(std::int64_t sample) const { return dataset_->origin_of(order_.row(sample)); }
  [[nodiscard]] std::int64_t bytes_of(std::size_t wanted, const plan::Region* part) const;  ///< of a sample
  /// Throws BadInput naming the file, also when a whole number is none of the model's classes.
  void read(const SampleSlot&, std::byte* out) const;
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_; }

 private:
  void check_classes(const WantedTensor&, const SampleSlot&, const std::byte* values) const;

  std::unique_ptr<const Dataset> dataset_;
  std::vector<WantedTensor> wanted_;
  SampleOrder order_;
  mutable std::atomic<std::int64_t> bytes_read_ = 0;
};

}  // namespace rehearsal::exec
