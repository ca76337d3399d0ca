// Pictures with a picture of classes each: two folders with files of the same names, or as Cityscapes comes.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/error.hpp"
#include "exec/data/dataset.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/pictures/picture_input.hpp"
#include "exec/data/stored_file.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kIgnored = -100;  // by cross-entropy
constexpr std::size_t kValues = 256;

struct Pair {
  std::string picture, classes;
};
struct Pairs {
  std::string where;
  std::vector<Pair> all;
  std::vector<std::int64_t> classes;  ///< by value of the picture of classes
};

std::vector<fs::path> files_below(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw BadInput(folder.string(), "is no folder");
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink))
    if (is_picture_name(entry.path().string()) && !entry.is_directory()) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  if (found.empty()) throw BadInput(folder.string(), "holds no pictures (.jpg, .jpeg or .png)");
  return found;
}

class PictureOfClasses final : public Dataset {
 public:
  PictureOfClasses(const DatasetRequest& r, Pairs pairs) : pairs_(std::move(pairs)), seed_(r.options.seed) {
    const auto chosen = chosen_arrays(pairs_.where, r.wanted, {{"image", "label"}, "image", "label"});
    for (std::size_t i = 0; i < r.wanted.size(); ++i) {
      const bool picture = chosen[i] == 0;
      picture ? pictures_.emplace_back(std::in_place, r.wanted[i], r.options.pictures, pairs_.where) : pictures_.emplace_back();
      picture ? classes_.emplace_back()
              : classes_.emplace_back(std::in_place, r.wanted[i], r.options.pictures, pairs_.classes, pairs_.where);
    }
    check_sizes(r.wanted);
  }

  [[nodiscard]] std::int64_t samples() const override { return static_cast<std::int64_t>(pairs_.all.size()); }
  [[nodiscard]] std::string origin_of(std::int64_t row) const override { return pairs_.all[static_cast<std::size_t>(row)].classes; }
  [[nodiscard]] std::int64_t read(const RowRequest& r, void* out) const override {
    const auto& pair = pairs_.all[static_cast<std::size_t>(r.row)];
    const StoredFile picture(pair.picture);
    const WindowDraw draw{seed_, r.sample};
    const auto pixels = picture.bytes();
    if (pictures_[r.wanted]) {
      pictures_[r.wanted]->read({pixels, pair.picture}, draw, out);
      return picture.size();
    }
    const StoredFile file(pair.classes);
    const auto classes = file.bytes();
    const auto size = size_of(PictureBytes{pixels, pair.picture}), own = size_of(PictureBytes{classes, pair.classes});
    if (size != own)
      throw BadInput(pair.classes, "is " + std::to_string(own.width) + " x " + std::to_string(own.height) + " pixels, and the picture " +
                                       pair.picture + " is " + std::to_string(size.width) + " x " + std::to_string(size.height));
    classes_[r.wanted]->read({classes, pair.classes}, draw, out);
    return file.size();
  }

 private:
  /// A window that is drawn for one is the other's.
  void check_sizes(const std::vector<WantedTensor>& wanted) const {
    std::optional<PictureSize> first;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto size = pictures_[i] ? pictures_[i]->size() : classes_[i]->size();
      if (first && *first != size)
        throw BadInput(pairs_.where, "input \"" + wanted[i].input + "\" of the model is " + std::to_string(size.height) + "x" +
                                         std::to_string(size.width) + ", another is " + std::to_string(first->height) + "x" +
                                         std::to_string(first->width) + "; a picture and its classes are of one size");
      first = size;
    }
  }

  Pairs pairs_;
  std::uint64_t seed_;
  std::vector<std::optional<PictureInput>> pictures_;  ///< by input
  std::vector<std::optional<ClassPictureInput>> classes_;
};

const std::string& one_folder(const DataPlace& place) {
  if (place.paths.size() > 1) throw BadInput(place.paths[1], "is a second folder; pairs are read from one");
  if (!fs::is_directory(place.paths.front())) throw BadInput(place.paths.front(), "is no folder");
  return place.paths.front();
}

