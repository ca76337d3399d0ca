#pragma once
// Samples as files have them: by number, in no order of training.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/data.hpp"
#include "exec/data/values/wanted.hpp"

namespace rehearsal::exec {

struct RowRequest {
  std::size_t wanted = 0;              ///< which of the inputs that the set was opened for
  std::int64_t row = 0;                ///< below samples()
  std::int64_t sample = 0;             ///< number in the training: what random treatment is drawn by
  const plan::Region* part = nullptr;  ///< see SampleRequest; only where reads_parts()
};

/// Nothing changes while it is read, by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t samples() const = 0;
  /// "row 17 of train.npz"
  [[nodiscard]] virtual std::string origin_of(std::int64_t row) const = 0;
  /// Writes what is wanted of one sample in the element type that is wanted; all of it where it is no sample's own. Returns how many bytes
  /// of files it read. Throws BadInput naming the file.
  [[nodiscard]] virtual std::int64_t read(const RowRequest&, void* out) const = 0;
  [[nodiscard]] virtual bool reads_parts() const { return false; }
  [[nodiscard]] virtual bool in_memory() const { return false; }  ///< reading ahead saves nothing
};

/// What --data says, of one kind.
struct DataPlace {
  std::vector<std::string> paths;                ///< of files or folders; looked at by the kind
  std::map<std::string, std::string> keys = {};  ///< behind the '?', known to the kind
};
struct DatasetRequest {
  const DataPlace& place;
  const std::vector<WantedTensor>& wanted;
  const DataOptions& options;
};

/// A kind of data; one row each.
struct DataKind {
  std::string_view name;   ///< before the colon
  std::string_view files;  ///< what a path of it looks like, for messages and help
  std::vector<std::string_view> keys;
  bool (*recognises)(const std::string& path);  ///< without its name
  std::unique_ptr<Dataset> (*open)(const DatasetRequest&);
  std::vector<std::string> (*arrays)(const DataPlace&) = nullptr;   ///< names of arrays; nullptr: always the same ones
  std::vector<std::string> (*classes)(const DataPlace&) = nullptr;  ///< in order, where names number them; nullptr: numbers do
  bool pictures = false;  ///< what DataOptions::pictures treats
};
[[nodiscard]] std::span<const DataKind> data_kinds();

}  // namespace rehearsal::exec
