#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/importing.hpp"
#include "exchange/kineto/kineto.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

double seconds(std::int64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

/// The collectives of a trace, or in their place why they are left out, unless they were asked for.
void add_collectives(const exchange::KinetoTrace& trace, bool wanted, Json& result) {
  try {
    Json list = Json::array();
    for (const auto& sum : exchange::collectives(trace))
      list.push_back({{"name", sum.name},
                      {"ranks", sum.group},
                      {"message_bytes", sum.bytes},
                      {"count", sum.count},
                      {"seconds", seconds(sum.microseconds)}});
    result["collectives"] = std::move(list);
  } catch (const Refusal& refusal) {
    if (wanted) throw;
    result["collectives_are"] = std::string("left out: ") + refusal.what();
  }
}

Json json_of(const exchange::TimeBreakdown& times) {
  return {{"total_seconds", seconds(times.total())},
          {"idle_seconds", seconds(times.idle)},
          {"compute_seconds", seconds(times.compute)},
          {"non_compute_seconds", seconds(times.non_compute)},
          {"communication_seconds", seconds(times.communication)},
          {"overlap_seconds", seconds(times.overlap)}};
}

Json json_of_steps(const std::vector<double>& steps) {
  const auto [least, most] = std::ranges::minmax(steps);
  const auto count = static_cast<double>(steps.size());
  const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / count;
  double squares = 0;
  for (const double step : steps) squares += (step - mean) * (step - mean);
  return {{"count", steps.size()},
          {"mean_seconds", mean},
          {"deviation_seconds", std::sqrt(squares / count)},
          {"least_seconds", least},
          {"most_seconds", most}};
}

}  // namespace

int import_profile(const ImportOptions& o, Terminal& terminal) {
  if (!o.output.empty())
    throw Refusal("-o: kernels of PyTorch are no instructions of a Program of ours, so there is no trace to write; leave it out");
  std::ifstream in(o.file, std::ios::binary);
  const auto trace = exchange::read_kineto(in, o.file);
  Json result{{"schema", 1}, {"file", o.file}, {"is", "profile of PyTorch"}};
  if (trace.rank) result["rank"] = *trace.rank;
  if (trace.ranks) result["ranks"] = *trace.ranks;
  result["gpu_events"] = trace.events.size();
  if (!trace.step_seconds.empty()) result["steps"] = json_of_steps(trace.step_seconds);
  result["breakdown"] = json_of(exchange::breakdown(trace));
  add_collectives(trace, o.collectives, result);
  terminal.print(result);
  return 0;
}

}  // namespace rehearsal::cli
