// A folder of a folder for every class, as ImageNet's training pictures come: CLASS/NAME.jpg.
#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/image_samples.hpp"
#include "exec/data/stored_file.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> pictures_below(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink))
    if (const auto name = entry.path().filename().string(); name.front() != '.' && !entry.is_directory()) {
      refuse_other_picture(folder.string(), name);
      if (is_picture_name(name)) found.push_back(entry.path().string());
    }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().front() != '.') found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

[[noreturn]] void refuse_without_classes(const std::string& folder) {
  if (!pictures_below(folder).empty())
    throw BadInput(folder, "holds pictures, and no folder for each class: put them in " + folder + "/CLASS/");
  throw BadInput(folder, "holds no pictures (CLASS/NAME.jpg or .png)");
}

class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const DatasetRequest& r) : folder_(the_folder(r.place)), inputs_(r, find_files(folder_, files_, first_), folder_) {}

  [[nodiscard]] std::int64_t samples() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] std::string origin_of(std::int64_t row) const override { return files_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] std::int64_t read(const RowRequest& r, void* out) const override {
    if (!inputs_.is_picture(r.wanted)) {
      const auto after = std::upper_bound(first_.begin(), first_.end(), r.row);
      inputs_.read_class(r, after - first_.begin() - 1, out);
      return 0;
    }
    const auto& path = files_[static_cast<std::size_t>(r.row)];
    const auto bytes = StoredFile(path).bytes();
    inputs_.read_picture(r, {bytes, path}, out);
    return static_cast<std::int64_t>(bytes.size());
  }

 private:
  static const std::string& the_folder(const DataPlace& place) {
    if (place.paths.size() > 1) throw BadInput(place.paths[1], "is a second folder of pictures; classes are numbered in one folder");
    if (!fs::is_directory(place.paths.front())) throw BadInput(place.paths.front(), "is no folder");
    return place.paths.front();
  }

  /// Classes are numbered by the names of their folders. Returns how many there are.
  static std::int64_t find_files(const std::string& folder, std::vector<std::string>& files, std::vector<std::int64_t>& first) {
    const auto classes = folders_in(folder);
    if (classes.empty()) refuse_without_classes(folder);
    for (const auto& one : classes) {
      const auto pictures = pictures_below(one);
      if (pictures.empty()) throw BadInput(one.string(), "is a class without pictures (.jpg, .jpeg or .png); take the folder away");
      const auto name = one.filename().string();
      if ((name == "train" || name == "val" || name == "test") && !folders_in(one).empty())
        throw BadInput(folder, "has " + name + " among its classes; give " + one.string() + " instead");
      first.push_back(static_cast<std::int64_t>(files.size()));
      files.insert(files.end(), pictures.begin(), pictures.end());
    }
    return static_cast<std::int64_t>(classes.size());
  }

  std::string folder_;
  std::vector<std::string> files_;
  std::vector<std::int64_t> first_;  ///< sample of each class
  ImageInputs inputs_;
};

std::vector<std::string> class_names(const DataPlace& place) {
  std::vector<std::string> names;
  for (const auto& folder : folders_in(place.paths.front())) names.push_back(folder.filename().string());
  return names;
}

}  // namespace

DataKind images_row() {
  return {"images",
          "a folder of CLASS/NAME.jpg or .png",
          {},
          [](const std::string& path) { return fs::is_directory(path); },
          [](const DatasetRequest& r) -> std::unique_ptr<Dataset> { return std::make_unique<ImageFolder>(r); },
          nullptr,
          class_names,
          true};
}

}  // namespace rehearsal::exec
