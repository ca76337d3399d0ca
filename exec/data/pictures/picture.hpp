#pragma once
// Pictures as files have them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/data/pictures/treatment.hpp"

namespace rehearsal::exec {

/// 8 bits a channel, row by row, the channels of a pixel side by side.
struct Picture {
  PictureSize size;
  int channels = 3;
  std::vector<std::uint8_t> pixels;
};

struct PictureBytes {
  std::span<const std::byte> bytes;
  const std::string& where;  ///< its file, for messages
};

struct Decoding {
  int channels = 3;    ///< 3: red, green, blue; 1: grey; what the file has otherwise is converted, and transparency left out
  PictureSize wanted;  ///< pixels that the window becomes: a JPEG that is much larger is decoded at 1/2, 1/4 or 1/8 of its size
  std::function<PictureWindow(PictureSize)> window;  ///< called once, with the size that the file says
};
/// Some of a picture, and where the window lies in it.
struct DecodedPicture {
  Picture picture;
  PictureWindow window;
};
/// What a file is follows from its first bytes, not its name. Throws BadInput when it is neither JPEG nor PNG or is damaged, Refusal when
/// this program was built without the library.
[[nodiscard]] DecodedPicture decode(const PictureBytes&, const Decoding&);
/// A PNG of one channel or with a palette, whose values are classes.
[[nodiscard]] Picture decode_classes(const PictureBytes&);

/// As its header says, without decoding it.
[[nodiscard]] PictureSize size_of(const PictureBytes&);

/// Whether a name ends as names of pictures do (.jpg, .jpeg, .png, in any case).
[[nodiscard]] bool is_picture_name(const std::string& path);
/// Throws BadInput when it is the name of a picture of a type that is not read: `where` and the name.
void refuse_other_picture(const std::string& where, const std::string& name);

// Of one format each.
[[nodiscard]] DecodedPicture decode_jpeg(const PictureBytes&, const Decoding&);
[[nodiscard]] Picture decode_png(const PictureBytes&, int channels);
/// Throws BadInput when a picture says to be larger than 2^28 pixels.
void check_size(const PictureBytes&, std::int64_t width, std::int64_t height);

/// Row-major elements; of [channels, height, width] or [height, width, channels].
struct PictureTarget {
  float* to = nullptr;
  PictureSize size;
  bool channels_last = false;
  std::array<float, 3> scale = {1, 1, 1}, shift = {0, 0, 0};  ///< applied to values from 0 to 255
};
/// Every pixel of the target is the mean of the pixels below it, weighted by a triangle that is as wide as two of its pixels, or as two of
/// the picture's where those are larger: linear interpolation without aliasing, as Pillow's and torchvision's "bilinear".
void resample(const Picture&, const PictureWindow&, const PictureTarget&);
/// The pixel at the middle of each of the target's.
void resample_nearest(const Picture&, const PictureWindow&, PictureSize, std::uint8_t* to);

}  // namespace rehearsal::exec
