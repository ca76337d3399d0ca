// rehearse run --checkpoint, --resume: training goes on bit for bit, and a checkpoint is whole or refused.
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

namespace fs = std::filesystem;
using Losses = std::vector<double>;

std::string run(const std::string& options) {
  return std::string("run ") + kGpt + " --batch 4 --optimizer adam --lr 0.01 --format json " + options;
}

/// A folder with a checkpoint after two steps.
class Saved {
 public:
  Saved() { CHECK(losses_of(rehearse(run("--steps 2 --checkpoint " + place()))).size() == 2); }
  [[nodiscard]] std::string place() const { return folder_ / "checkpoint"; }
  [[nodiscard]] std::string file(const std::string& name) const { return place() + "/step-2/" + name; }
  [[nodiscard]] Ended resumed(const std::string& more = "") const { return rehearse(run("--steps 1 --resume " + place() + " " + more)); }

 private:
  TemporaryFolder folder_;
};

/// As versions without checksums wrote it: what the manifest says is then taken at its word.
std::string without_checksums(nlohmann::json manifest) {
  manifest["schema"] = 1;
  manifest.erase("checksum");
  manifest.erase("training");
  for (auto& part : manifest["parts"]) part.erase("checksum");
  return manifest.dump();
}

}  // namespace

TEST_CASE("six steps are three steps and three more") {
  const auto [ranks, options] =
      GENERATE(std::pair{0, "--dtype f64"}, std::pair{0, "--dtype f32"}, std::pair{2, "--plan dp=2 --dtype f32"},
               std::pair{2, "--plan pp=2,micro_batch=1 --dtype f64"}, std::pair{2, "--plan tp=2 --dtype f64"},
               std::pair{2, "--plan dp=2,zero=3 --dtype f32"}, std::pair{2, "--plan pp=2,micro_batch=1,schedule=dualpipe --dtype f64"},
               std::pair{3, "--plan pp=3,micro_batch=1,schedule=pipedream-2bw --dtype f64"});
  INFO(options);
  const TemporaryFolder folder;
  const auto training = [&](const std::string& more) { return rehearse(run(std::string(options) + " " + more), ranks); };
  const auto whole = losses_of(training("--steps 6"));
  const auto first = losses_of(training("--steps 3 --checkpoint " + (folder / "c")));
  const auto rest = result_of(training("--steps 3 --resume " + (folder / "c") + " --checkpoint " + (folder / "c")));
  Losses together = first;
  for (const double loss : rest.at("losses")) together.push_back(loss);
  CHECK(whole.size() == 6);
  CHECK(together == whole);
  CHECK(rest.at("first_step") == 4);
  CHECK(whole[5] != whole[2]);  // a resume that forgot the step would repeat losses
}

TEST_CASE("another plan goes on with the same checkpoint") {
  const TemporaryFolder folder;
  const auto whole = losses_of(rehearse(run("--dtype f64 --steps 3")));
  const auto [before, after] = GENERATE(std::pair{"pp=2", "dp=2"}, std::pair{"tp=2", "dp=2,zero=1"}, std::pair{"dp=2,zero=3", "tp=2"});
  INFO(before << ", then " << after);
  (void)losses_of(rehearse(run(std::string("--dtype f64 --steps 2 --plan ") + before + " --checkpoint " + (folder / "c")), 2));
  const auto rest = losses_of(rehearse(run(std::string("--dtype f64 --steps 1 --plan ") + after + " --resume " + (folder / "c")), 2));
  REQUIRE(rest.size() == 1);
  CHECK(std::abs(rest[0] - whole[2]) < 1e-12);
}