std::string key_or(const DataPlace& place, const std::string& key, const std::string& otherwise) {
  const auto at = place.keys.find(key);
  return at == place.keys.end() ? otherwise : at->second;
}

std::unique_ptr<Dataset> open_pairs(const DatasetRequest& r) {
  const auto folder = one_folder(r.place);
  const auto images = fs::path(folder) / key_or(r.place, "images", "images"),
             labels = fs::path(folder) / key_or(r.place, "labels", "labels");
  const auto pictures = files_below(images), classes = files_below(labels);
  Pairs pairs{folder, {}, std::vector<std::int64_t>(kValues)};
  const auto name = [](const fs::path& file, const fs::path& below) { return file.lexically_relative(below).replace_extension().string(); };
  std::map<std::string, std::string> by_name;
  for (const auto& file : classes) by_name[name(file, labels)] = file.string();
  for (const auto& file : pictures) {
    const auto at = by_name.find(name(file, images));
    if (at == by_name.end()) throw BadInput(file.string(), "has no picture of classes of the same name in " + labels.string());
    pairs.all.push_back({file.string(), at->second});
  }
  if (pictures.size() < classes.size())
    throw BadInput(labels.string(), "holds " + std::to_string(classes.size()) + " files, and " + images.string() + " " +
                                        std::to_string(pictures.size()) + ": some have no picture");
  std::iota(pairs.classes.begin(), pairs.classes.end(), std::int64_t{0});
  pairs.classes.back() = kIgnored;
  return std::make_unique<PictureOfClasses>(r, std::move(pairs));
}

/// The 19 classes that are evaluated, by the ids of the label pictures (cityscapesScripts, helpers/labels.py: id and trainId); others are
/// ignored.
std::vector<std::int64_t> evaluated_classes() {
  constexpr std::uint8_t kIds[] = {7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33};
  std::vector<std::int64_t> classes(kValues, kIgnored);
  std::int64_t next = 0;
  for (const auto id : kIds) classes[id] = next++;
  return classes;
}

std::unique_ptr<Dataset> open_cityscapes(const DatasetRequest& r) {
  const fs::path folder = one_folder(r.place);
  const auto split = key_or(r.place, "split", "train"), kind = key_or(r.place, "labels", "gtFine");
  const auto images = folder / "leftImg8bit" / split, labels = folder / kind / split;
  Pairs pairs{folder.string(), {}, evaluated_classes()};
  const std::string end = "_leftImg8bit.png";
  for (const auto& file : files_below(images)) {
    const auto name = file.lexically_relative(images).string();
    if (!name.ends_with(end)) throw BadInput(file.string(), "is no picture of Cityscapes, whose names end in " + end);
    const auto classes = (labels / (name.substr(0, name.size() - end.size()) + "_" + kind + "_labelIds.png")).string();
    if (!fs::exists(classes)) throw BadInput(file.string(), "has no picture of classes: " + classes + " does not exist");
    pairs.all.push_back({file.string(), classes});
  }
  return std::make_unique<PictureOfClasses>(r, std::move(pairs));
}

bool has_folders(const std::string& path, const char* one, const char* other) {
  return fs::is_directory(fs::path(path) / one) && fs::is_directory(fs::path(path) / other);
}

}  // namespace

DataKind pairs_row() {
  return {"pairs",
          "a folder of images/NAME.jpg and labels/NAME.png",
          {"images", "labels"},
          [](const std::string& path) { return has_folders(path, "images", "labels"); },
          open_pairs,
          nullptr,
          nullptr,
          true};
}

DataKind cityscapes_row() {
  return {"cityscapes",
          "a folder of leftImg8bit/train/CITY and gtFine/train/CITY",
          {"split", "labels"},
          [](const std::string& path) { return fs::is_directory(fs::path(path) / "leftImg8bit"); },
          open_cityscapes,
          nullptr,
          nullptr,
          true};
}

}  // namespace rehearsal::exec
