// Shards: tar archives of pictures, with the class in a member of the same name that ends in .cls, or as the folder of the picture.
#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/image_samples.hpp"
#include "exec/data/tar_index.hpp"

namespace rehearsal::exec {
namespace {

/// One picture.
struct ShardSample {
  std::size_t shard = 0;
  TarMember picture;
  std::int64_t number = -1;  ///< its class
};

/// What members of one sample share: the name up to the first dot behind the last slash.
std::string key_of(const std::string& name) {
  const auto slash = name.rfind('/');
  const auto dot = name.find('.', slash == std::string::npos ? 0 : slash + 1);
  return name.substr(0, dot);
}

std::string folder_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}

std::int64_t class_in(const StoredFile& file, const TarMember& member) {
  constexpr std::int64_t kLongest = 20;
  std::string text(static_cast<std::size_t>(std::min(member.size, kLongest)), '\0');
  file.read(member.offset, std::as_writable_bytes(std::span(text)));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const auto number = parse_number<std::int64_t>(text);
  if (!number || *number < 0) throw BadInput(file.path(), "\"" + member.name + "\" holds no number of a class");
  return *number;
}

class Shards {
 public:
  explicit Shards(const std::vector<std::string>& paths) : paths_(paths) {
    for (std::size_t shard = 0; shard < paths.size(); ++shard) add(shard);
    if (samples_.empty()) throw BadInput(paths.front(), "holds no pictures (.jpg or .png)");
    any_said_ ? check_said() : name_classes_by_folders();
  }
  [[nodiscard]] std::int64_t classes() const { return classes_; }
  [[nodiscard]] std::vector<ShardSample> take_samples() { return std::move(samples_); }
  /// Open where there are few.
  [[nodiscard]] std::vector<std::shared_ptr<const StoredFile>> take_files() { return std::move(files_); }

 private:
  void add(std::size_t shard) {
    constexpr std::size_t kMostOpen = 256;
    const auto opened = std::make_shared<const StoredFile>(paths_[shard]);
    const auto& file = *opened;
    files_.push_back(paths_.size() > kMostOpen ? nullptr : opened);
    std::map<std::string, std::int64_t> numbers;
    const auto before = samples_.size();
    for (auto& member : tar_members(file)) {
      refuse_other_picture(paths_[shard], member.name);
      if (member.name.ends_with(".cls"))
        numbers[key_of(member.name)] = class_in(file, member);
      else if (is_picture_name(member.name))
        samples_.push_back({shard, std::move(member), -1});
    }
    for (auto n = before; n < samples_.size(); ++n)
      if (const auto at = numbers.find(key_of(samples_[n].picture.name)); at != numbers.end()) {
        samples_[n].number = at->second;
        classes_ = std::max(classes_, at->second + 1);
        any_said_ = true;
      }
  }

  void check_said() const {
    for (const auto& s : samples_)
      if (s.number < 0) throw BadInput(paths_[s.shard], "\"" + s.picture.name + "\" has no .cls beside it, and other pictures have");
  }

  void name_classes_by_folders() {
    std::map<std::string, std::int64_t> folders;
    for (const auto& s : samples_) folders[folder_of(s.picture.name)] = 0;
    if (folders.contains(""))
      throw BadInput(paths_.front(), "pictures have neither a .cls beside them nor a folder that names their class");
    for (auto& [folder, number] : folders) number = classes_++;
    for (auto& s : samples_) s.number = folders[folder_of(s.picture.name)];
  }

  const std::vector<std::string>& paths_;
  std::vector<std::shared_ptr<const StoredFile>> files_;
  std::vector<ShardSample> samples_;
  bool any_said_ = false;  ///< by a .cls
  std::int64_t classes_ = 0;
};

class TarShards final : public Dataset {
 public:
  explicit TarShards(const DatasetRequest& r) : TarShards(r, Shards(r.place.paths)) {}

  [[nodiscard]] std::int64_t samples() const override { return static_cast<std::int64_t>(samples_.size()); }
  [[nodiscard]] std::string origin_of(std::int64_t row) const override { return name_of(samples_[static_cast<std::size_t>(row)]); }
  [[nodiscard]] std::int64_t read(const RowRequest& r, void* out) const override {
    const auto& sample = samples_[static_cast<std::size_t>(r.row)];
    if (!inputs_.is_picture(r.wanted)) {
      inputs_.read_class(r, sample.number, out);
      return 0;
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(sample.picture.size));
    const auto file = files_[sample.shard] ? files_[sample.shard] : std::make_shared<const StoredFile>(paths_[sample.shard]);
    file->read(sample.picture.offset, bytes);
    inputs_.read_picture(r, {bytes, name_of(sample)}, out);
    return sample.picture.size;
  }

 private:
  TarShards(const DatasetRequest& r, Shards shards)
      : paths_(r.place.paths), inputs_(r, shards.classes(), paths_.front()), files_(shards.take_files()), samples_(shards.take_samples()) {}
  [[nodiscard]] std::string name_of(const ShardSample& s) const { return paths_[s.shard] + ": " + s.picture.name; }

  std::vector<std::string> paths_;
  ImageInputs inputs_;
  std::vector<std::shared_ptr<const StoredFile>> files_;
  std::vector<ShardSample> samples_;
};

}  // namespace

DataKind tar_row() {
  return {"tar",
          "SHARD-{000..099}.tar",
          {},
          [](const std::string& path) { return path.ends_with(".tar"); },
          [](const DatasetRequest& r) -> std::unique_ptr<Dataset> { return std::make_unique<TarShards>(r); },
          nullptr,
          nullptr,
          true};
}

}  // namespace rehearsal::exec