TEST_CASE("weights of several ages go on as they are, or say which are missing") {
  const TemporaryFolder folder;
  const auto training = [&](const std::string& plan, const std::string& more) {
    return rehearse(run("--dtype f64 --plan pp=2,micro_batch=1,schedule=" + plan + " " + more), 2);
  };
  // saved after every second step: the row of steps ends there, which changes no number
  const auto whole = losses_of(training("pipedream-2bw", "--steps 5"));
  CHECK(losses_of(training("pipedream-2bw", "--steps 5 --checkpoint-every 2 --checkpoint " + (folder / "c"))) == whole);
  CHECK(losses_of(training("1f1b", "--steps 5"))[2] != whole[2]);
  CHECK(losses_of(training("1f1b", "--steps 1 --resume " + (folder / "c"))).size() == 1);
  (void)losses_of(training("1f1b", "--steps 2 --checkpoint " + (folder / "flushed")));
  check_failure(training("pipedream-2bw", "--steps 1 --resume " + (folder / "flushed")), 1,
                {"flushed", "only as the last update left it", "schedule=pipedream-2bw"});
}

TEST_CASE("checkpoints that are not whole are refused by name") {
  const Saved saved;
  CHECK(losses_of(saved.resumed()).size() == 1);
  const auto part = saved.file("stage-0.bin"), manifest = saved.file("manifest.json");
  const auto text = text_of(manifest);
  SECTION("a part is cut short") {
    fs::resize_file(part, fs::file_size(part) - 1);
    check_failure(saved.resumed(), 1, {"stage-0.bin", "incomplete"});
  }
  SECTION("a part is gone") {
    fs::remove(part);
    check_failure(saved.resumed(), 1, {"stage-0.bin"});
  }
  SECTION("the manifest is cut short") {
    write_text(manifest, text.substr(0, text.size() / 2));
    check_failure(saved.resumed(), 1, {"manifest.json", "damaged"});
  }
  SECTION("the manifest is another document") {
    write_text(manifest, "{\"schema\": 1}");
    check_failure(saved.resumed(), 1, {"manifest.json", "damaged"});
  }
  SECTION("the manifest points beyond the part") {
    auto wrong = nlohmann::json::parse(text);
    wrong["parts"][0]["tensors"][0]["offset"] = 1'000'000'000;
    write_text(manifest, without_checksums(wrong));
    check_failure(saved.resumed(), 1, {"stage-0.bin", wrong["parts"][0]["tensors"][0]["name"].get<std::string>()});
  }
  SECTION("the manifest points out of its folder") {
    auto wrong = nlohmann::json::parse(text);
    wrong["parts"][0]["file"] = "../step-2/stage-0.bin";
    write_text(manifest, without_checksums(wrong));
    check_failure(saved.resumed(), 1, {"manifest.json", "../", "must be a name in this folder"});
  }
  SECTION("a block lies beyond its tensor") {
    auto wrong = nlohmann::json::parse(text);
    for (auto& range : wrong["parts"][0]["tensors"][0]["region"][0])
      for (auto& end : range) end = end.get<int>() + 1;
    write_text(manifest, without_checksums(wrong));
    const auto name = wrong["parts"][0]["tensors"][0]["name"].get<std::string>();
    check_failure(saved.resumed(), 1, {name});
    write_text(saved.file("empty.npz"), "PK\x05\x06" + std::string(18, '\0'));  // the end of a zip archive, and nothing before it
    check_failure(rehearse(std::string("evaluate ") + kGpt + " --data " + saved.file("empty.npz") + " --checkpoint " + saved.place()), 1,
                  {name});
  }
  SECTION("the manifest is gone") {
    fs::remove(manifest);
    check_failure(saved.resumed(), 1, {"manifest.json"});
  }
  SECTION("a tensor is missing") {
    auto wrong = nlohmann::json::parse(text);
    const auto name = wrong["parts"][0]["tensors"][0]["name"].get<std::string>();
    wrong["parts"][0]["tensors"].erase(0);
    write_text(manifest, without_checksums(wrong));
    check_failure(saved.resumed(), 1, {name});
  }
}

TEST_CASE("a checkpoint without checksums, of an older version, is resumed") {
  const Saved saved;
  const auto whole = losses_of(saved.resumed());
  write_text(saved.file("manifest.json"), without_checksums(nlohmann::json::parse(text_of(saved.file("manifest.json")))));
  CHECK(losses_of(saved.resumed()) == whole);
  // Nor did it say whose it is: what goes on with it counts it as its own.
  CHECK(losses_of(saved.resumed("--checkpoint " + saved.place())) == whole);
  CHECK(fs::exists(saved.place() + "/step-3"));
  CHECK_FALSE(fs::exists(saved.place() + "/step-2"));
}

