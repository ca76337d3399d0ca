#include "exec/data/pictures/treatment.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "base/random.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kLargest = 1 << 16;

/// The part of `text` up to `sign`, which is cut off.
std::string_view take_word(std::string_view& text, char sign) {
  const auto end = std::min(text.find(sign), text.size());
  const auto word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::array<float, 3> three_numbers(std::string_view list, const std::string& text) {
  std::array<float, 3> numbers{};
  std::size_t n = 0;
  for (; n < numbers.size() && !list.empty(); ++n) {
    const auto number = parse_number<float>(take_word(list, ','));
    if (!number || !std::isfinite(*number)) break;
    numbers[n] = *number;
  }
  if (n == 1 && list.empty()) return {numbers[0], numbers[0], numbers[0]};
  if (n < numbers.size() || !list.empty())
    throw BadInput("--normalize " + text, "use imagenet, or means/deviations such as 0.485,0.456,0.406/0.229,0.224,0.225");
  return numbers;
}

}  // namespace

std::string_view asked_by(const PictureTreatment& t) {
  const PictureTreatment usual;
  if (t.crop || t.flip) return "--augment";
  if (t.size) return "--image-size";
  return t.mean != usual.mean || t.deviation != usual.deviation ? "--normalize" : "";
}

PictureSize parse_picture_size(const std::string& text) {
  std::string_view rest = text;
  const auto height = take_number<int>(rest);
  auto width = height;
  if (height && rest.starts_with('x')) {
    rest.remove_prefix(1);
    width = take_number<int>(rest);
  }
  if (!height || !width || !rest.empty() || *height < 1 || *width < 1 || *height > kLargest || *width > kLargest)
    throw BadInput("--image-size " + text, "use a number of pixels such as 224, or HEIGHTxWIDTH such as 512x1024");
  return {*width, *height};
}

void parse_augmentation(const std::string& text, PictureTreatment& treatment) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto word = take_word(rest, ',');
    const auto equals = std::min(word.find('='), word.size());
    const auto name = find_name(word.substr(0, equals), {"flip", "crop"});
    if (name && equals == word.size()) {
      (*name == "flip" ? treatment.flip : treatment.crop) = true;
    } else if (const auto area = name == "crop" ? parse_number<double>(word.substr(equals + 1)) : std::nullopt;
               area && *area > 0 && *area <= 1) {
      treatment.crop = true;
      treatment.least_area = *area;
    } else {
      throw BadInput("--augment " + text,
                     "\"" + std::string(word) + "\" is unknown; use crop, crop=SHARE (the least share of the area) and flip");
    }
  }
}

void parse_normalization(const std::string& text, PictureTreatment& treatment) {
  if (text.empty()) return;
  // Of the training images of ImageNet, as torchvision's models want them.
  std::string_view rest = find_name(text, {"imagenet"}) ? "0.485,0.456,0.406/0.229,0.224,0.225" : std::string_view(text);
  treatment.mean = three_numbers(take_word(rest, '/'), text);
  treatment.deviation = three_numbers(rest, text);
  for (const float d : treatment.deviation)
    if (!(d > 0)) throw BadInput("--normalize " + text, "deviations are above 0");
}

namespace {

/// Numbers of one sample, one after the other.
class Draws {
 public:
  explicit Draws(const WindowDraw& draw) : draw_(draw) {}
  double between(double low, double high) {
    constexpr std::uint64_t kStream = 0xC40BULL;
    return low + (high - low) * random_uniform(draw_.seed, kStream + static_cast<std::uint64_t>(draw_.sample) * 2, next_++);
  }

 private:
  WindowDraw draw_;
  std::uint64_t next_ = 0;
};

/// The largest of these proportions, in the middle.
PictureWindow middle(PictureSize picture, PictureSize wanted) {
  const double scale = std::min(static_cast<double>(picture.width) / wanted.width, static_cast<double>(picture.height) / wanted.height);
  PictureWindow w{0, 0, wanted.width * scale, wanted.height * scale, false};
  w.left = (picture.width - w.width) / 2;
  w.top = (picture.height - w.height) / 2;
  return w;
}

/// Szegedy et al., "Going deeper with convolutions" (2015), section 6: a share of the area evenly distributed, proportions between 3/4 and
/// 4/3 of those that are wanted.
PictureWindow random_part(const PictureTreatment& t, PictureSize picture, PictureSize wanted, Draws& draws) {
  constexpr int kAttempts = 10;
  const double most = std::log(4.0 / 3), proportion = static_cast<double>(wanted.width) / wanted.height;
  for (int n = 0; n < kAttempts; ++n) {
    const double area = draws.between(t.least_area, 1) * picture.width * picture.height;
    const double ratio = std::exp(draws.between(-most, most)) * proportion;
    const double width = std::round(std::sqrt(area * ratio)), height = std::round(std::sqrt(area / ratio));
    const double left = draws.between(0, 1), top = draws.between(0, 1);
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    return {std::floor(left * (picture.width - width + 1)), std::floor(top * (picture.height - height + 1)), width, height, false};
  }
  return middle(picture, wanted);
}

}  // namespace

PictureWindow window_of(const PictureTreatment& t, PictureSize picture, PictureSize wanted, const WindowDraw& draw) {
  Draws draws(draw);
  const bool mirrored = draws.between(0, 1) < 0.5;
  auto window = t.crop ? random_part(t, picture, wanted, draws) : middle(picture, wanted);
  window.flipped = t.flip && mirrored;
  return window;
}

}  // namespace rehearsal::exec
