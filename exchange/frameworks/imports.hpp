#pragma once
// What importers share.

#include "exchange/frameworks/flags.hpp"
#include "exchange/frameworks/plan_import.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::exchange {

/// What becomes of a configuration: values that were found, and what no training of ours says.
struct Found {
  TrainingJob job;
  std::vector<plan::Violation> refusals;
  std::vector<LeftOut> left_out;

  void refuse(std::string key, std::string problem, std::string remedy) {
    refusals.push_back({std::move(key), std::move(problem), std::move(remedy)});
  }
};

/// Why keys that begin so say nothing about a step.
struct IdleKeys {
  std::string_view reason, beginnings;
};
/// What nobody asked for is left out with the reason of the first row that has its beginning, or refused.
void sort_rest(const Flags&, std::span<const IdleKeys>, Found&);
/// Throws Refusal with a line for everything that was refused.
void require_nothing_refused(const Found&, const std::string& file);

/// The decoder that the flags describe: a row of the zoo with the values that differ from its own.
void read_megatron_model(Flags&, Found&);

/// "zoo:NAME?key=value&..." of the values that differ from the row's own.
[[nodiscard]] std::string short_reference(const graph::zoo::ZooChoice&);

}  // namespace rehearsal::exchange
