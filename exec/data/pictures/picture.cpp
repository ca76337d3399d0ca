#include "exec/data/pictures/picture.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/names.hpp"

namespace rehearsal::exec {
namespace {

bool begins_with(const PictureBytes& picture, std::span<const std::uint8_t> magic) {
  return picture.bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), picture.bytes.begin(),
                    [](std::uint8_t m, std::byte b) { return m == std::to_integer<std::uint8_t>(b); });
}

constexpr std::uint8_t kJpeg[] = {0xFF, 0xD8, 0xFF};
constexpr std::uint8_t kPng[] = {0x89, 'P', 'N', 'G', 0x0D, 0x0A, 0x1A, 0x0A};

[[noreturn]] void refuse(const PictureBytes& picture) {
  if (picture.bytes.empty()) throw BadInput(picture.where, "is empty, and no picture");
  throw BadInput(picture.where, "is no picture that is read: it begins neither as a JPEG nor as a PNG does");
}

}  // namespace

#ifndef REHEARSAL_HAS_JPEG
DecodedPicture decode_jpeg(const PictureBytes& picture, const Decoding&) {
  throw Refusal(picture.where + ": is a JPEG, and this program was built without libjpeg; install libjpeg-dev and build it again");
}
#endif
#ifndef REHEARSAL_HAS_PNG
Picture decode_png(const PictureBytes& picture, int) {
  throw Refusal(picture.where + ": is a PNG, and this program was built without libpng; install libpng-dev and build it again");
}
#endif

DecodedPicture decode(const PictureBytes& picture, const Decoding& decoding) {
  if (begins_with(picture, kJpeg)) return decode_jpeg(picture, decoding);
  if (!begins_with(picture, kPng)) refuse(picture);
  DecodedPicture decoded{decode_png(picture, decoding.channels), {}};
  decoded.window = decoding.window(decoded.picture.size);
  return decoded;
}

Picture decode_classes(const PictureBytes& picture) {
  if (begins_with(picture, kJpeg)) throw BadInput(picture.where, "is a JPEG, which does not keep classes exactly; store them as PNG");
  if (!begins_with(picture, kPng)) refuse(picture);
  constexpr int kClasses = 0;
  return decode_png(picture, kClasses);
}

namespace {

/// Big-endian.
std::int64_t number_at(const PictureBytes& picture, std::size_t at, std::size_t bytes) {
  if (at + bytes > picture.bytes.size()) throw BadInput(picture.where, "is a truncated picture");
  std::int64_t number = 0;
  for (const auto b : picture.bytes.subspan(at, bytes)) number = number << 8 | std::to_integer<std::int64_t>(b);
  return number;
}

/// Where the segment begins that says how large a JPEG is (ITU-T T.81, table B.1: markers C0 to CF but C4, C8 and CC).
std::size_t frame_of(const PictureBytes& picture) {
  std::size_t at = 2;
  for (;;) {
    const auto marker = number_at(picture, at, 2);
    if (marker < 0xFF00) throw BadInput(picture.where, "is a damaged JPEG: no marker stands at byte " + std::to_string(at));
    if (marker >= 0xFFC0 && marker <= 0xFFCF && marker != 0xFFC4 && marker != 0xFFC8 && marker != 0xFFCC) return at;
    at += marker == 0xFFFF ? 1 : 2 + static_cast<std::size_t>(number_at(picture, at + 2, 2));
  }
}

}  // namespace

PictureSize size_of(const PictureBytes& picture) {
  const bool jpeg = begins_with(picture, kJpeg);
  if (!jpeg && !begins_with(picture, kPng)) refuse(picture);
  const auto frame = jpeg ? frame_of(picture) : 0;
  const auto width = jpeg ? number_at(picture, frame + 7, 2) : number_at(picture, 16, 4);
  const auto height = jpeg ? number_at(picture, frame + 5, 2) : number_at(picture, 20, 4);
  check_size(picture, width, height);
  return {static_cast<int>(width), static_cast<int>(height)};
}

namespace {

/// ".jpg", in lower case.
std::string ending_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : lower_case(std::string_view(path).substr(dot));
}

}  // namespace

bool is_picture_name(const std::string& path) {
  const auto end = ending_of(path);
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

void refuse_other_picture(const std::string& where, const std::string& name) {
  constexpr std::string_view kOthers[] = {".webp", ".bmp", ".gif", ".tif", ".tiff", ".jp2", ".jxl", ".heic", ".avif", ".ppm", ".pgm"};
  const auto last = name.substr(name.rfind('/') + 1);
  if (last.empty() || last.front() == '.' || std::ranges::find(kOthers, ending_of(last)) == std::end(kOthers)) return;
  throw BadInput(where,
                 "\"" + name + "\" is a picture that is not read, and would be left out: make a .jpg or .png of it, or take it away");
}

void check_size(const PictureBytes& picture, std::int64_t width, std::int64_t height) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
  if (width < 1 || height < 1 || width > kMostPixels / height)
    throw BadInput(picture.where,
                   "says to be a picture of " + std::to_string(width) + " x " + std::to_string(height) + " pixels; at most 2^28 are read");
}

}  // namespace rehearsal::exec
