// The part of a machine's file that was measured: everything comes back, and what is missing or negative is named.
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "costmodel/calibration.hpp"
#include "tests/catch.hpp"
#include "tests/process.hpp"

namespace rehearsal::costmodel {
namespace {

using Json = nlohmann::ordered_json;

Calibration measured() {
  Calibration c;
  c.context.items = {{"host", "here"}, {"cores", "2"}};
  Sample s;
  s.kernel = {"MatMul", "onednn", "4x4", graph::CostFamily::MatMul, {Flops(128), Bytes(192)}, DType::BF16, 2};
  s.count = 7, s.spread = 0.1, s.from_training = true;
  s.cpu_min = Seconds(1), s.cpu_quartile = Seconds(2), s.cpu_median = Seconds(3), s.wall_min = Seconds(4), s.wall_median = Seconds(5);
  c.samples = {s};
  c.fits = {
      {"MatMul", "onednn", graph::CostFamily::MatMul, DType::F64, 3, FlopsPerSecond(1e9), BytesPerSecond(2e9), Seconds(3e-6), 0.2, 9}};
  c.link_samples = {{"ring", 4, Bytes(1e6), Seconds(1e-3), 0.3}};
  c.link = {Seconds(1e-6), BytesPerSecond(4e9), BytesPerSecond(5e9), 0.4};
  c.node_link = {Seconds(2e-6), BytesPerSecond(6e9), BytesPerSecond(7e9), 0.5};
  c.corrections = {{"op:MatMul", 2, 1.5, 0.1, 4}};
  c.choices = {{"this processor", "avx2", "oneDNN 2.6.3"},
               {{"Conv{}f32[1]t2", "onednn:convolution", {{"native:winograd", Seconds(0.5)}, {"onednn:convolution", Seconds(0.25)}}}}};
  return c;
}

TEST_CASE("a calibration written and read again is the same") {
  const auto text = to_json_text(measured());
  const auto again = calibration_from_json_text(text, "file");
  CHECK(to_json_text(again) == text);
  CHECK(again.samples.at(0).kernel.family == graph::CostFamily::MatMul);
  CHECK(again.samples.at(0).kernel.dtype == DType::BF16);
  CHECK(again.samples.at(0).wall_median.value() == 5);
  CHECK(again.fits.at(0).byte_rate.value() == 2e9);
  CHECK(again.link_samples.at(0).size.value() == 1e6);
  CHECK(again.node_link->bandwidth.value() == 6e9);
  CHECK(again.corrections.at(0).observations == 4);
  CHECK(again.context.items.at("host") == "here");
  CHECK(again.choices.home == measured().choices.home);
  CHECK(again.choices.nodes == measured().choices.nodes);
  CHECK_FALSE(again.empty());
  CHECK(Calibration{}.empty());
  // Every family has a name that leads back to it.
  for (int f = 0; f < static_cast<int>(graph::CostFamily::Count); ++f) {
    auto c = measured();
    c.samples.at(0).kernel.family = static_cast<graph::CostFamily>(f);
    CHECK(calibration_from_json_text(to_json_text(c), "file").samples.at(0).kernel.family == static_cast<graph::CostFamily>(f));
  }
}

std::string refusal(const Json& json) {
  try {
    (void)calibration_from_json_text(json.dump(), "file");
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

TEST_CASE("a key that a calibration lacks, or a negative figure, is refused by name") {
  const auto whole = Json::parse(to_json_text(measured()));
  for (const auto* at : {"", "/samples/0", "/fits/0", "/link_samples/0", "/link", "/node_link", "/corrections/0", "/choices",
                         "/choices/nodes/0", "/choices/nodes/0/kernels/0"}) {
    const Json::json_pointer place(at);
    for (const auto& [key, value] : whole[place].items()) {
      INFO(at << ": " << key);
      auto changed = whole;
      changed[place].erase(key);
      if (key == "node_link" || key == "choices")  // of several nodes, of several kernels alone
        CHECK(refusal(changed).empty());
      else
        CHECK_THAT(refusal(changed), contains(key));
      if (value.is_number_float()) {
        changed = whole;
        changed[place][key] = -1.0;
        CHECK_THAT(refusal(changed), contains(key) && contains("negative"));
      }
      changed = whole;
      changed[place][key] = value.is_string() ? Json(1) : Json("text");
      if (key != "context") CHECK_FALSE(refusal(changed).empty());
    }
  }
}

TEST_CASE("what is no calibration is refused") {
  CHECK_THAT(refusal(Json::array()), contains("must be an object"));
  auto changed = Json::parse(to_json_text(measured()));
  changed["schema"] = 2;
  CHECK_THAT(refusal(changed), contains("version 2"));
  changed = Json::parse(to_json_text(measured()));
  changed["samples"][0]["family"] = "magic";
  CHECK_THAT(refusal(changed), contains("magic"));
  changed = Json::parse(to_json_text(measured()));
  changed["choices"]["nodes"][0]["chosen"] = "another";
  CHECK_THAT(refusal(changed), contains("file.choices.nodes[0].chosen") && contains("another"));
  changed = Json::parse(to_json_text(measured()));
  changed["choices"]["nodes"].push_back(changed["choices"]["nodes"][0]);
  CHECK_THAT(refusal(changed), contains("file.choices.nodes[1].node") && contains("twice"));
  changed = Json::parse(to_json_text(measured()));
  changed["samples"][0]["count"] = "many";
  CHECK_THAT(refusal(changed), contains("file.samples[0].count") && contains("must be a whole number"));
  const TemporaryFolder folder;
  const auto path = folder / "machine.json";
  CHECK_THROWS_WITH(read_calibration(path), contains("cannot be read"));
  write_text(path, "{}");
  CHECK_THROWS_WITH(read_calibration(path), contains("\"calibration\""));
  write_text(path, R"({"calibration": )" + to_json_text(measured()) + "}");
  CHECK(read_calibration(path).samples.size() == 1);
}

}  // namespace
}  // namespace rehearsal::costmodel
