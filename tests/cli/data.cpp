// rehearse run on data of all kinds: the same losses on any number of ranks, and refusals that name the file.
#include <filesystem>
#include <fstream>

#include "tests/cli/rehearse.hpp"
#include "tests/exec/data/stored.hpp"

namespace {

namespace fs = std::filesystem;

constexpr const char* kPictures = "'zoo:resnet18?image=32&classes=2'";
// The weights stand still: losses tell the samples.
const std::string kStill = " --batch 4 --steps 5 --lr 1e-12 --format json ";

/// Twelve pictures of two classes, of different sizes.
void write_pictures(const std::string& folder) {
  for (int n = 0; n < 12; ++n) {
    const int width = 32 + n, height = 40 - n;
    std::string pixels(static_cast<std::size_t>(3 * width * height), '\0');
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>((i * 7 + static_cast<std::size_t>(n) * 31) % 251);
    const auto place = fs::path(folder) / (n % 2 == 0 ? "apple" : "fern");
    fs::create_directories(place);
    write_text((place / (std::to_string(n) + ".png")).string(), stored::png(width, height, 2, pixels));
  }
}

void write_tokens(const std::string& file) {
  std::vector<std::uint16_t> tokens;
  for (unsigned n = 0; n < 4 * 20 + 1; ++n) tokens.push_back(static_cast<std::uint16_t>(n * n % 11));
  write_text(file, stored::bytes_of(tokens));
}

void check_same(const std::vector<double>& one, const std::vector<double>& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t n = 0; n < one.size(); ++n) CHECK(one[n] == Approx(other[n]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("pictures: one rank, two, a plan that splits them, and no thread that reads ahead") {
  const TemporaryFolder folder;
  write_pictures(folder / "d");
  const auto run = std::string("run ") + kPictures + kStill + "--augment crop,flip --data " + (folder / "d");
  const auto alone = losses_of(rehearse(run));
  CHECK(alone[0] != alone[3]);  // the first batch of the second epoch
  check_same(losses_of(rehearse(run + " --data-threads 0")), alone);
  check_same(losses_of(rehearse(run + " --plan dp=2", 2)), alone);
  // In f64: the tiles of convolutions in f32 lie elsewhere in halves of a picture, and batch norms of four small ones amplify rounding.
  check_same(losses_of(rehearse(run + " --dtype f64 --plan spatial=2x1", 2)), losses_of(rehearse(run + " --dtype f64")));
  check_same(losses_of(rehearse(run + " --plan pp=2", 2)), alone);
}

TEST_CASE("tokens go on with the next sample when resumed on other ranks") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin");
  const auto run = std::string("run ") + kGpt + " --lr 1e-12 --format json --data 'tokens:" + (folder / "t.bin?dtype=uint16'");
  const auto whole = losses_of(rehearse(run + " --batch 4 --steps 7"));
  (void)result_of(rehearse(run + " --batch 4 --steps 3 --checkpoint " + (folder / "c")));
  const auto rest = losses_of(rehearse(run + " --batch 4 --steps 4 --resume " + (folder / "c") + " --plan dp=2", 2));
  check_same(rest, {whole.begin() + 3, whole.end()});
}

TEST_CASE("evaluation reads what training reads") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin");
  const auto data = "'tokens:" + (folder / "t.bin?dtype=uint16'");
  const auto ended =
      result_of(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 2 --lr 1e-12 --format json --data " + data + " --eval " + data));
  CHECK(ended.at("evaluation").at("samples") == 20);
  // The weights stand still: an epoch in order is the evaluation.
  const auto losses =
      losses_of(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 5 --lr 1e-12 --shuffle off --format json --data " + data));
  double mean = 0;
  for (const double loss : losses) mean += loss / 5;
  CHECK(ended.at("evaluation").at("loss").get<double>() == Approx(mean).epsilon(1e-6));
  const auto evaluated = result_of(rehearse(std::string("evaluate ") + kGpt + " --format json --data " + data));
  CHECK(evaluated.at("samples") == 20);
  CHECK(evaluated.contains("accuracy"));
}

TEST_CASE("metrics tell what was read") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin");
  (void)result_of(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 3 --format json --data 'tokens:" +
                           (folder / "t.bin?dtype=uint16'") + " --metrics " + (folder / "m.jsonl")));
  std::istringstream lines(text_of(folder / "m.jsonl"));
  int count = 0;
  double read = 0;  // a step whose samples were read ahead may read none itself
  for (std::string line; std::getline(lines, line); ++count) {
    const auto entry = nlohmann::json::parse(line);
    CHECK(entry.at("data_bytes_per_second").get<double>() >= 0);
    CHECK(entry.at("data_seconds").get<double>() >= 0);
    CHECK(entry.at("data_seconds").get<double>() < entry.at("seconds").get<double>());
    read += entry.at("data_bytes_per_second").get<double>() * entry.at("seconds").get<double>();
  }
  CHECK(count == 3);
  CHECK(read >= 3 * 4 * 4 * 2 * (1 - 1e-4));  // three steps of four samples of four tokens of two bytes; rates have six digits
}

TEST_CASE("data that cannot be had ends every rank with 1, and one sentence says why") {
  const TemporaryFolder folder;
  write_pictures(folder / "d");
  write_tokens(folder / "t.bin");
  const int ranks = GENERATE(0, 2);
  const auto refused = [&](const std::string& arguments, const std::vector<std::string>& words) {
    const auto ended = rehearse("run " + arguments + " --steps 5 --format json", ranks);
    INFO(ended.err);
    CHECK(ended.status == 1);
    CHECK(ended.out.empty());
    for (const auto& word : words) CHECK_THAT(ended.err, contains(word));
    if (ranks > 0) return;  // mpirun has something to say, too
    CHECK_THAT(ended.err, contains("rehearse: error: "));
    CHECK(ended.err.find("rehearse: error", ended.err.find("rehearse: error") + 1) == std::string::npos);
  };
  const auto pictures = std::string(kPictures) + " --batch 4 --data ", gpt = std::string(kGpt) + " --batch 4 --data ";
  refused(pictures + (folder / "e"), {"/e: does not exist"});
  refused(pictures + (folder / "d") + " --image-size 48", {"--image-size 48x48", "32x32"});
  refused(pictures + (folder / "d") + " --input image=picture", {"--input image=picture", "input of the model"});
  refused(pictures + (folder / "d") + " --augment turn", {"--augment turn"});
  refused(pictures + "synthetic --augment flip", {"--augment", "of pictures", "synthetic holds none"});
  refused(pictures + "synthetic --image-size 32", {"--image-size", "synthetic holds none"});
  refused(gpt + "'tokens:" + (folder / "t.bin?dtype=uint16&seq=4'") + " --normalize imagenet", {"--normalize", "t.bin", "holds none"});
  refused("'zoo:resnet18?image=32&classes=1' --batch 4 --data " + (folder / "d"), {"2 classes", "the model has 1"});
  refused(gpt + "'tokens:" + (folder / "t.bin?dtype=uint16&seq=8'"), {"t.bin", "seq=8"});
  refused("'zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=9' --batch 4 --data 'tokens:" + (folder / "t.bin?dtype=uint16'"),
          {"t.bin", "has 9", "9 classes, 0 to 8"});
  write_text(folder / "d/fern/1.png", "hello");
  refused(pictures + (folder / "d"), {"fern/1.png", "neither as a JPEG nor as a PNG"});
}

TEST_CASE("data is looked into before a model is read") {
  const TemporaryFolder folder;
  std::ofstream(folder / "broken.npz") << "PK no archive";
  check_failure(rehearse("run nothing.onnx --steps 1 --data " + (folder / "broken.npz")), 1, {"broken.npz", "is no .npz file"});
  check_failure(rehearse("run nothing.onnx --steps 1 --data " + (folder / "missing.npz")), 1, {"missing.npz"});
}
