#pragma once
// What becomes of a picture on its way into a model: its size, random cuts and mirrors, normalization.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rehearsal::exec {

struct PictureSize {
  int width = 0, height = 0;
  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};

struct PictureTreatment {
  std::optional<PictureSize> size;  ///< empty: as the model has it
  bool crop = false;                ///< a random part; else the largest middle of the right proportions
  double least_area = 0.08;         ///< share of the picture that a random part has at least: torchvision's RandomResizedCrop
  bool flip = false;                ///< mirrored left to right, by a coin
  std::array<float, 3> mean = {0, 0, 0}, deviation = {1, 1, 1};  ///< of red, green, blue between 0 and 1
};

/// "224" or "512x1024" (height x width). Throws BadInput.
[[nodiscard]] PictureSize parse_picture_size(const std::string& text);
/// "crop,flip", "crop=0.25". Throws BadInput.
void parse_augmentation(const std::string& text, PictureTreatment&);
/// "imagenet", or "0.485,0.456,0.406/0.229,0.224,0.225". Throws BadInput.
void parse_normalization(const std::string& text, PictureTreatment&);

/// The option by which a treatment is another than the usual one; empty: it is not.
[[nodiscard]] std::string_view asked_by(const PictureTreatment&);

/// A part of a picture, in its pixels, of which the model sees every sample.
struct PictureWindow {
  double left = 0, top = 0, width = 0, height = 0;
  bool flipped = false;
};
/// Drawn by (seed, sample) alone: the pictures of one sample have the same one.
struct WindowDraw {
  std::uint64_t seed = 0;
  std::int64_t sample = 0;
};
[[nodiscard]] PictureWindow window_of(const PictureTreatment&, PictureSize picture, PictureSize wanted, const WindowDraw&);

}  // namespace rehearsal::exec
