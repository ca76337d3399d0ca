// Tokens as Megatron-LM's preprocess_data.py stores them: PREFIX.bin, and where its documents begin in PREFIX.idx (format: class
// IndexedDataset of megatron/core/datasets/indexed_dataset.py).
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/token_streams.hpp"

namespace rehearsal::exec {
namespace {

constexpr char kMagic[] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr std::int64_t kHeader = sizeof kMagic + 8 + 1 + 8 + 8;

std::string without_end(const std::string& path) {
  return path.ends_with(".idx") || path.ends_with(".bin") ? path.substr(0, path.size() - 4) : path;
}

template <class T>
T value_at(const std::vector<std::byte>& bytes, std::int64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

DType type_of(int code, const std::string& path) {
  struct Row {
    int code;
    DType dtype;
  };
  constexpr Row kRows[] = {{1, DType::U8}, {2, DType::I8}, {3, DType::I16}, {4, DType::I32}, {5, DType::I64}, {8, DType::U16}};
  for (const auto& row : kRows)
    if (row.code == code) return row.dtype;
  throw BadInput(path, "says that its tokens are of type " + std::to_string(code) + ", which is none of whole numbers (1 to 5, 8)");
}

struct Index {
  DType dtype = DType::U16;
  std::int64_t tokens = 0;
};

/// The documents lie one behind the other.
Index read_index(const std::string& path) {
  const StoredFile file(path);
  const auto bytes = file.bytes();
  if (file.size() < kHeader || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    throw BadInput(path, "is no index of Megatron's (it does not begin with MMIDIDX)");
  auto at = static_cast<std::int64_t>(sizeof kMagic);
  if (const auto version = value_at<std::uint64_t>(bytes, at); version != 1)
    throw BadInput(path, "is an index of version " + std::to_string(version) + "; version 1 is read");
  Index index{type_of(value_at<std::uint8_t>(bytes, at + 8), path)};
  const auto parts = value_at<std::uint64_t>(bytes, at + 9), documents = value_at<std::uint64_t>(bytes, at + 17);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const auto least =
      parts > kMost || documents > kMost ? file.size() + 1 : kHeader + static_cast<std::int64_t>(parts * (4 + 8) + documents * 8);
  const bool has_modes = file.size() == least + static_cast<std::int64_t>(parts);  // of data that is not text alone
  if (file.size() != least && !has_modes)
    throw BadInput(path, "is damaged or truncated: it has " + std::to_string(file.size()) + " bytes, and " + std::to_string(parts) +
                             " parts and " + std::to_string(documents) + " documents take " + std::to_string(least));
  if (has_modes && parts > 0) throw BadInput(path, "is of data with several modes, and text alone is read");
  const auto width = static_cast<std::int64_t>(size_of(index.dtype));
  for (std::int64_t n = 0; n < static_cast<std::int64_t>(parts); ++n) {
    const auto length = value_at<std::int32_t>(bytes, kHeader + 4 * n);
    const auto begin = value_at<std::int64_t>(bytes, kHeader + 4 * static_cast<std::int64_t>(parts) + 8 * n);
    if (length < 0 || begin != index.tokens * width)
      throw BadInput(path, "is damaged: part " + std::to_string(n) + " of " + std::to_string(length) + " tokens begins at byte " +
                               std::to_string(begin) + ", and the ones before end at byte " + std::to_string(index.tokens * width));
    index.tokens += length;
  }
  return index;
}

std::unique_ptr<Dataset> open_megatron(const DatasetRequest& r) {
  std::vector<TokenStream> streams;
  for (const auto& path : r.place.paths) {
    const auto prefix = without_end(path);
    const auto index = read_index(prefix + ".idx");
    auto file = std::make_shared<const StoredFile>(prefix + ".bin");
    const auto bytes = index.tokens * static_cast<std::int64_t>(size_of(index.dtype));
    if (file->size() != bytes)
      throw BadInput(prefix + ".idx", "does not belong to " + prefix + ".bin: it speaks of " + std::to_string(index.tokens) +
                                          " tokens in " + std::to_string(bytes) + " bytes, and there are " + std::to_string(file->size()) +
                                          " bytes");
    streams.push_back({std::move(file), index.dtype, 0, index.tokens});
  }
  return token_data(std::move(streams), r);
}

bool recognises_megatron(const std::string& path) {
  return path.ends_with(".idx") || (path.ends_with(".bin") && std::filesystem::exists(without_end(path) + ".idx"));
}

}  // namespace

DataKind megatron_row() { return {"megatron", "Megatron's PREFIX.idx beside PREFIX.bin", {"seq"}, recognises_megatron, open_megatron}; }

}  // namespace rehearsal::exec
