// PNG by libpng.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "base/error.hpp"
#include "exec/data/pictures/picture.hpp"

namespace rehearsal::exec {
namespace {

struct Reading {
  const std::byte* at = nullptr;
  std::size_t left = 0;
  char failure[120] = "";
};

void on_read(png_structp png, png_bytep to, png_size_t count) {
  auto* reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (reading->left < count) png_error(png, "it ends too early");
  std::memcpy(to, reading->at, count);
  reading->at += count;
  reading->left -= count;
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(reading->failure, message, sizeof reading->failure - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

/// Calls of the library. It leaves them by a jump, so nothing in them needs a destructor.
bool read_header(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_info(png, info);
  return true;
}

/// 8 bits a channel, of so many channels; 0: the values as they are.
bool set_form(png_structp png, png_infop info, int channels) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  const auto colour = png_get_color_type(png, info);
  if (channels == 0) {
    png_set_packing(png);
  } else {
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    constexpr int kSilently = 1;
    if (channels == 3) png_set_gray_to_rgb(png);
    if (channels == 1 && (colour & PNG_COLOR_MASK_COLOR) != 0) png_set_rgb_to_gray_fixed(png, kSilently, 29900, 58700);  // ITU-R BT.601
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool read_rows(png_structp png, png_bytep* rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);  // compares the last checksums
  return true;
}

class PngFile {
 public:
  explicit PngFile(const PictureBytes& file) : file_(file), reading_{file.bytes.data(), file.bytes.size()} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading_, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) throw EnvironmentFailure(file_.where + ": no memory to read a PNG");
    png_set_read_fn(png_, &reading_, on_read);
  }
  ~PngFile() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  Picture decode(int channels) {
    require(read_header(png_, info_));
    const auto width = png_get_image_width(png_, info_), height = png_get_image_height(png_, info_);
    check_size(file_, width, height);
    const auto colour = png_get_color_type(png_, info_);
    if (channels == 0 && ((colour != PNG_COLOR_TYPE_GRAY && colour != PNG_COLOR_TYPE_PALETTE) || png_get_bit_depth(png_, info_) > 8))
      throw BadInput(file_.where, "is no picture of classes: those are PNGs of one channel of at most 8 bits, or with a palette");
    require(set_form(png_, info_, channels));
    Picture picture{{static_cast<int>(width), static_cast<int>(height)}, channels == 0 ? 1 : channels, {}};
    const auto stride = static_cast<std::size_t>(width) * static_cast<std::size_t>(picture.channels);
    ensure(png_get_rowbytes(png_, info_) == stride, "libpng gives 8 bits a channel");
    picture.pixels.resize(stride * height);
    std::vector<png_bytep> rows(height);
    for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = picture.pixels.data() + y * stride;
    require(read_rows(png_, rows.data()));
    return picture;
  }

 private:
  void require(bool done) const {
    if (!done) throw BadInput(file_.where, "is a damaged or truncated PNG (" + std::string(reading_.failure) + ")");
  }

  PictureBytes file_;
  Reading reading_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Picture decode_png(const PictureBytes& file, int channels) { return PngFile(file).decode(channels); }

}  // namespace rehearsal::exec
