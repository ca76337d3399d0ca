#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "cli/collective_kinds.hpp"
#include "cli/command.hpp"
#include "cli/fidelity.hpp"
#include "cli/measurements.hpp"
#include "cli/platform_options.hpp"
#include "predict/collective_times.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CollectiveOptions {
  PlatformOptions platform;
  std::optional<std::int64_t> ranks;
  std::string kind = "all-reduce", sizes = "1KB..1GB", fidelity = "closed", release;
};

Bytes size_named(std::string text) {
  for (const char* capital : {"KB", "Kb", "kb"})
    if (text.ends_with(capital)) text.replace(text.size() - 2, 2, "kB");
  try {
    const auto size = parse_quantity<Bytes>(text);
    constexpr double kLeast = 4, kMost = 1e12;
    if (size.value() >= kLeast && size.value() <= kMost) return size;
  } catch (const BadInput& problem) {
    throw BadInput("--sizes", problem.what());
  }
  throw BadInput("--sizes " + text, "must be from 4 B to 1 TB");
}

/// "1KB..1GB" (the first, four times that, ..., the last), or a list: "1MB,16MB".
std::vector<Bytes> sizes_of(const std::string& text) {
  constexpr double kStep = 4;
  std::vector<Bytes> sizes;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    const auto first = size_named(text.substr(0, dots)), last = size_named(text.substr(dots + 2));
    if (last < first) throw BadInput("--sizes " + text, "ends below where it begins");
    for (auto size = first; size < last; size = size * kStep) sizes.push_back(size);
    sizes.push_back(last);
    return sizes;
  }
  for (const auto& size : split(text, ',')) sizes.push_back(size_named(size));
  return sizes;
}

Json row_of(Bytes size, const predict::CollectiveTime& t) {
  return {{"message_bytes", size.value()},
          {"algorithm", !t.library            ? t.algorithm
                        : t.algorithm.empty() ? "library"
                                              : "library: " + t.algorithm},
          {"protocol", t.protocol},
          {"seconds", t.seconds.value()},
          {"bus_bytes_per_second", t.bus.value()},
          {"auto", t.chosen}};
}

Json row_of(const predict::MissingAlgorithm& missing) {
  return {{"algorithm", "library: " + missing.algorithm}, {"protocol", missing.protocol}, {"why", missing.why}};
}

costmodel::LibraryRelease release_named(const std::string& text) {
  if (text.empty()) return costmodel::kNewestRelease;
  const auto release = costmodel::library_release(text);
  const auto newest = costmodel::kNewestRelease;
  if (!release) throw BadInput("--release " + text, "must be two numbers, such as 2.18");
  if (release->major != newest.major || *release > newest)
    throw BadInput("--release " + text,
                   "known releases of NCCL and RCCL are 2.0 to " + std::to_string(newest.major) + "." + std::to_string(newest.minor));
  return *release;
}

int collective(const CollectiveOptions& o, Terminal& terminal) {
  const auto kind = collective_named(o.kind);
  const auto fidelity = fidelity_of(o.fidelity);
  const auto sizes = sizes_of(o.sizes);
  const auto release = release_named(o.release);
  const auto platform = load_platform(o.platform);
  if (!o.release.empty() && !predict::has_library_releases(platform))
    throw Refusal("--release " + o.release + ": is of NCCL or RCCL, which devices such as " + platforms::device_of(platform, 0).name +
                  " do not have; leave it out");
  const auto ranks = o.ranks.value_or(platforms::device_count(platform));
  if (ranks < 1) throw BadInput("--ranks " + std::to_string(ranks), "must be at least 2: a collective is among several");
  if (ranks > platforms::device_count(platform))
    throw Refusal("--ranks " + std::to_string(ranks) + ": platform " + platform.name + " has " +
                  std::to_string(platforms::device_count(platform)) + " devices; use fewer ranks, or more nodes (--nodes)");
  std::vector<std::string> warnings;
  const auto measured = measured_for(calibration_of(o.platform), platform, warnings);
  for (const auto& w : warnings) terminal.warn(w);
  const auto slowest = predict::slowest_adding(platform, static_cast<int>(ranks));
  const costmodel::CostModel model(platform.nodes[slowest].device, measured[slowest], "f32");
  const auto evaluator = evaluator_of(fidelity);
  const auto progress = terminal.progress("collectives");
  predict::CollectiveQuestion question{platform, model, kind, static_cast<int>(ranks), sizes.front(), release};
  auto rows = Json::array(), missing = Json::array();
  for (std::size_t n = 0; n < sizes.size() && !progress->stop_requested(); ++n) {
    question.size = sizes[n];
    for (const auto& time : predict::collective_times(question, *evaluator)) rows.push_back(row_of(sizes[n], time));
    progress->advance("sizes", static_cast<double>(n + 1), static_cast<double>(sizes.size()));
  }
  for (const auto& algorithm : predict::missing_algorithms(question)) missing.push_back(row_of(algorithm));
  Json answer = {{"schema", 1},    {"platform", platform.name},  {"kind", std::string(plan::name(kind))},
                 {"ranks", ranks}, {"fidelity", name(fidelity)}, {"collectives", rows}};
  if (!missing.empty()) answer["not_possible"] = missing;
  terminal.print(answer);
  return 0;
}

}  // namespace

Action add_collective(CLI::App& app) {
  auto o = std::make_shared<CollectiveOptions>();
  app.add_option("--platform", o->platform.platform, kPlatformHelp)->required();
  app.add_option("--nodes", o->platform.nodes, "how many nodes of it");
  app.add_option("--devices", o->platform.devices, "how many devices of it");
  app.add_option("--machine", o->platform.machine, "measurements: machine.json as calibrate writes it");
  app.add_option("--ranks", o->ranks, "the first so many devices (default: all)");
  app.add_option("--kind", o->kind, "all-reduce (default), reduce-scatter, all-gather, all-to-all, broadcast or reduce");
  app.add_option("--sizes", o->sizes, "of the whole vector: 1KB..1GB (default; every fourfold), or a list such as 1MB,16MB");
  app.add_option("--release", o->release,
                 "of NCCL or RCCL, such as 2.18: algorithms that it does not have yet are left out (default: 2.29); of GPUs alone");
  add_fidelity_to(app, o->fidelity);
  return [o](Terminal& terminal) { return collective(*o, terminal); };
}

}  // namespace rehearsal::cli
