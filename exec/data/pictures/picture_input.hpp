#pragma once
// Pictures and classes as the inputs of a model want them.

#include "exec/data/pictures/picture.hpp"
#include "exec/data/values/convert.hpp"
#include "exec/data/values/wanted.hpp"

namespace rehearsal::exec {

/// An input of [batch, channels, height, width] or [batch, height, width, channels] of fractions, with 3 channels or 1.
class PictureInput {
 public:
  /// Throws BadInput naming `where` and the input when it cannot be a picture.
  PictureInput(const WantedTensor&, const PictureTreatment&, const std::string& where);
  [[nodiscard]] PictureSize size() const { return target_.size; }
  [[nodiscard]] int channels() const { return channels_; }
  /// By any number of threads.
  void read(const PictureBytes&, const WindowDraw&, void* out) const;

 private:
  PictureTreatment treatment_;
  int channels_ = 3;
  PictureTarget target_;
  DType dtype_;
  Converter convert_;
};

/// A target (or an input) of one class a sample.
class ClassInput {
 public:
  ClassInput(const WantedTensor&, const std::string& where);
  void read(std::int64_t number, void* out) const;

 private:
  Converter convert_;
};

/// A target of one class a pixel: [batch, height, width], of fractions also with a dimension of one channel.
class ClassPictureInput {
 public:
  /// `classes`: by value of the picture; of `size`, as that of the picture that the classes are of.
  ClassPictureInput(const WantedTensor&, const PictureTreatment&, std::vector<std::int64_t> classes, const std::string& where);
  [[nodiscard]] PictureSize size() const { return size_; }
  void read(const PictureBytes&, const WindowDraw&, void* out) const;

 private:
  PictureTreatment treatment_;
  PictureSize size_;
  std::vector<std::int64_t> classes_;
  Converter convert_;
};

}  // namespace rehearsal::exec
