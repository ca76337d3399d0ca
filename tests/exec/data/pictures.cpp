// Pictures: decoded, cut, resized, normalized.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "exec/data/pictures/picture.hpp"
#include "exec/data/pictures/picture_input.hpp"
#include "tests/exec/data/stored.hpp"

#ifndef REHEARSAL_NO_JPEG
#include <jpeglib.h>
#endif

using namespace rehearsal;
using namespace rehearsal::exec;
using stored::check_refused;
using Values = std::vector<float>;

namespace {

std::span<const std::byte> as_bytes(const std::string& text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }

Picture grey(int width, int height, std::vector<std::uint8_t> pixels) { return {{width, height}, 1, std::move(pixels)}; }

Values resampled(const Picture& picture, const PictureWindow& window, PictureSize size) {
  Values to(static_cast<std::size_t>(size.width * size.height * picture.channels));
  resample(picture, window, {to.data(), size});
  return to;
}

Decoding whole(int channels, PictureSize wanted) {
  return {channels, wanted, [](PictureSize s) { return PictureWindow{0, 0, static_cast<double>(s.width), static_cast<double>(s.height)}; }};
}

Values read_with(const PictureInput& input, const std::string& file, std::size_t elements) {
  const std::string where = "p.png";
  Values out(elements);
  input.read({as_bytes(file), where}, {}, out.data());
  return out;
}

}  // namespace

TEST_CASE("a picture of its own size stays as it is") {
  const auto picture = grey(3, 2, {1, 2, 3, 40, 50, 60});
  CHECK(resampled(picture, {0, 0, 3, 2}, {3, 2}) == Values{1, 2, 3, 40, 50, 60});
  CHECK(resampled(picture, {0, 0, 3, 2, true}, {3, 2}) == Values{3, 2, 1, 60, 50, 40});
  CHECK(resampled(picture, {1, 1, 2, 1}, {2, 1}) == Values{50, 60});
}

TEST_CASE("a smaller picture has the mean of what lies below each pixel") {
  // Four pixels become two: step 2, a triangle of radius 2. The first is around 1, so its weights are 3/4, 3/4, 1/4 and 0, of 7/4.
  const auto row = resampled(grey(4, 1, {0, 100, 200, 60}), {0, 0, 4, 1}, {2, 1});
  CHECK(row[0] == Approx((75 + 50) / 1.75));
  CHECK(row[1] == Approx((25 + 150 + 45) / 1.75));
  const auto column = resampled(grey(1, 4, {0, 100, 200, 60}), {0, 0, 1, 4}, {1, 2});
  CHECK(column[0] == Approx(row[0]));
  CHECK(column[1] == Approx(row[1]));
}

TEST_CASE("a larger picture is interpolated") {
  // Around 0.25, 0.75, 1.25, 1.75 of pixels whose middles are 0.5 and 1.5; beyond them there is nothing.
  const auto row = resampled(grey(2, 1, {0, 100}), {0, 0, 2, 1}, {4, 1});
  CHECK(row[0] == Approx(0));
  CHECK(row[1] == Approx(25));
  CHECK(row[2] == Approx(75));
  CHECK(row[3] == Approx(100));
}

TEST_CASE("classes are never mixed") {
  std::vector<std::uint8_t> to(4);
  resample_nearest(grey(4, 1, {1, 2, 3, 4}), {0, 0, 4, 1}, {2, 1}, to.data());
  CHECK(std::vector<std::uint8_t>(to.begin(), to.begin() + 2) == std::vector<std::uint8_t>{2, 4});  // the middles are at 1 and 3
  resample_nearest(grey(2, 1, {1, 2}), {0, 0, 2, 1, true}, {4, 1}, to.data());
  CHECK(to == std::vector<std::uint8_t>{2, 2, 1, 1});
}

TEST_CASE("a PNG, in colour and in grey") {
  const std::string where = "p.png";
  const auto colour = stored::png(2, 1, 2, {'\xFF', 0, 0, 0, '\x64', '\xC8'});
  CHECK(decode({as_bytes(colour), where}, whole(3, {2, 1})).picture.pixels == std::vector<std::uint8_t>{255, 0, 0, 0, 100, 200});
  const auto as_grey = decode({as_bytes(colour), where}, whole(1, {2, 1})).picture;
  CHECK(as_grey.channels == 1);
  CHECK(std::abs(as_grey.pixels[0] - 76) <= 1);  // 0.299 of 255
  CHECK(std::abs(as_grey.pixels[1] - 82) <= 1);  // 0.587 of 100 and 0.114 of 200
  const auto grey_file = stored::png(2, 1, 0, {5, 9});
  const auto from_grey = decode({as_bytes(grey_file), where}, whole(3, {2, 1})).picture;
  CHECK(from_grey.pixels == std::vector<std::uint8_t>{5, 5, 5, 9, 9, 9});
  CHECK(size_of(PictureBytes{as_bytes(colour), where}) == PictureSize{2, 1});
}

