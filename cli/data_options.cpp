#include "cli/data_options.hpp"

#include <CLI/CLI.hpp>

#include "base/error.hpp"

namespace rehearsal::cli {

void DataFlags::add_to(CLI::App& app) {
  app.add_option("--data", data,
                 "synthetic, FILE.npz, a folder of .npy arrays, a folder of CLASS/NAME.jpg, SHARD-{000..099}.tar, "
                 "tokens:FILE.bin?dtype=uint16, Megatron's PREFIX.idx, ... (docs/data.md); may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--shuffle", shuffle, "on or off");
  app.add_option("--augment", augment, "of pictures: crop (a random part; crop=0.25: of that share of the area at least), flip, or both");
  add_reading_to(app);
}

void DataFlags::add_reading_to(CLI::App& app) {
  app.add_option("--input", inputs, "NAME=ARRAY: the array of the data that an input of the model (or its target) is; several times")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--image-size", image_size, "of pictures: pixels, or HEIGHTxWIDTH (default: what the model has)");
  app.add_option("--normalize", normalize, "of pictures: imagenet, or means/deviations of red, green and blue (default: 0 to 1)");
  app.add_option("--data-threads", threads, "that read ahead, of each rank (default: its share of the cores; 0: none)");
}

exec::DataOptions DataFlags::options(std::uint64_t seed, int default_threads) const {
  exec::DataOptions options;
  options.sources = data;
  for (const auto& text : inputs) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw BadInput("--input " + text, "write NAME=ARRAY, for example --input x=photo");
    if (!options.arrays.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      throw BadInput("--input " + text, "names an array for " + text.substr(0, equals) + " a second time");
  }
  if (shuffle != "on" && shuffle != "off") throw BadInput("--shuffle " + shuffle, "use on or off");
  options.shuffle = shuffle == "on";
  options.seed = seed;
  constexpr int kMostThreads = 256;
  options.threads = threads.value_or(default_threads);
  if (options.threads < 0 || options.threads > kMostThreads)
    throw BadInput("--data-threads " + std::to_string(options.threads), "must be 0 to " + std::to_string(kMostThreads));
  if (!image_size.empty()) options.pictures.size = exec::parse_picture_size(image_size);
  exec::parse_augmentation(augment, options.pictures);
  exec::parse_normalization(normalize, options.pictures);
  return options;
}

exec::DataOptions evaluated(exec::DataOptions options, std::vector<std::string> sources) {
  options.sources = std::move(sources);
  options.shuffle = options.pictures.crop = options.pictures.flip = false;
  return options;
}

}  // namespace rehearsal::cli
