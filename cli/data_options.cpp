#include "cli/data_options.hpp"

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/help/help_page.hpp"
#include "cli/spelling.hpp"

namespace rehearsal::cli {

void DataFlags::add_to(CLI::App& app) {
  const OptionGroup group(app, "Data");
  app.add_option("--data", data,
                 "synthetic, FILE.npz, a folder of .npy arrays, a folder of CLASS/NAME.jpg, SHARD-{000..099}.tar, "
                 "tokens:FILE.bin?dtype=uint16, Megatron's PREFIX.idx, ... (docs/data.md); may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  as_name(app.add_option("--shuffle", shuffle, "on or off"), {"on", "off"});
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

int DataFlags::checked_threads(int otherwise) const {
  constexpr int kMostThreads = 256;
  const int number = threads.value_or(otherwise);
  if (number < 0 || number > kMostThreads)
    throw BadInput("--data-threads " + std::to_string(number), "must be 0 to " + std::to_string(kMostThreads));
  return number;
}

}  // namespace rehearsal::cli
