// rehearse run --on-nan: what a loss that is no number does to a training.
#include <cmath>
#include <filesystem>
#include <span>

#include "base/random.hpp"
#include "exec/data/npz.hpp"
#include "tests/cli/rehearse.hpp"

using namespace rehearsal;

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// At this rate the second step's weights are beyond all numbers a few steps later.
std::string blown_up(const std::string& options) {
  return std::string("run ") + kGpt + " --batch 4 --lr 1e8 --steps 12 --format json " + options;
}

std::vector<json> lines_of(const std::string& file) {
  std::vector<json> lines;
  std::istringstream in(text_of(file));
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

/// Images for kResnet, of which number seven has a hole; `without` leaves out the four among which it is.
std::string images_with_hole(const TemporaryFolder& folder, bool without) {
  constexpr std::int64_t kImage = 3 * 32 * 32, kImages = 12;
  std::vector<float> pixels;
  std::vector<std::int64_t> classes;
  for (std::int64_t n = 0; n < kImages; ++n) {
    if (without && n / 4 == 1) continue;
    for (std::int64_t i = 0; i < kImage; ++i)
      pixels.push_back(
          n == 7 && i == 40 ? NAN : static_cast<float>(random_normal(1, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(i))));
    classes.push_back(n % 3);
  }
  const auto bytes = [](const auto& values) {
    const auto all = std::as_bytes(std::span(values));
    return std::vector<std::byte>(all.begin(), all.end());
  };
  const auto count = static_cast<std::int64_t>(classes.size());
  const std::string file = folder / (without ? "rest.npz" : "hole.npz");
  exec::write_npz(file,
                  {{"input", {{DType::F32, {count, 3, 32, 32}}, bytes(pixels)}}, {"target", {{DType::I64, {count}}, bytes(classes)}}});
  return file;
}

}  // namespace

TEST_CASE("by default a training stops, names step and tensor, and keeps the checkpoint that was there") {
  const auto [plan, ranks] = GENERATE(std::pair{"", 0}, std::pair{"--plan dp=2", 2}, std::pair{"--plan pp=2,micro_batch=2", 2},
                                      std::pair{"--plan tp=2", 2}, std::pair{"--plan pp=2,micro_batch=2,schedule=pipedream-2bw", 2});
  INFO(plan);
  const TemporaryFolder folder;
  const auto ended =
      rehearse(blown_up(std::string(plan) + " --metrics " + (folder / "m.jsonl") + " --checkpoint " + (folder / "c")), ranks);
  const auto lines = lines_of(folder / "m.jsonl");
  REQUIRE(!lines.empty());
  CHECK(lines.size() < 12);
  CHECK(lines.back().at("loss").is_null());
  check_failure(ended, 3,
                {"step " + std::to_string(lines.back().at("step").get<int>()) + ": the loss is not finite", "ensor", "'", "--on-nan skip"});
  CHECK(!fs::exists(folder / "c"));
}

TEST_CASE("go trains on, and writes null where there is no number") {
  const TemporaryFolder folder;
  const auto result = result_of(rehearse(blown_up("--on-nan go --metrics " + (folder / "m.jsonl"))));
  CHECK(result.at("losses").size() == 12);
  CHECK(result.at("losses").back().is_null());
  CHECK(lines_of(folder / "m.jsonl").size() == 12);
}

TEST_CASE("a step whose data have a hole is named, or left out as if it had not been") {
  const TemporaryFolder folder;
  const auto [plan, ranks] = GENERATE(std::pair{"", 0}, std::pair{"--plan dp=2", 2}, std::pair{"--plan pp=2", 2});
  INFO(plan);
  const auto training = [&](const std::string& data, const std::string& more) {
    return rehearse(
        std::string("run ") + kResnet + " --batch 4 --lr 0.01 --shuffle off --format json --data " + data + " " + plan + " " + more, ranks);
  };
  const auto hole = images_with_hole(folder, false);
  check_failure(training(hole, "--steps 3"), 3, {"step 2", "'input'", "row 7 of ", "hole.npz", "1 of "});
  const auto result = result_of(training(hole, "--steps 3 --on-nan skip"));
  CHECK(result.at("skipped_steps") == 1);
  const auto& losses = result.at("losses");
  REQUIRE(losses.size() == 3);
  CHECK(losses[1].is_null());
  const auto rest = losses_of(training(images_with_hole(folder, true), "--steps 2"));
  CHECK(losses[0] == rest[0]);
  CHECK(losses[2] == rest[1]);
}

TEST_CASE("a step that is left out is none of those in which matrices are decomposed and sent") {
  const TemporaryFolder folder;
  const auto hole = images_with_hole(folder, false), whole = images_with_hole(folder, true);
  // Of images as above, with matrices that are quickly decomposed.
  constexpr auto kSmall = "'zoo:vit?image=32&patch=8&layers=1&hidden=16&heads=2&classes=3'";
  const auto losses = [&](const std::string& data, const std::string& plan, const std::string& more) {
    return result_of(rehearse(std::string("run ") + kSmall +
                                  " --batch 4 --optimizer shampoo:interval=2 --lr 0.01 --shuffle off --dtype f64 " +
                                  "--format json --data " + data + " --plan " + plan + " " + more,
                              2))
        .at("losses");
  };
  // Steps of the optimizer: 1, left out, 2, 3, left out, 4. It decomposes in its first and its third, which is the fourth of the run.
  const auto skipped = losses(hole, "dp=2,decompositions=spread", "--steps 6 --on-nan skip"), rest = losses(whole, "dp=2", "--steps 4");
  REQUIRE(skipped.size() == 6);
  CHECK(skipped[1].is_null());
  CHECK(skipped[4].is_null());
  const std::size_t kept[] = {0, 2, 3, 5};
  for (std::size_t n = 0; n < 4; ++n) CHECK(std::abs(skipped[kept[n]].get<double>() - rest[n].get<double>()) <= 1e-9);
}

TEST_CASE("a weight that is not finite after the last update is not saved") {
  const TemporaryFolder folder;
  const std::string training =
      std::string("run ") + kGpt + " --batch 4 --lr 1e45 --dtype f32 --steps 1 --format json --checkpoint " + (folder / "c");
  check_failure(rehearse(training), 3, {"step 1", "is not finite after the update", "not saved"});
  CHECK(!fs::exists(folder / "c"));
  CHECK(result_of(rehearse(training + " --on-nan go")).at("steps") == 1);
}

TEST_CASE("what cannot be") {
  check_failure(rehearse(blown_up("--on-nan perhaps")), 1, {"--on-nan perhaps", "stop, skip or go"});
  check_failure(rehearse(blown_up("--on-nan skip --plan pp=2,micro_batch=2,schedule=pipedream-2bw"), 2), 3, {"--on-nan skip", "flush"});
}
