#pragma once
// Bandwidth and latency of a platform's links from measured collectives: those with which our own costs of them come nearest.

#include <string>
#include <vector>

#include "exchange/logs/collective_log.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::exchange {

struct FittedFigure {
  std::string name;           ///< "nic.bandwidth", as platforms/settings.hpp names it
  std::string before, after;  ///< with unit
  bool has_effect = true;     ///< no time of the log depends on it otherwise, and it is left as it was
};

struct FitRow {
  Bytes size;
  Seconds measured, before, after;
};

struct LogFit {
  platforms::Platform platform;  ///< with the figures fitted; their source names the log
  std::vector<FittedFigure> figures;
  std::vector<FitRow> rows;                                 ///< of the samples
  double mean_before = 0, mean_after = 0, worst_after = 0;  ///< of |predicted / measured - 1|
};

/// Ranks are the first devices of the platform, as `rehearse collective` takes them; what it calls `auto` is what is fitted: the vendor's
/// library on accelerators, our quickest algorithm on processors. Within a node the wiring inside it is fitted, else its cards. The sum of
/// squares of ln(predicted / measured) is least. `ranks_per_node`: of a message, 1 where it crosses the network.
/// Throws BadInput where the log says otherwise, Refusal where the platform's first devices are not laid out as the log's ranks.
[[nodiscard]] LogFit fit_links(const platforms::Platform&, const CollectiveLog&, const std::string& source,
                               std::optional<int> ranks_per_node);

}  // namespace rehearsal::exchange
