#include "exec/calibrate.hpp"

#include <cstdlib>
#include <map>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/own_ranks.hpp"
#include "exec/comm/communicator.hpp"
#include "platforms/json.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string output = "machine.json";
  std::string worker;  ///< file for the result of the ranks that calibrate starts itself
  bool quick = false;
};

exec::CalibrationBudget budget_of(const Options& o) { return o.quick ? exec::quick_calibration() : exec::CalibrationBudget{}; }

/// One of the ranks that were started: rank 0 writes what all measured.
int work(const Options& o, Terminal& terminal) {
  return work_as_rank(terminal, "calibrating", [&](exec::Communicator& world, Progress& progress) {
    const auto result = exec::calibrate_together(world, budget_of(o), progress);
    if (world.rank() == 0) write_file_atomically(o.worker, exec::machine_json_text(result));
  });
}

Json families(const costmodel::Calibration& c) {
  auto rows = Json::array();
  for (const auto& fit : c.fits) {
    if (!fit.op.empty()) continue;
    rows.push_back({{"family", costmodel::family_name(fit.family)},
                    {"dtype", name(fit.dtype)},
                    {"threads", fit.threads},
                    {"samples", fit.samples},
                    {"residual", fit.log_error}});
  }
  return rows;
}

Json result_of(const Options& o, const exec::CalibrationResult& r, double seconds) {
  Json context;
  for (const auto& [key, value] : r.calibration.context.items) context[key] = value;
  const auto& link = r.calibration.link;
  const auto& device = r.platform.nodes.front().device;
  return {{"schema", 1},
          {"written", o.output},
          {"context", context},
          {"devices", platforms::device_count(r.platform)},
          {"peak_f32_flops_per_second", device.peak("f32")->value()},
          {"memory_bytes_per_second", device.memory_bandwidth.value.value()},
          {"families", families(r.calibration)},
          {"link",
           {{"latency_seconds", link.latency.value()},
            {"bandwidth_bytes_per_second", link.bandwidth.value()},
            {"reduction_bytes_per_second", link.reduction.value()},
            {"residual", link.log_error}}},
          {"seconds", seconds}};
}

int calibrate(const Options& o, Terminal& terminal) {
  if (exec::MpiSession::launched()) throw BadInput("calibrate", "start it alone, without mpirun: it starts the ranks that it needs");
  require_place(o.output);
  const double begin = exec::now_seconds();
  const TemporaryFile partial(o.output + ".ranks");
  std::vector<std::string> arguments = {"calibrate", "--worker", partial.path()};
  if (o.quick) arguments.emplace_back("--quick");
  const auto budget = budget_of(o);
  start_own_ranks(arguments, 3 * budget.seconds + 120);
  exec::CalibrationResult result{platforms::read_platform_file(partial.path()), costmodel::read_calibration(partial.path())};
  if (interrupted()) throw EnvironmentFailure("calibrate: interrupted; nothing was written");
  const auto progress = terminal.progress("calibrating");
  exec::calibrate_threads(result.calibration, budget, *progress);
  write_file_atomically(o.output, exec::machine_json_text(result));
  terminal.print(result_of(o, result, exec::now_seconds() - begin));
  return 0;
}

}  // namespace

Action add_calibrate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("-o,--output", o->output, "where to write (machine.json)");
  app.add_flag("--quick", o->quick, "under a minute, fewer sizes");
  app.add_option("--worker", o->worker, "used by calibrate itself")->group("");
  return [o](Terminal& terminal) { return o->worker.empty() ? calibrate(*o, terminal) : work(*o, terminal); };
}

}  // namespace rehearsal::cli
