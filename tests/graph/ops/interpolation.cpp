// Of which elements those of a resized or padded axis are made: by hand, and written out for every mode.
#include "graph/ops/interpolation.hpp"

#include <cmath>
#include <iomanip>
#include <sstream>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/written_out.hpp"

namespace rehearsal::graph {
namespace {

std::string text_of_taps(const std::vector<Tap>& taps) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(4);
  for (const Tap& tap : taps)
    if (std::abs(tap.weight - 1) < 1e-9)
      text << "x" << tap.index;
    else if (std::abs(tap.weight) > 1e-9)
      text << (text.str().empty() ? "" : " + ") << tap.weight << " x" << tap.index;
  return text.str().empty() ? "nothing" : text.str();
}

/// All positions of a result.
std::string text_of_axis(const Attributes& attributes, const ResizedAxis& axis) {
  const bool stated = axis.scale * static_cast<double>(axis.in) != static_cast<double>(axis.out);
  std::string text = "  " + std::to_string(axis.in) + " to " + std::to_string(axis.out) + (stated ? " by a stated scale:" : ":");
  for (std::int64_t o = 0; o < axis.out; ++o) text += (o == 0 ? " " : ", ") + text_of_taps(resize_taps(attributes, axis, o));
  return text + "\n";
}

ResizedAxis resized_axis(std::int64_t in, std::int64_t out) { return {in, out, static_cast<double>(out) / static_cast<double>(in)}; }

std::string text_of_mode(const Attributes& attributes) {
  std::string text = (attributes.items().empty() ? "without attributes" : attributes.to_text()) + "\n";
  for (const auto& [in, out] : {std::pair(2, 4), std::pair(4, 2), std::pair(3, 8), std::pair(8, 3), std::pair(4, 1)})
    text += text_of_axis(attributes, resized_axis(in, out));
  return text + text_of_axis(attributes, {3, 7, 2.6}) + text_of_axis(attributes, {7, 4, 0.6});
}

std::string refusal_of_taps(const Attributes& attributes) {
  try {
    (void)resize_taps(attributes, resized_axis(2, 4), 0);
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

Attributes mode(const std::string& name, const std::string& coordinates) {
  return {{"mode", name}, {"coordinate_transformation_mode", coordinates}};
}

}  // namespace

TEST_CASE("where an element of a resized axis lies, by hand") {
  // half_pixel, 2 to 4: (o + 0.5) / 2 - 0.5 = -0.25, 0.25, 0.75, 1.25.
  CHECK(text_of_taps(resize_taps(mode("linear", "half_pixel"), resized_axis(2, 4), 1)) == "0.7500 x0 + 0.2500 x1");
  // A stated scale of 2.6 makes 3 elements 7, of 7.8: half_pixel_symmetric moves all by 3/2 (1 - 7/7.8) = 2/13, so that both ends are
  // alike: element 0 lies at 2/13 + 0.5/2.6 - 0.5 = -2/13, outside, and element 3 in the middle, 2/13 + 3.5/2.6 - 0.5 = 1.
  const Attributes symmetric = mode("linear", "half_pixel_symmetric");
  CHECK(text_of_taps(resize_taps(symmetric, {3, 7, 2.6}, 0)) == "0.1538 x0 + 0.8462 x0");
  CHECK(text_of_taps(resize_taps(symmetric, {3, 7, 2.6}, 3)) == "x1");
  // Element 1 lies at 2/13 + 1.5/2.6 - 0.5 = 3/13, and its mirror image 5 at 23/13 = 1.7692.
  CHECK(text_of_taps(resize_taps(symmetric, {3, 7, 2.6}, 1)) == "0.7692 x0 + 0.2308 x1");
  CHECK(text_of_taps(resize_taps(symmetric, {3, 7, 2.6}, 5)) == "0.2308 x1 + 0.7692 x2");
  // align_corners with the same scale: o 2 / (7.8 - 1).
  CHECK(text_of_taps(resize_taps(mode("linear", "align_corners"), {3, 7, 2.6}, 5)) == "0.5294 x1 + 0.4706 x2");
  // tf_half_pixel_for_nn leaves out the last half: (o + 0.5) / 2 = 0.25, 0.75, 1.25, 1.75.
  CHECK(text_of_taps(resize_taps(mode("linear", "tf_half_pixel_for_nn"), resized_axis(2, 4), 1)) == "0.2500 x0 + 0.7500 x1");
  // An axis that keeps its size is itself, whatever the mode.
  CHECK(text_of_taps(resize_taps(mode("cubic", "half_pixel"), resized_axis(5, 5), 3)) == "x3");
  // By a stated scale it moves, though its size stays: 1 / 1.25 = 0.8.
  CHECK(text_of_taps(resize_taps(mode("linear", "asymmetric"), {3, 3, 1.25}, 1)) == "0.2000 x0 + 0.8000 x1");
}

TEST_CASE("modes that nobody knows are named with those that are known") {
  CHECK_THAT(refusal_of_taps(mode("area", "half_pixel")), contains("'mode' is 'area'") && contains("nearest, linear, cubic"));
  CHECK_THAT(refusal_of_taps(mode("linear", "corners")), contains("'corners'") && contains("half_pixel_symmetric, pytorch_half_pixel"));
  CHECK_THAT(refusal_of_taps({{"nearest_mode", std::string("up")}}), contains("'up'") && contains("round_prefer_floor"));
  CHECK_THROWS_WITH(pad_taps({{"mode", std::string("mirror")}}, 3, 1, 0),
                    contains("'mirror'") && contains("constant, reflect, edge, wrap"));
}

TEST_CASE("Elements of resized axes are made of what is written out") {
  std::string text;
  for (const char* coordinates :
       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"})
    text += text_of_mode(mode("linear", coordinates));
  text += text_of_mode({}) + text_of_mode({{"mode", std::string("cubic")}});
  for (const char* rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
    Attributes attributes = mode("nearest", "asymmetric");
    attributes.set("nearest_mode", std::string(rounding));
    text += text_of_mode(attributes);
  }
  for (const char* name : {"linear", "cubic"}) {
    for (const char* option : {"antialias", "exclude_outside", "cubic_coeff_a"}) {
      Attributes attributes = mode(name, "half_pixel");
      option == std::string("cubic_coeff_a") ? attributes.set(option, -0.5) : attributes.set(option, std::int64_t{1});
      text += text_of_mode(attributes);
    }
    Attributes both = mode(name, "half_pixel");
    both.set("antialias", std::int64_t{1});
    both.set("exclude_outside", std::int64_t{1});
    text += text_of_mode(both);
  }
  for (const char* name : {"constant", "reflect", "edge", "wrap"}) {
    text += "padded by " + std::string(name) + "\n";
    for (const std::int64_t in : {1, 3, 4}) {
      text += "  " + std::to_string(in) + ":";
      for (std::int64_t o = 0; o < in + 7; ++o)
        text += (o == 0 ? " " : ", ") + text_of_taps(pad_taps({{"mode", std::string(name)}}, in, 3, o));
      text += "\n";
    }
  }
  test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/taps.txt", text);
}

}  // namespace rehearsal::graph