TEST_CASE("any bit that changed is found, wherever it is") {
  const TemporaryFolder folder;
  const std::string place = folder / "c";
  // Both stages hold the shared matrix, and only one of the two is read.
  const std::string options = "--steps 2 --plan pp=2,micro_batch=1 --checkpoint " + place;
  (void)result_of(rehearse(run(options), 2));
  for (const std::string name : {"stage-0.bin", "stage-1.bin", "manifest.json"}) {
    const auto file = place + "/step-2/" + name;
    const auto whole = text_of(file);
    for (const std::size_t part : {0U, 3U, 8U}) {
      INFO(name << " at " << part << "/8");
      auto other = whole;
      const auto at = std::min(whole.size() - 1, whole.size() * part / 8);
      other[at] = static_cast<char>(other[at] ^ 4);
      write_text(file, other);
      for (const int ranks : {0, 2})
        check_failure(rehearse(run("--steps 1 --resume " + place + (ranks == 0 ? "" : " --plan dp=2")), ranks), 1, {name, "damaged"});
    }
    write_text(file, whole);
  }
  CHECK(losses_of(rehearse(run("--steps 1 --resume " + place))).size() == 1);
}

TEST_CASE("another batch goes on with the next sample, and is told") {
  const TemporaryFolder folder;
  const std::string place = folder / "c";
  const auto training = [](const std::string& more) {
    return rehearse(std::string("run ") + kGpt + " --optimizer sgd --lr 0 --dtype f64 --format json " + more);
  };
  // Nothing is learned, so a loss says which samples it is of.
  const auto pairs = losses_of(training("--batch 2 --steps 6"));
  (void)losses_of(training("--batch 4 --steps 2 --checkpoint " + place));
  const auto ended = training("--batch 2 --steps 2 --resume " + place + " --checkpoint " + place);
  const auto rest = result_of(ended);
  CHECK(rest.at("first_step") == 3);
  CHECK(rest.at("losses") == nlohmann::json{pairs[4], pairs[5]});
  for (const auto* word : {"warning", "batch was 4 and is 2", "sample 9"}) CHECK_THAT(ended.err, contains(word));
  // Three steps of two, after two of four: sample 13 is next.
  const auto last = result_of(training("--batch 6 --steps 1 --resume " + place));
  CHECK(last.at("first_step") == 5);
  const auto all = losses_of(training("--batch 6 --steps 3"));
  CHECK(std::abs(last.at("losses")[0].get<double>() - all[2]) < 1e-12);
}

TEST_CASE("epochs that are continued with another batch are of the data") {
  const TemporaryFolder folder;
  write_text(folder / "tokens.bin", std::string(12 * 4 + 1, '\1'));
  const auto training = [&](const std::string& more) {
    return rehearse(std::string("run ") + kGpt + " --format json --data 'tokens:" + (folder / "tokens.bin") +
                    "?dtype=uint8' --checkpoint " + (folder / "c") + " --continue " + more);
  };
  CHECK(losses_of(training("--batch 6 --epochs 2")).size() == 4);
  const auto smaller = result_of(training("--batch 3 --epochs 3"));
  CHECK(smaller.at("first_step") == 5);
  CHECK(smaller.at("losses").size() == 4);  // one epoch more
  CHECK(losses_of(training("--batch 6 --epochs 4")).size() == 2);
  CHECK_THAT(training("--batch 3 --epochs 4").err, contains("step 10 is done") && contains("nothing is left to train"));
}

TEST_CASE("a checkpoint of another model or type is refused") {
  const Saved saved;
  check_failure(
      rehearse("run 'zoo:gpt?layers=2&hidden=8&heads=2&seq=4&vocab=11' --batch 4 --optimizer adam --lr 0.01 --format json --resume " +
               saved.place()),
      1, {"another model"});
  check_failure(saved.resumed("--dtype f64"), 1, {saved.place(), "--dtype f32 (now f64)"});
  check_failure(
      rehearse(std::string("run ") + kGpt + " --batch 2 --optimizer adam --lr 0.01 --clip-norm 1 --format json --resume " + saved.place()),
      1, {"--resume", "was trained with --clip-norm none (now 1"});
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 4 --optimizer sgd --format json --resume " + saved.place()), 1,
                {"--optimizer sgd", "was trained with adam"});
  // Their graphs are the same.
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 4 --optimizer adamw --lr 0.01 --format json --resume " + saved.place()), 1,
                {"--optimizer adamw", "was trained with adam,"});
}

