#include "base/error.hpp"
#include "cli/data_options.hpp"
#include "exec/data/data.hpp"

namespace rehearsal::cli {

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
  options.threads = checked_threads(default_threads);
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
