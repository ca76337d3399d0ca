#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/table.hpp"
#include "exec/data/class_names.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/loader.hpp"
#include "exec/data/place.hpp"

namespace rehearsal::exec {

std::span<const DataKind> data_kinds() {
  static const auto kTable = rows_of(kDataKinds);
  return kTable;
}

namespace {

bool is_synthetic(const std::vector<std::string>& sources) { return sources == std::vector<std::string>{"synthetic"}; }

void require_pictures(const DataOptions& options, bool are_pictures) {
  const auto option = asked_by(options.pictures);
  if (option.empty() || are_pictures) return;
  throw BadInput(std::string(option), "is of pictures, and " + options.sources.front() + " holds none; leave it out");
}

std::unique_ptr<Dataset> open_dataset(const DataOptions& options, const graph::TrainingGraph& training, std::vector<WantedTensor>& wanted) {
  const auto found = find_data(options.sources);
  ensure(found.kind != nullptr, "data is asked for by a source");
  require_pictures(options, found.kind->pictures);
  wanted = wanted_of(training, options.arrays);
  try {
    auto dataset = found.kind->open({found.place, wanted, options});
    if (dataset->samples() == 0) throw BadInput(found.place.paths.front(), "holds no samples");
    return dataset;
  } catch (const std::filesystem::filesystem_error& error) {
    throw BadInput(error.path1().string(), "cannot be read (" + error.code().message() + ")");
  }
}

}  // namespace

std::unique_ptr<DataSource> open_data(const DataOptions& options, const graph::TrainingGraph& training) {
  if (is_synthetic(options.sources)) {
    if (!options.arrays.empty())
      throw BadInput("--input " + options.arrays.begin()->first + "=" + options.arrays.begin()->second, "synthetic data has no arrays");
    require_pictures(options, false);
    return synthetic_data(training, options.seed);
  }
  std::vector<WantedTensor> wanted;
  auto dataset = open_dataset(options, training, wanted);
  const auto samples = dataset->samples();
  if (samples < training.batch)
    throw BadInput(options.sources.front(), "holds " + std::to_string(samples) + " samples, fewer than the batch of " +
                                                std::to_string(training.batch) + "; use --batch " + std::to_string(samples) + " or less");
  const LoaderOptions loading{options.shuffle, options.seed, options.threads, training.batch};
  return std::make_unique<Loader>(std::move(dataset), std::move(wanted), loading);
}

std::int64_t samples_of(const DataOptions& options, const graph::TrainingGraph& training) {
  if (is_synthetic(options.sources)) return 0;
  std::vector<WantedTensor> wanted;
  return open_dataset(options, training, wanted)->samples();
}

std::optional<std::vector<std::string>> array_names(const DataOptions& options) {
  if (is_synthetic(options.sources)) return std::nullopt;
  const auto found = find_data(options.sources);
  if (found.kind->arrays == nullptr) return std::nullopt;
  return found.kind->arrays(found.place);
}

void require_data(const std::vector<std::string>& sources) {
  if (is_synthetic(sources)) return;
  const auto found = find_data(sources);
  if (found.kind->arrays != nullptr) (void)found.kind->arrays(found.place);  // which looks into the files
}

void require_same_classes(const std::vector<std::string>& sources, const std::vector<std::string>& others) {
  if (is_synthetic(sources) || is_synthetic(others)) return;
  const auto one = find_data(sources), other = find_data(others);
  if (one.kind->classes == nullptr || other.kind->classes == nullptr) return;
  const auto names = one.kind->classes(one.place), found = other.kind->classes(other.place);
  const auto differ = [](const auto& all, const auto& among, const std::string& has, const std::string& lacks) {
    for (const auto& name : all)
      if (std::find(among.begin(), among.end(), name) == among.end())
        throw BadInput(lacks, "has no class " + name + ", which " + has + " has: their classes would be numbered differently");
  };
  differ(names, found, sources.front(), others.front());
  differ(found, names, others.front(), sources.front());
}

}  // namespace rehearsal::exec