TEST_CASE("classes are the values of a grey picture, and places in a palette") {
  const std::string where = "p.png";
  for (const int kind : {0, 3}) {
    const auto file = stored::png(3, 1, kind, {0, 7, '\xFF'});
    CHECK(decode_classes({as_bytes(file), where}).pixels == std::vector<std::uint8_t>{0, 7, 255});
  }
  const std::string colour = stored::png(1, 1, 2, {1, 2, 3}), jpeg = "\xFF\xD8\xFF";
  check_refused([&] { (void)decode_classes({as_bytes(colour), where}); }, {"p.png", "palette"});
  check_refused([&] { (void)decode_classes({as_bytes(jpeg), where}); }, {"p.png", "JPEG", "PNG"});
}

TEST_CASE("what is no picture, or half of one") {
  const std::string where = "folder/p.png", good = stored::png(8, 8, 2, std::string(192, 'x'));
  const auto refused = [&](const std::string& bytes, const std::vector<std::string>& words) {
    check_refused([&] { (void)decode({as_bytes(bytes), where}, whole(3, {8, 8})); }, words);
  };
  refused("", {"folder/p.png", "empty"});
  refused("hello", {"folder/p.png", "neither as a JPEG nor as a PNG"});
  for (const std::size_t size : {9UL, 40UL, 100UL, good.size() - 5})
    refused(good.substr(0, size), {"folder/p.png", "damaged or truncated"});
  auto flipped = good;
  flipped[100] = static_cast<char>(flipped[100] ^ 16);
  refused(flipped, {"folder/p.png", "damaged"});
  auto huge = good;
  huge[16] = 0x7F;
  refused(huge, {"folder/p.png"});
}

TEST_CASE("values are normalized, and stand where the model wants them") {
  const auto file = stored::png(2, 1, 2, {'\xFF', 0, 51, 0, '\x66', '\xCC'});  // 1, 0, 0.2 and 0, 0.4, 0.8
  PictureTreatment treatment;
  const PictureInput planes(stored::input("x", DType::F32, {4, 3, 1, 2}), treatment, "here");
  const auto by_plane = read_with(planes, file, 6);
  const Values expected{1, 0, 0, 0.4F, 0.2F, 0.8F};
  for (std::size_t n = 0; n < 6; ++n) CHECK(by_plane[n] == Approx(expected[n]).margin(1e-6));
  const PictureInput pixels(stored::input("x", DType::F32, {4, 2, 1, 3}), treatment, "here");
  const auto by_pixel = read_with(pixels, stored::png(1, 2, 2, {'\xFF', 0, 51, 0, '\x66', '\xCC'}), 6);
  for (std::size_t n = 0; n < 6; ++n) CHECK(by_pixel[n] == Approx(expected[n % 3 * 2 + n / 3]).margin(1e-6));
  parse_normalization("0.5,0.4,0.2/0.5,0.2,0.1", treatment);
  const auto normal = read_with(PictureInput(stored::input("x", DType::F32, {4, 3, 1, 2}), treatment, "here"), file, 6);
  const Values then{1, -1, -2, 0, 0, 6};  // (value - mean) / deviation
  for (std::size_t n = 0; n < 6; ++n) CHECK(normal[n] == Approx(then[n]).margin(1e-5));
}

TEST_CASE("inputs that cannot be pictures") {
  const auto refused = [](const WantedTensor& wanted, const std::vector<std::string>& words, const PictureTreatment& treatment = {}) {
    check_refused([&] { PictureInput(wanted, treatment, "here"); }, words);
  };
  refused(stored::input("x", DType::F32, {4, 2, 8, 8}), {"here", "\"x\"", "2 channels"});
  refused(stored::input("x", DType::F32, {4, 192}), {"here", "\"x\"", "[batch, channels, height, width]"});
  refused(stored::input("x", DType::I64, {4, 3, 8, 8}), {"here", "\"x\"", "int64"});
  PictureTreatment small;
  small.size = parse_picture_size("16");
  refused(stored::input("x", DType::F32, {4, 3, 8, 8}), {"--image-size 16x16", "\"x\"", "8x8"}, small);
}

