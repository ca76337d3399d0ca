// JPEG by libjpeg-turbo: only the rows and columns of the window, and at a fraction of the size where that is enough.
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it before

// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "base/error.hpp"
#include "exec/data/pictures/picture.hpp"

namespace rehearsal::exec {
namespace {

struct ErrorState {
  jpeg_error_mgr manager;  // first: the library hands back a pointer to it
  std::jmp_buf back;
  int damage;  ///< number of the first warning that says that pixels are lost; 0: none
};

[[noreturn]] void on_error(j_common_ptr info) { std::longjmp(reinterpret_cast<ErrorState*>(info->err)->back, 1); }

void on_message(j_common_ptr info, int level) {
  auto* errors = reinterpret_cast<ErrorState*>(info->err);
  const int code = errors->manager.msg_code;
  const bool lost = code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE;
  if (level < 0 && lost && errors->damage == 0) errors->damage = code;
}

/// Calls of the library. It leaves them by a jump, so nothing in them needs a destructor.
struct Session {
  jpeg_decompress_struct info;
  ErrorState errors;
};

bool read_header(Session& s, const unsigned char* bytes, unsigned long size) {
  if (setjmp(s.errors.back) != 0) return false;
  jpeg_mem_src(&s.info, bytes, size);
  jpeg_read_header(&s.info, TRUE);
  return true;
}

struct JpegPart {
  JDIMENSION left = 0, top = 0, width = 0, height = 0;
};

/// `part` grows to what the library can begin with.
bool start(Session& s, JpegPart& part) {
  if (setjmp(s.errors.back) != 0) return false;
  jpeg_start_decompress(&s.info);
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
  if (part.width < s.info.output_width) jpeg_crop_scanline(&s.info, &part.left, &part.width);
#endif
  return true;
}

bool read_rows(Session& s, const JpegPart& part, unsigned char* to) {
  if (setjmp(s.errors.back) != 0) return false;
  const auto stride = static_cast<std::size_t>(s.info.output_width) * static_cast<std::size_t>(s.info.output_components);
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
  if (part.top > 0) jpeg_skip_scanlines(&s.info, part.top);
#endif
  for (JDIMENSION row = 0; row < part.height;) {
    JSAMPROW at = to + row * stride;
    row += jpeg_read_scanlines(&s.info, &at, 1);
  }
  jpeg_abort_decompress(&s.info);
  return true;
}

/// Inks, stored inverted as Adobe's programs do, over white.
void from_inks(Picture& picture, int channels) {
  std::vector<std::uint8_t> colours(picture.pixels.size() / 4 * static_cast<std::size_t>(channels));
  const auto mixed = [](unsigned ink, unsigned black) { return static_cast<std::uint8_t>((ink * black + 127) / 255); };
  for (std::size_t p = 0; p < picture.pixels.size() / 4; ++p) {
    const auto* inks = &picture.pixels[4 * p];
    const std::uint8_t red = mixed(inks[0], inks[3]), green = mixed(inks[1], inks[3]), blue = mixed(inks[2], inks[3]);
    auto* to = &colours[p * static_cast<std::size_t>(channels)];
    if (channels == 3)
      to[0] = red, to[1] = green, to[2] = blue;
    else
      to[0] = static_cast<std::uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);  // ITU-R BT.601
  }
  picture.pixels = std::move(colours);
  picture.channels = channels;
}

class JpegFile {
 public:
  explicit JpegFile(const PictureBytes& file) : file_(file) {
    session_.info.err = jpeg_std_error(&session_.errors.manager);
    session_.errors.manager.error_exit = on_error;
    session_.errors.manager.emit_message = on_message;
    session_.errors.damage = 0;
    jpeg_create_decompress(&session_.info);
    require(read_header(session_, reinterpret_cast<const unsigned char*>(file.bytes.data()), file.bytes.size()));
    check_size(file_, session_.info.image_width, session_.info.image_height);
  }
  ~JpegFile() { jpeg_destroy_decompress(&session_.info); }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;

  [[nodiscard]] PictureSize size() const {
    return {static_cast<int>(session_.info.image_width), static_cast<int>(session_.info.image_height)};
  }

  DecodedPicture decode(const PictureWindow& window, const Decoding& decoding) {
    auto& info = session_.info;
    const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    info.out_color_space = inks ? JCS_CMYK : decoding.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info.scale_num = 1;
    info.scale_denom = fraction(window, decoding.wanted);
    jpeg_calc_output_dimensions(&info);
    const double across = static_cast<double>(info.output_width) / info.image_width,
                 down = static_cast<double>(info.output_height) / info.image_height;
    auto part = part_of(window, across, down);
    require(start(session_, part));
    DecodedPicture decoded;
    decoded.picture = {{static_cast<int>(info.output_width), static_cast<int>(part.height)}, info.output_components, {}};
    decoded.picture.pixels.resize(static_cast<std::size_t>(info.output_width) * part.height *
                                  static_cast<std::size_t>(info.output_components));
    require(read_rows(session_, part, decoded.picture.pixels.data()));
    decoded.window = {window.left * across - part.left, window.top * down - part.top, window.width * across, window.height * down,
                      window.flipped};
    if (inks) from_inks(decoded.picture, decoding.channels);
    return decoded;
  }

 private:
  /// The size that is decoded is never below the one that is wanted.
  static unsigned fraction(const PictureWindow& window, PictureSize wanted) {
    unsigned denominator = 1;
    while (denominator < 8 && window.width >= 2.0 * denominator * wanted.width && window.height >= 2.0 * denominator * wanted.height)
      denominator *= 2;
    return denominator;
  }

  [[nodiscard]] JpegPart part_of(const PictureWindow& w, double across, double down) const {
    const auto& info = session_.info;
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
    const auto begin = [](double at) { return static_cast<JDIMENSION>(std::max(0.0, std::floor(at))); };
    const auto count = [](double end, JDIMENSION from, JDIMENSION all) {
      return std::min(static_cast<JDIMENSION>(std::ceil(end)), all) - from;
    };
    JpegPart part{begin(w.left * across), begin(w.top * down), 0, 0};
    part.width = count((w.left + w.width) * across, part.left, info.output_width);
    part.height = count((w.top + w.height) * down, part.top, info.output_height);
    return part;
#else
    (void)w, (void)across, (void)down;
    return {0, 0, info.output_width, info.output_height};
#endif
  }

  void require(bool done) {
    if (done && session_.errors.damage == 0) return;
    char text[JMSG_LENGTH_MAX] = "";
    if (done) session_.errors.manager.msg_code = session_.errors.damage;
    session_.errors.manager.format_message(reinterpret_cast<j_common_ptr>(&session_.info), text);
    throw BadInput(file_.where, "is a damaged or truncated JPEG (" + std::string(text) + ")");
  }

  PictureBytes file_;
  Session session_{};
};

}  // namespace

DecodedPicture decode_jpeg(const PictureBytes& file, const Decoding& decoding) {
  JpegFile jpeg(file);
  return jpeg.decode(decoding.window(jpeg.size()), decoding);
}

}  // namespace rehearsal::exec
