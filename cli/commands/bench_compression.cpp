// How fast compressors of gradients are on this machine, beside copying the gradient.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/commands/bench_parts.hpp"
#include "exec/bench/compression.hpp"

namespace rehearsal::cli {
namespace {

struct BenchCompressionOptions {
  std::int64_t elements = 8'000'000;
  int ranks = 4, repetitions = 3, threads = 1;
};

void require_between(const std::string& option, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) throw BadInput(option + " " + std::to_string(value), "must be from 1 to " + std::to_string(most));
}

int bench_compression(const BenchCompressionOptions& o, Terminal& terminal) {
  constexpr std::int64_t kMostElements = 1'000'000'000, kMostRanks = 4096, kMostRepetitions = 1000, kMostThreads = 1024;
  require_between("--elements", o.elements, kMostElements);
  require_between("--ranks", o.ranks, kMostRanks);
  require_between("--repetitions", o.repetitions, kMostRepetitions);
  require_between("--threads", o.threads, kMostThreads);
  auto rows = nlohmann::ordered_json::array();
  const auto bytes = static_cast<double>(o.elements) * static_cast<double>(sizeof(float));
  for (const auto& speed : exec::bench::speeds_of_compressors({o.elements, o.ranks, o.repetitions, o.threads}, interrupted))
    rows.push_back({{"compression", to_text(speed.how)},
                    {"sent_share", static_cast<double>(speed.sent_bytes) / bytes},
                    {"compressing_seconds", speed.compressing},
                    {"compressing_over_copying", speed.compressing / speed.copying},
                    {"decoding_seconds", speed.decoding},
                    {"decoding_over_copying", speed.decoding / speed.copying}});
  if (interrupted()) terminal.warn("interrupted: these are the compressors that were finished");
  terminal.print({{"schema", 1},
                  {"elements", o.elements},
                  {"threads", o.threads},
                  {"yardstick", "copying the elements"},
                  {"decoding_is", "of what one of " + std::to_string(o.ranks) + " ranks sent"},
                  {"compressors", std::move(rows)}});
  return static_cast<int>(interrupted() ? ExitStatus::Interrupted : ExitStatus::Done);
}

}  // namespace

Action add_bench_compression(CLI::App& compression) {
  auto o = std::make_shared<BenchCompressionOptions>();
  compression.add_option("--elements", o->elements, "f32 elements of the gradient (default 8000000)");
  compression.add_option("--ranks", o->ranks, "whose messages are decoded together (default 4)");
  compression.add_option("--repetitions", o->repetitions, "of which the quickest counts (default 3)");
  compression.add_option("--threads", o->threads, "that share the work (default 1)");
  return [o](Terminal& terminal) { return bench_compression(*o, terminal); };
}

}  // namespace rehearsal::cli
