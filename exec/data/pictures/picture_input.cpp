#include "exec/data/pictures/picture_input.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::exec {
namespace {

std::string called(const WantedTensor& w) { return "input \"" + w.input + "\" of the model, " + graph::to_text(w.type.shape); }

bool is_colour(std::int64_t channels) { return channels == 1 || channels == 3; }

/// `wanted` is what the model has; 0 where that is open.
void check_picture_size(const PictureTreatment& treatment, PictureSize size, const WantedTensor& w) {
  if (!treatment.size || *treatment.size == size) return;
  const auto text = [](PictureSize s) { return std::to_string(s.height) + "x" + std::to_string(s.width); };
  throw BadInput("--image-size " + text(*treatment.size), called(w) + ", is " + text(size) + "; give that, or leave it out");
}

Converter converter_for(const WantedTensor& w, DType from, const std::string& where, const std::string& what) {
  auto* const found = converter(from, w.type.dtype);
  if (found == nullptr) throw BadInput(where, what + ", and " + called(w) + ", is " + std::string(row(w.type.dtype).numpy_name));
  return found;
}

}  // namespace

PictureInput::PictureInput(const WantedTensor& w, const PictureTreatment& treatment, const std::string& where)
    : treatment_(treatment), dtype_(w.type.dtype), convert_(converter_for(w, DType::F32, where, "pictures are fractions")) {
  const auto shape = w.sample_shape();
  if (shape.size() != 3) throw BadInput(where, "holds pictures, and " + called(w) + ", is none: [batch, channels, height, width]");
  target_.channels_last = !is_colour(shape[0]) && is_colour(shape[2]);
  const auto channels = target_.channels_last ? shape[2] : shape[0];
  if (!is_colour(channels))
    throw BadInput(where, "holds pictures of 3 channels or 1, and " + called(w) + ", has " + std::to_string(channels) + " channels");
  channels_ = static_cast<int>(channels);
  const auto* extent = shape.data() + (target_.channels_last ? 0 : 1);
  target_.size = {static_cast<int>(extent[1]), static_cast<int>(extent[0])};
  check_picture_size(treatment, target_.size, w);
  for (std::size_t c = 0; c < 3; ++c) {
    target_.scale[c] = 1 / (255 * treatment.deviation[c]);
    target_.shift[c] = -treatment.mean[c] / treatment.deviation[c];
  }
}

void PictureInput::read(const PictureBytes& file, const WindowDraw& draw, void* out) const {
  const Decoding decoding{channels_, target_.size, [&](PictureSize picture) { return window_of(treatment_, picture, target_.size, draw); }};
  const auto decoded = decode(file, decoding);
  auto target = target_;
  if (dtype_ == DType::F32) {
    target.to = static_cast<float*>(out);
    return resample(decoded.picture, decoded.window, target);
  }
  std::vector<float> values(static_cast<std::size_t>(channels_ * target_.size.width * target_.size.height));
  target.to = values.data();
  resample(decoded.picture, decoded.window, target);
  convert_(reinterpret_cast<const std::byte*>(values.data()), static_cast<std::byte*>(out), static_cast<std::int64_t>(values.size()));
}

ClassInput::ClassInput(const WantedTensor& w, const std::string& where)
    : convert_(converter_for(w, DType::I64, where, "classes are whole numbers")) {
  if (graph::element_count(w.sample_shape()) != 1) throw BadInput(where, "gives every sample one class, and " + called(w) + ", wants more");
  if (is_float(w.type.dtype)) throw BadInput(where, "gives every sample a class, a whole number, and " + called(w) + ", wants fractions");
}

void ClassInput::read(std::int64_t number, void* out) const {
  convert_(reinterpret_cast<const std::byte*>(&number), static_cast<std::byte*>(out), 1);
}

ClassPictureInput::ClassPictureInput(const WantedTensor& w, const PictureTreatment& treatment, std::vector<std::int64_t> classes,
                                     const std::string& where)
    : treatment_(treatment), classes_(std::move(classes)), convert_(converter_for(w, DType::I64, where, "classes are whole numbers")) {
  auto shape = w.sample_shape();
  if (shape.size() == 3 && shape[0] == 1) shape.erase(shape.begin());
  if (shape.size() != 2)
    throw BadInput(where, "gives every pixel a class, and " + called(w) + ", is no picture of them: [batch, height, width]");
  size_ = {static_cast<int>(shape[1]), static_cast<int>(shape[0])};
  check_picture_size(treatment, size_, w);
}

void ClassPictureInput::read(const PictureBytes& file, const WindowDraw& draw, void* out) const {
  const auto picture = decode_classes(file);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(size_.width) * static_cast<std::size_t>(size_.height));
  resample_nearest(picture, window_of(treatment_, picture.size, size_, draw), size_, values.data());
  std::vector<std::int64_t> numbers(values.size());
  std::transform(values.begin(), values.end(), numbers.begin(), [&](std::uint8_t value) { return classes_[value]; });
  convert_(reinterpret_cast<const std::byte*>(numbers.data()), static_cast<std::byte*>(out), static_cast<std::int64_t>(numbers.size()));
}

}  // namespace rehearsal::exec
