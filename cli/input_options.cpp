#include "cli/input_options.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "cli/counts.hpp"
#include "cli/help/help_page.hpp"
#include "cli/on_this_machine.hpp"

namespace rehearsal::cli {
namespace {

constexpr double kPixelBytes = 3, kMostSide = 1e5;

/// "1.28M"
double count(const std::string& text) {
  const auto number = parse_number<double>(count_digits(text));
  if (!number || !(*number >= 1) || !std::isfinite(*number)) throw BadInput("write a number from 1 on, such as 1281167 or 1.28M");
  return std::round(*number);
}

/// People write KB and mean kB.
Bytes bytes(std::string text) {
  if (text.ends_with("KB")) text[text.size() - 2] = 'k';
  const auto found = parse_quantity<Bytes>(text);
  if (!(found.value() > 0)) throw BadInput("must be more than 0, for example 110kB");
  return found;
}

/// Pixels of "jpeg:224" or "jpeg:500x375".
Bytes pixels(std::string_view size) {
  const auto width = take_number<double>(size);
  auto height = width;
  if (width && size.starts_with('x')) {
    size.remove_prefix(1);
    height = take_number<double>(size);
  }
  const auto good = [](const std::optional<double>& side) {
    return side && *side >= 1 && *side <= kMostSide && *side == std::floor(*side);
  };
  if (!size.empty() || !good(width) || !good(height)) throw BadInput("write the size of stored pictures, such as jpeg:256 or jpeg:500x375");
  return Bytes(*width * *height * kPixelBytes);
}

void read_decoding(const std::string& value, predict::DatasetFacts& facts) {
  constexpr std::string_view kJpeg = "jpeg:";
  if (find_name(value, {"none"})) return;
  if (lower_case(value).starts_with(kJpeg)) {
    facts.jpeg = pixels(std::string_view(value).substr(kJpeg.size()));
    return;
  }
  try {
    facts.work = platforms::Sourced<Seconds>(parse_quantity<Seconds>(value), "--dataset");
  } catch (const BadInput&) {
    throw BadInput("write none, jpeg:WIDTHxHEIGHT, or what one core takes for a sample, such as 3ms");
  }
  if (facts.work->value < Seconds(0)) throw BadInput("must be a time from 0 on");
}

/// A key of --dataset.
struct DatasetKey {
  std::string_view name;
  void (*read)(const std::string& value, DatasetOption&);
};
constexpr std::array kDatasetKeys{
    DatasetKey{"samples", [](const std::string& v, DatasetOption& d) { d.facts.samples = count(v); }},
    DatasetKey{"bytes", [](const std::string& v, DatasetOption& d) { d.facts.stored = bytes(v), d.stored = true; }},
    DatasetKey{"decode", [](const std::string& v, DatasetOption& d) { read_decoding(v, d.facts); }},
    DatasetKey{"files", [](const std::string& v, DatasetOption& d) { d.facts.requests = count(v); }},
    DatasetKey{"on", [](const std::string& v, DatasetOption& d) {
                 const auto place = find_name(v, {"disk", "shared"});
                 if (!place) throw BadInput("write disk (each node's own) or shared");
                 d.facts.on_disk = *place == "disk";
               }}};

DatasetOption read_dataset_keys(const std::string& text) {
  DatasetOption dataset;
  dataset.facts.requests = 0;  // files, until all is read
  std::vector<std::string_view> given;
  for (const auto& item : split(text, ',')) {
    const auto equals = item.find('=');
    if (equals == std::string::npos)
      throw BadInput("\"" + item + "\" is no KEY=VALUE; write for example samples=1.28M,bytes=110kB,decode=jpeg:500x375");
    const auto key = known_name("keys", item.substr(0, equals), names_of_rows(kDatasetKeys, &DatasetKey::name));
    if (std::ranges::find(given, key) != given.end()) throw BadInput(std::string(key) + " is given twice");
    given.push_back(key);
    try {
      std::ranges::find(kDatasetKeys, key, &DatasetKey::name)->read(item.substr(equals + 1), dataset);
    } catch (const BadInput& problem) {
      throw BadInput(item, problem.what());
    }
  }
  if (dataset.facts.samples == 0) throw BadInput("samples is missing; write for example samples=1.28M");
  if (!dataset.stored) throw BadInput("bytes is missing: the stored bytes of a sample, such as bytes=110kB");
  dataset.facts.requests = dataset.facts.requests == 0 ? 1 : dataset.facts.requests / dataset.facts.samples;
  return dataset;
}

/// "node", "global=64GB"
void read_cache(const std::string& text, predict::InputQuestion& question) {
  const auto equals = text.find('=');
  const auto name = known_name("--cache", text.substr(0, equals), names_of_rows(predict::cache_kinds(), &predict::CacheKind::name));
  question.cache = &*std::ranges::find(predict::cache_kinds(), name, &predict::CacheKind::name);
  if (equals == std::string::npos) return;
  try {
    question.cache_size = bytes(text.substr(equals + 1));
  } catch (const BadInput& problem) {
    throw BadInput("--cache " + text, problem.what());
  }
}

/// What says how files are read says nothing without them.
void require_files(const DataFlags& flags) {
  if (!flags.data.empty()) return;
  for (const auto& [option, given] : {std::pair{"--input", !flags.inputs.empty()},
                                      {"--image-size", !flags.image_size.empty()},
                                      {"--normalize", !flags.normalize.empty()}})
    if (given) throw BadInput(option, "says how the files of --data are read; name them, or leave it out");
}

/// Of samples of which nothing but their number is known.
void require_use_of_count(const InputOptions& o) {
  constexpr const char* kWhatIsRead = "--dataset samples=1.28M,bytes=110kB, or --data FILES";
  if (!o.cache.empty() || o.data.threads)
    throw BadInput(o.cache.empty() ? "--data-threads" : "--cache", std::string("needs to know what is read: ") + kWhatIsRead);
  if (!o.extent.epochs)
    throw BadInput("--dataset " + o.dataset,
                   std::string("a number alone says how many samples --epochs are of; give that, or what is read: ") + kWhatIsRead);
}

}  // namespace

DatasetOption parse_dataset(const std::string& text) {
  try {
    if (text.find('=') != std::string::npos) return read_dataset_keys(text);
    DatasetOption dataset;
    dataset.facts.samples = count(text);
    return dataset;
  } catch (const BadInput& problem) {
    throw BadInput("--dataset " + text, problem.what());
  }
}

void InputOptions::add_to(CLI::App& app) {
  const OptionGroup group(app, "Data");
  app.add_option(
      "--dataset", dataset,
      "samples of an epoch, or more of them: samples=1.28M,bytes=110kB (stored, of one), decode=jpeg:500x375 (stored pixels; or 3ms "
      "of one core; or none), files=1000 (default: one a sample), on=disk (every node's own; default: shared)");
  app.add_option("--data", data.data, "files as run takes them: the same facts, found out by reading some samples (docs/input.md)")
      ->take_all()
      ->allow_extra_args(false);
  data.add_reading_to(app);
  app.add_option("--cache", cache,
                 "what nodes keep of the samples: " + joined(names_of_rows(predict::cache_kinds(), &predict::CacheKind::name), ", ") +
                     "; node=64GB says how much memory "
                     "(default: what the platform says)");
}

KnownInput known_input(const InputOptions& o, const ModelOptions& model, const platforms::Platform& platform) {
  KnownInput known;
  require_files(o.data);
  if (!o.asks()) return known;
  if (!o.dataset.empty() && !o.data.data.empty()) throw BadInput("--dataset and --data", "say the same; give one of them");
  predict::InputQuestion question;
  bool stored = !o.data.data.empty();
  if (!o.data.data.empty()) {
    question.data = facts_of(o.data, model);
  } else if (!o.dataset.empty()) {
    const auto dataset = parse_dataset(o.dataset);
    question.data = dataset.facts;
    stored = dataset.stored;
  }
  if (question.data.samples > 0) known.samples = question.data.samples;
  if (!o.cache.empty()) read_cache(o.cache, question);
  question.threads = reading_threads(o.data);
  if (!stored) {
    require_use_of_count(o);
    return known;
  }
  if (const auto unknown = predict::unknown_storage(platform); !unknown.empty()) {
    if (!o.cache.empty()) throw BadInput("--cache " + o.cache, unknown);
    known.left_out = "input is no part of the prediction: " + unknown;
    return known;
  }
  known.question = question;
  return known;
}

}  // namespace rehearsal::cli
