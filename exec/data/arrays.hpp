#pragma once
// Samples that are rows of arrays: in memory (.npz) or in files (.npy).

#include <memory>
#include <string>
#include <vector>

#include "exec/data/dataset.hpp"
#include "exec/data/stored_file.hpp"
#include "exec/data/values/convert.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::exec {

/// Rows of one array.
struct ArrayBlock {
  std::string origin;                                        ///< its file
  graph::TensorType type;                                    ///< the first dimension is the rows; without it where the array is one sample
  std::shared_ptr<const std::vector<std::byte>> bytes = {};  ///< where it is in memory
  std::shared_ptr<const StoredFile> file = {};               ///< where that is open; neither: it is opened when it is read
  std::int64_t offset = 0;                                   ///< of the first element in the file
  bool one_sample = false;
};

/// The blocks of one array, one after the other.
class ArrayColumn {
 public:
  explicit ArrayColumn(const WantedTensor& wanted) : wanted_(wanted) {}
  /// Throws BadInput naming file, array and input when shape or element type do not suit.
  void add(ArrayBlock block, const std::string& array);
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Throws BadInput naming the file where the n-th files of both are of different lengths, or, where one of them alone has a file a
  /// sample, all files together.
  void require_rows_of(const ArrayColumn& other) const;
  [[nodiscard]] bool per_sample() const { return wanted_.per_sample; }
  [[nodiscard]] std::string origin_of(std::int64_t row) const;
  [[nodiscard]] std::int64_t read(const RowRequest&, void* out) const;

 private:
  struct RowsOfBlock {
    ArrayBlock block;
    std::int64_t first = 0, rows = 0;
    Converter convert = nullptr;
  };
  [[nodiscard]] const RowsOfBlock& place_of(std::int64_t row) const;
  [[nodiscard]] bool one_per_file() const { return places_.front().block.one_sample; }
  [[nodiscard]] bool suits(const ArrayBlock&) const;
  [[nodiscard]] std::int64_t copy(const RowsOfBlock&, const plan::BlockCopy&, std::int64_t first, std::byte* out) const;

  WantedTensor wanted_;
  std::string array_;
  std::vector<RowsOfBlock> places_;
  std::int64_t rows_ = 0;
};

/// What the array of an input is called.
[[nodiscard]] const std::string& array_of(const WantedTensor&);
/// Throws BadInput naming every input whose array is not among `held`, and how to say which one it is.
void require_arrays(const std::string& where, const std::vector<std::string>& held, const std::vector<WantedTensor>&);
/// Throws BadInput naming the file in which the columns are of different lengths. Each of them has a file at least.
[[nodiscard]] std::unique_ptr<Dataset> array_data(std::vector<ArrayColumn> columns, bool in_memory);

}  // namespace rehearsal::exec
