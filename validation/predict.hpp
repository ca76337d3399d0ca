#pragma once
// Records answered by the closed form.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/constants.hpp"
#include "costmodel/network.hpp"
#include "graph/graph.hpp"
#include "predict/frameworks/compose.hpp"
#include "predict/frameworks/memory.hpp"
#include "validation/job.hpp"

namespace rehearsal::validation {

/// A collective of its own, as nccl-tests measure it.
struct CollectiveQuestion {
  costmodel::CollectiveKind kind = costmodel::CollectiveKind::AllReduce;
  double bytes = 0;
  int ranks = 1;
};

/// Everything of a record that no fitted constant enters: asked again and again by a fit.
struct Prepared {
  RecordJob job;
  std::optional<CollectiveQuestion> collective;
  predict::frameworks::ModelRows rows;
  std::optional<costmodel::Network> network;
  predict::frameworks::JobMemory memory;
  double plain_activations = 0;    ///< bytes; with neither recomputation nor sequence parallelism
  bool sums_over_devices = false;  ///< the record's memory is of all accelerators together
  [[nodiscard]] predict::frameworks::AnalyticJob analytic() const;
};

/// Keeps the graphs of the last models, since records of one model stand together.
class Preparer {
 public:
  /// Throws Refusal naming the key of the record.
  [[nodiscard]] Prepared prepare(const Record&);

 private:
  std::shared_ptr<const graph::Graph> built(const std::string& reference, std::int64_t batch);
  std::vector<std::pair<std::string, std::shared_ptr<const graph::Graph>>> graphs_;
};

/// Quantities under the names of a record's `measured`. Energy of runs uses the measured minutes where only they say how long it took.
struct Answer {
  std::map<std::string, double, std::less<>> values;
  predict::frameworks::StepTime step;
};
[[nodiscard]] Answer answer(const Prepared&, const Record&, const costmodel::Constants&);

}  // namespace rehearsal::validation