TEST_CASE("sizes, augmentation and normalization as they are written") {
  CHECK(parse_picture_size("224") == PictureSize{224, 224});
  CHECK(parse_picture_size("512x1024") == PictureSize{1024, 512});
  for (const auto* text : {"", "0", "-3", "12x", "x12", "12x0", "12 x 3", "1e9"})
    check_refused([&] { (void)parse_picture_size(text); }, {"--image-size", "HEIGHTxWIDTH"});
  PictureTreatment t;
  parse_augmentation("crop=0.25,flip", t);
  CHECK((t.crop && t.flip && t.least_area == 0.25));
  PictureTreatment spelled;
  parse_augmentation("Crop=0.25,FLIP", spelled);
  CHECK((spelled.crop && spelled.flip && spelled.least_area == 0.25));
  parse_normalization("ImageNet", spelled);
  CHECK(spelled.mean[2] == 0.406F);
  for (const auto* text : {"rotate", "crop=2", "crop=0", "crop=", "flip,crop,x", "flip=0.5"})
    check_refused([&] { parse_augmentation(text, t); }, {"--augment", "crop=SHARE"});
  parse_normalization("imagenet", t);
  CHECK(t.mean[2] == 0.406F);
  CHECK(t.deviation[0] == 0.229F);
  for (const auto* text : {"cifar", "1,2,3", "1,2/3,4", "0,0,0/1,0,1", "0,0,0/1,1,1,1"})
    check_refused([&] { parse_normalization(text, t); }, {"--normalize"});
}

TEST_CASE("the middle of a picture in the right proportions") {
  const auto window = window_of({}, {40, 20}, {10, 10}, {});
  CHECK((window.left == 10 && window.top == 0 && window.width == 20 && window.height == 20 && !window.flipped));
}

TEST_CASE("random parts lie in the picture, have their share of it, and are the same again") {
  PictureTreatment t;
  t.crop = t.flip = true;
  t.least_area = 0.3;
  int flipped = 0;
  double least = 1;
  for (std::int64_t sample = 0; sample < 1000; ++sample) {
    const auto w = window_of(t, {60, 40}, {8, 8}, {5, sample}), again = window_of(t, {60, 40}, {8, 8}, {5, sample});
    CHECK((w.left == again.left && w.top == again.top && w.width == again.width && w.flipped == again.flipped));
    CHECK((w.left >= 0 && w.top >= 0 && w.left + w.width <= 60 && w.top + w.height <= 40));
    least = std::min(least, w.width * w.height / 2400);
    CHECK(w.width / w.height < 1.45);  // 4/3, and the rounding of sides of 20 and more
    CHECK(w.width / w.height > 0.69);
    flipped += w.flipped ? 1 : 0;
  }
  CHECK(least > 0.28);
  CHECK(least < 0.35);
  CHECK(std::abs(flipped - 500) < 80);  // five deviations of a thousand tosses, of 15.8 each
}

#ifndef REHEARSAL_NO_JPEG
namespace {

/// Left half red, right half blue.
std::string jpeg(unsigned width, unsigned height) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = width, info.image_height = height, info.input_components = 3, info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> row(3 * width);
  for (unsigned x = 0; x < width; ++x) row[3 * x + (x < width / 2 ? 0 : 2)] = 255;
  for (unsigned y = 0; y < height; ++y) {
    JSAMPROW at = row.data();
    jpeg_write_scanlines(&info, &at, 1);
  }
  jpeg_finish_compress(&info);
  const std::string all(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return all;
}

}  // namespace

TEST_CASE("a JPEG is decoded where it is wanted, and no larger than that") {
  const std::string where = "p.jpg", file = jpeg(128, 96);
  CHECK(size_of(PictureBytes{as_bytes(file), where}) == PictureSize{128, 96});
  const auto all = decode({as_bytes(file), where}, whole(3, {128, 96}));
  CHECK(all.picture.size == PictureSize{128, 96});
  const auto quarter = decode({as_bytes(file), where}, whole(3, {32, 24}));
  CHECK(quarter.picture.size == PictureSize{32, 24});
  CHECK(decode({as_bytes(file), where}, whole(3, {33, 24})).picture.size == PictureSize{64, 48});
  auto right = whole(3, {8, 8});
  right.window = [](PictureSize) { return PictureWindow{80, 10, 32, 48, false}; };
  const auto part = decode({as_bytes(file), where}, right);
  Values values(3 * 64);
  resample(part.picture, part.window, {values.data(), {8, 8}});
  for (std::size_t n = 0; n < 64; ++n) {
    CHECK(values[n] < 12);
    CHECK(values[128 + n] > 240);
  }
  CHECK(part.picture.size.height < 30);  // 48 rows at half their size, and what the library adds
}

TEST_CASE("a JPEG that ends too early") {
  const std::string where = "p.jpg", file = jpeg(128, 96);
  for (const std::size_t size : {4UL, 200UL, file.size() / 2, file.size() - 30}) {
    const auto part = file.substr(0, size);
    check_refused([&] { (void)decode({as_bytes(part), where}, whole(3, {128, 96})); }, {"p.jpg", "damaged or truncated"});
  }
}
#endif
