#pragma once
// Samples in the order of a training, read ahead and prepared by threads.

#include <memory>
#include <vector>

#include "exec/data/dataset.hpp"
#include "exec/data/order.hpp"

namespace rehearsal::exec {

struct LoaderOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  int threads = 1;         ///< 0: nothing is read ahead
  std::int64_t batch = 1;  ///< what is asked for now is asked for again that many samples later
};

/// A request is expected again one batch later, and the one after that: what was asked for in a step is under way for the next ones. A
/// wrong guess costs time alone. An error of a sample that was read ahead is thrown when the sample is asked for.
class Loader final : public DataSource {
 public:
  Loader(std::unique_ptr<const Dataset> dataset, std::vector<WantedTensor> wanted, const LoaderOptions& options);
  ~Loader() override;
  void read(const SampleRequest& request, void* out) override;
  [[nodiscard]] std::string origin_of(std::int64_t sample) override;
  [[nodiscard]] std::int64_t samples() const override;
  [[nodiscard]] bool reads_parts() const override { return true; }
  [[nodiscard]] DataFigures figures() const override;
  [[nodiscard]] std::string checksum() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::exec
