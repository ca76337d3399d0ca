// Files of nothing but tokens: .bin in the element type that is said, or one .npy array.
#include "base/error.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/npz.hpp"
#include "exec/data/token_streams.hpp"

namespace rehearsal::exec {
namespace {

TokenStream npy_stream(std::shared_ptr<const StoredFile> file, const DataPlace& place) {
  const auto header = npy_header(*file);
  if (header.type.shape.size() != 1)
    throw BadInput(file->path(), "has shape " + graph::to_text(header.type.shape) + ", and tokens are one row");
  const std::string held(row(header.type.dtype).numpy_name);
  if (const auto said = place.keys.find("dtype"); said != place.keys.end() && said->second != held)
    throw BadInput(file->path(), "holds tokens of type " + held + ", and dtype=" + said->second + " is asked for; leave it out");
  const auto dtype = token_type(held, file->path());
  return {std::move(file), dtype, static_cast<std::int64_t>(header.end), header.type.shape[0]};
}

TokenStream plain_stream(std::shared_ptr<const StoredFile> file, const DataPlace& place) {
  const auto said = place.keys.find("dtype");
  if (said == place.keys.end()) throw BadInput(file->path(), "does not say what type its tokens are; add ?dtype=uint16");
  const auto dtype = token_type(said->second, file->path());
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  if (file->size() % bytes != 0)
    throw BadInput(file->path(), "has " + std::to_string(file->size()) + " bytes, which is no number of " + said->second + " tokens of " +
                                     std::to_string(bytes) + " bytes: it is truncated, or of another type");
  const auto tokens = file->size() / bytes;
  return {std::move(file), dtype, 0, tokens};
}

std::unique_ptr<Dataset> open_tokens(const DatasetRequest& r) {
  std::vector<TokenStream> streams;
  for (const auto& path : r.place.paths) {
    auto file = std::make_shared<const StoredFile>(path);
    streams.push_back(path.ends_with(".npy") ? npy_stream(std::move(file), r.place) : plain_stream(std::move(file), r.place));
  }
  return token_data(std::move(streams), r);
}

}  // namespace

DataKind tokens_row() {
  return {
      "tokens", "tokens:FILE.bin?dtype=uint16 or tokens:FILE.npy", {"dtype", "seq"}, [](const std::string&) { return false; }, open_tokens};
}

}  // namespace rehearsal::exec