TEST_CASE("a schedule that ends elsewhere than it did is said, one that goes on as it was meant is not") {
  const TemporaryFolder folder;
  const std::string place = folder / "c";
  const auto training = [&](const std::string& more) {
    return rehearse(std::string("run ") + kGpt + " --batch 2 --format json --checkpoint " + place + " --continue " + more);
  };
  // A checkpoint after step 2 of the 4 that the cosine is for, as one that is interrupted leaves behind.
  REQUIRE(training("--steps 2 --schedule cosine:steps=4 --warmup 1").status == 0);
  const auto meant = training("--steps 3 --schedule cosine:steps=4 --warmup 1");
  REQUIRE(meant.status == 0);
  CHECK_THAT(meant.err, !contains("was trained with"));
  const auto moved = training("--steps 6 --schedule cosine --warmup 1");
  REQUIRE(moved.status == 0);
  CHECK_THAT(moved.err, contains("--schedule cosine:steps=4 after a warmup of 1 steps (now cosine to step 6 after a warmup of 1 steps)"));
  CHECK_THAT(training("--steps 8 --schedule cosine --warmup 1").err, contains("to step 6") && contains("(now cosine to step 8"));
  CHECK_THAT(training("--steps 9 --schedule cosine:steps=9 --warmup 1").err, contains("to step 8") && contains("(now cosine:steps=9"));
}

TEST_CASE("what may change when training goes on is said when it has") {
  const TemporaryFolder folder;
  const std::string place = folder / "c";
  REQUIRE(run_shell("python3 -c \"open('" + (folder / "tokens.bin") + "', 'wb').write(bytes(range(10)) * 20)\"; head -c 100 " +
                    (folder / "tokens.bin") + " > " + (folder / "fewer.bin"))
              .status == 0);
  const auto training = [&](const std::string& file, const std::string& more) {
    return rehearse(std::string("run ") + kGpt + " --batch 2 --steps 1 --optimizer adamw --format json --data 'tokens:" + (folder / file) +
                    "?dtype=uint8' " + more);
  };
  (void)losses_of(training("tokens.bin", "--weight-decay 0.1 --checkpoint " + place));
  const auto same = training("tokens.bin", "--weight-decay 0.1 --lr 1e-4 --resume " + place);  // a new rate is what many go on for
  CHECK(same.status == 0);
  CHECK_THAT(same.err, !contains("was trained with"));
  const auto other = training("fewer.bin", "--shuffle off --resume " + place);
  CHECK(other.status == 0);
  for (const auto* word : {"warning", "--shuffle on (now off)", "samples of --data", "weight_decay 0.1 (now 0.01)"})
    CHECK_THAT(other.err, contains(word));
  CHECK_THAT(other.err, !contains("other samples"));  // their number says it

  auto tokens = text_of(folder / "tokens.bin");
  tokens.back() = '\3';  // of a token that no sample has room for
  write_text(folder / "same.bin", tokens);
  tokens[1] = '\3';
  write_text(folder / "others.bin", tokens);
  const auto resumed = [&](const std::string& file) { return training(file, "--weight-decay 0.1 --resume " + place); };
  CHECK_THAT(resumed("same.bin").err, !contains("was trained with"));
  const auto others = resumed("others.bin");
  CHECK(others.status == 0);
  CHECK_THAT(others.err, contains("was trained with other samples of --data"));
  const auto file = place + "/step-1/manifest.json";
  auto older = nlohmann::json::parse(text_of(file));
  REQUIRE(older["trained_as"]["course"].erase("checksum of --data") == 1);
  write_text(file, without_checksums(older));
  CHECK_THAT(resumed("others.bin").err, !contains("was trained with"));
}

