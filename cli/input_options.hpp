#pragma once
// The options by which commands that predict are told what is trained on, and where that comes from (docs/input.md).

#include <optional>
#include <string>

#include "cli/data_options.hpp"
#include "cli/extent.hpp"
#include "cli/model_options.hpp"
#include "predict/input/input.hpp"

namespace rehearsal::cli {

/// What --dataset says.
struct DatasetOption {
  predict::DatasetFacts facts;
  bool stored = false;  ///< bytes of a sample are known, and not only how many there are
};
/// "1281167", or "samples=1.28M,bytes=110kB,decode=jpeg:500x375,files=1000,on=disk". Throws BadInput saying what would be right.
[[nodiscard]] DatasetOption parse_dataset(const std::string& text);

struct InputOptions {
  Extent extent;
  std::string dataset, cache;
  DataFlags data;

  InputOptions() { data.data.clear(); }  // nothing is asked until something is named
  void add_to(CLI::App&);                ///< --dataset, --data and what it needs, --data-threads, --cache
  [[nodiscard]] bool asks() const { return !dataset.empty() || !data.data.empty() || !cache.empty() || data.threads.has_value(); }
};

/// What of the input enters predictions.
struct KnownInput {
  std::optional<double> samples;  ///< of an epoch
  std::optional<predict::InputQuestion> question;
  std::string left_out;  ///< why input is no part of the prediction though it was asked for; else empty
};
/// Reads some samples where --data names files. Throws BadInput naming the option that is wrong or missing.
[[nodiscard]] KnownInput known_input(const InputOptions&, const ModelOptions&, const platforms::Platform&);

}  // namespace rehearsal::cli
