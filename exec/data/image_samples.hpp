#pragma once
// Samples of one picture and one class each, wherever they are stored.

#include <optional>
#include <vector>

#include "exec/data/dataset.hpp"
#include "exec/data/pictures/picture_input.hpp"

namespace rehearsal::exec {

/// Which inputs are the picture, and which the class.
class ImageInputs {
 public:
  /// `classes` of the data. Throws BadInput naming `where` when they are more than the model's.
  ImageInputs(const DatasetRequest&, std::int64_t classes, const std::string& where);
  [[nodiscard]] bool is_picture(std::size_t wanted) const { return pictures_[wanted].has_value(); }
  void read_picture(const RowRequest&, const PictureBytes&, void* out) const;
  void read_class(const RowRequest&, std::int64_t number, void* out) const;

 private:
  std::uint64_t seed_;
  std::vector<std::optional<PictureInput>> pictures_;  ///< by input
  std::vector<std::optional<ClassInput>> classes_;
};

}  // namespace rehearsal::exec