TEST_CASE("momentum begins at 0 where a checkpoint has none, and is left out where it is no longer wanted") {
  const TemporaryFolder folder;
  const auto training = [&](const std::string& more, int batch = 4) {
    return rehearse(std::string("run ") + kGpt + " --lr 0.1 --dtype f64 --format json --batch " + std::to_string(batch) + " " + more);
  };
  const auto without = losses_of(training("--steps 5")), with = losses_of(training("--steps 3 --momentum 0.9"));
  (void)losses_of(training("--steps 2 --checkpoint " + (folder / "without")));
  (void)losses_of(training("--steps 2 --momentum 0.9 --checkpoint " + (folder / "with")));
  const auto begun = training("--steps 3 --momentum 0.9 --resume " + (folder / "without"));
  CHECK_THAT(begun.err, contains("momentum 0.0 (now 0.9); its optimizer kept no momentum_buffer, which begins at 0"));
  const auto losses = losses_of(begun);
  REQUIRE(losses.size() == 3);
  CHECK(losses[0] == Approx(without[2]).epsilon(1e-12));
  CHECK(losses[1] == Approx(without[3]).epsilon(1e-12));  // the first update is that without momentum
  CHECK(std::abs(losses[2] - without[4]) > 1e-6);
  const auto ended = training("--steps 1 --resume " + (folder / "with"));
  CHECK_THAT(ended.err, contains("momentum 0.9 (now 0.0); the momentum_buffer that its optimizer kept is left out"));
  CHECK(losses_of(ended).at(0) == Approx(with[2]).epsilon(1e-12));
  CHECK(with[2] != without[2]);
  CHECK(training("--steps 1 --resume " + (folder / "with"), 2).status == 0);
  check_failure(rehearse("run 'zoo:gpt?layers=2&hidden=8&heads=2&seq=4&vocab=11' --batch 4 --dtype f64 --resume " + (folder / "with")), 1,
                {"another model"});
}

TEST_CASE("a checkpoint of weights that were not trained goes on with no others") {
  const TemporaryFolder folder;
  const auto model = [&](int seed) {
    const auto file = folder / ("base-" + std::to_string(seed) + ".onnx");
    (void)losses_of(rehearse(std::string("run ") + kGpt + " --batch 2 --steps 1 --lr 0 --format json --seed " + std::to_string(seed) +
                             " --export " + file));
    return file;
  };
  const auto one = model(1), two = model(2);
  const auto training = [&](const std::string& file, const std::string& more) {
    return rehearse("run " + file + " --batch 2 --steps 1 --optimizer adam --format json " + more);
  };
  for (const std::string how : {"--lora 2", "--freeze 'wte*'"}) {
    const std::string place = folder / how.substr(2, 4);
    (void)losses_of(training(one, how + " --checkpoint " + place));
    CHECK(training(one, how + " --resume " + place).status == 0);
    check_failure(training(two, how + " --resume " + place), 1, {"--resume", "another model file"});
  }
}

TEST_CASE("places where no checkpoint can be") {
  const TemporaryFolder folder;
  check_failure(rehearse(run("--steps 1 --resume " + (folder / "nothing"))), 1, {"nothing", "does not exist"});
  write_text(folder / "file", "mine");
  check_failure(rehearse(run("--steps 1 --checkpoint " + (folder / "file"))), 1, {"is a file"});
  CHECK(text_of(folder / "file") == "mine");
}

TEST_CASE("a full disk leaves the checkpoint that was there") {
  const Saved saved;
  const auto before = text_of(saved.file("manifest.json")), part = text_of(saved.file("stage-0.bin"));
  REQUIRE(part.size() > 4096);
  // No file may grow beyond 2 kB, and the signal that says so is ignored: writing fails as on a full disk.
  const auto ended = rehearse(run("--steps 1 --checkpoint " + saved.place()), 0, "trap '' XFSZ; ulimit -f 4; ");
  check_failure(ended, 4, {"stage-0.bin"});
  CHECK(text_of(saved.file("manifest.json")) == before);
  CHECK(text_of(saved.file("stage-0.bin")) == part);
  CHECK(losses_of(saved.resumed()).size() == 1);
}
