// rehearse evaluate, run --eval and --export: what was trained comes out of the program whole.
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "exec/data/npz.hpp"
#include "tests/cli/rehearse.hpp"

namespace {

using rehearsal::DType;
using rehearsal::exec::NpyArray;

template <class T>
NpyArray array_of(DType dtype, const rehearsal::graph::Shape& shape, const std::vector<T>& values) {
  NpyArray array;
  array.type.dtype = dtype;
  array.type.shape = shape;
  array.bytes.resize(values.size() * sizeof(T));
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

NpyArray random_images(std::int64_t samples) {
  std::vector<float> values(static_cast<std::size_t>(samples * 3 * 32 * 32));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i * i % 1009)));
  return array_of(DType::F32, {samples, 3, 32, 32}, values);
}

NpyArray labels(const std::vector<std::int64_t>& values) {
  return array_of(DType::I64, {static_cast<std::int64_t>(values.size())}, values);
}

/// A model file and seven samples.
class Setting {
 public:
  Setting() {
    REQUIRE(rehearse("zoo 'resnet18?image=32&classes=3' -o " + model()).status == 0);
    rehearsal::exec::write_npz(data(), {{"input", random_images(7)}, {"target", labels({0, 1, 2, 0, 1, 2, -100})}});
  }
  [[nodiscard]] std::string model() const { return folder_ / "model.onnx"; }
  [[nodiscard]] std::string data() const { return folder_ / "data.npz"; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
};

std::vector<float> floats_of(const NpyArray& array) {
  std::vector<float> values(array.bytes.size() / sizeof(float));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

/// Outputs of a model for the setting's samples, and the result that evaluate prints.
struct Evaluated {
  nlohmann::json result;
  std::vector<float> outputs;
};

Evaluated evaluated(const Setting& setting, const std::string& model, const std::string& more = "") {
  const auto file = setting / "outputs.npz";
  const auto result =
      result_of(rehearse("evaluate " + model + " --data " + setting.data() + " --outputs " + file + " --format json " + more));
  return {result, floats_of(rehearsal::exec::read_npz(file).at("logits"))};
}

}  // namespace

TEST_CASE("a trained model comes out by evaluation, checkpoint and export alike") {
  // Of the second optimizer it is the average of the weights that comes out.
  const auto [ranks, plan, optimizer] = GENERATE(std::tuple{0, "dp=1", "sgd"}, std::tuple{2, "dp=2", "sgd"}, std::tuple{2, "pp=2", "sgd"},
                                                 std::tuple{2, "dp=2,zero=1", "schedule-free-adamw"});
  INFO(plan << ", " << optimizer);
  const Setting setting;
  const auto trained =
      result_of(rehearse("run " + setting.model() + " --data " + setting.data() + " --batch 4 --steps 3 --lr 0.05 --optimizer " +
                             optimizer + " --plan " + plan + " --checkpoint " + (setting / "c") + " --export " +
                             (setting / "trained.onnx") + " --eval " + setting.data() + " --format json",
                         ranks));
  const auto stored = evaluated(setting, setting.model(), "--checkpoint " + (setting / "c")),
             exported = evaluated(setting, setting / "trained.onnx");
  const auto untrained = evaluated(setting, setting.model());
  REQUIRE(stored.outputs.size() == 21);
  CHECK(stored.outputs == exported.outputs);
  CHECK(stored.outputs != untrained.outputs);
  CHECK(trained.at("evaluation").at("loss") == stored.result.at("loss"));
  CHECK(trained.at("evaluation").at("accuracy") == stored.result.at("accuracy"));
  CHECK(exported.result.at("loss") == stored.result.at("loss"));
  CHECK(stored.result.at("samples") == 7);
  // Of six labels that count.
  const double right = 6 * stored.result.at("accuracy").get<double>();
  CHECK(std::abs(right - std::round(right)) < 1e-9);
}

TEST_CASE("a model that a configuration file describes trains and comes out as a file") {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json") << R"({"model_type": "qwen3", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
      "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 12, "vocab_size": 11, "max_position_embeddings": 4, "rms_norm_eps": 1e-6})";
  const std::string model = "'hf:" + (folder / "config.json") + "?batch=2'", file = folder / "trained.onnx";
  const auto run = rehearse("run " + model + " --steps 2 --export " + file + " --format json");
  CHECK_THAT(run.err, contains("rms_norm_eps=1e-06: norms are built with 1e-05"));
  const auto trained = result_of(run);
  CHECK(trained.at("losses").size() == 2);
  // embedding and head 2 * 11 * 8, four products 4 * 8 * 12, norms 2 * 6 + 3 * 8, feed-forward layer 3 * 8 * 12
  for (const auto& of : {model, file})
    CHECK(result_of(rehearse("inspect " + of + " --format json")).at("parameters") == 176 + 384 + 36 + 288);
  check_failure(rehearse("inspect hf:" + (folder / "nothing.json")), 1, {"nothing.json", "cannot be read"});
}

TEST_CASE("what was frozen stays as the model has it") {
  const Setting setting;
  REQUIRE(rehearse("run " + setting.model() + " --data " + setting.data() + " --batch 4 --steps 1 --freeze 'layer*' --checkpoint " +
                   (setting / "c") + " --export " + (setting / "trained.onnx") + " --format json")
              .status == 0);
  CHECK(evaluated(setting, setting.model(), "--checkpoint " + (setting / "c")).outputs ==
        evaluated(setting, setting / "trained.onnx").outputs);
}

TEST_CASE("adapters are evaluated with the factor that they were trained with") {
  const TemporaryFolder folder;
  const std::string model = "'zoo:gpt?layers=1&hidden=16&heads=2&vocab=8&seq=4&batch=2'", data = folder / "data.npz";
  const auto tokens = array_of(DType::I64, {2, 4}, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  rehearsal::exec::write_npz(data, {{"input_ids", tokens}, {"target", tokens}});
  const std::string checkpoint = folder / "c", job = " --data " + data + " --checkpoint " + checkpoint;
  // alpha / rank = 8 / 4 = 2
  REQUIRE(rehearse("run " + model + " --steps 2 --lora 4,alpha=8" + job).status == 0);
  CHECK(rehearse("evaluate " + model + " --lora 4,alpha=8" + job).status == 0);
  check_failure(rehearse("evaluate " + model + " --lora 4,alpha=64" + job), 1,
                {"--lora", "multiplies adapters with 16", checkpoint, "was trained with 2"});
  check_failure(rehearse("evaluate " + model + " --lora 4" + job), 1, {"--lora", "multiplies adapters with 1"});
  check_failure(rehearse("run " + model + " --steps 2 --lora 4,alpha=64 --resume " + checkpoint + " --data " + data), 1,
                {"--lora", "multiplies adapters with 16", "was trained with 2"});
  check_failure(rehearse("evaluate " + model + job), 1, {"lora_A", "is not in the model"});
}

TEST_CASE("the size of a batch is no part of the result") {
  const Setting setting;
  const auto whole = evaluated(setting, setting.model(), "--dtype f64"),
             parts = evaluated(setting, setting.model(), "--dtype f64 --batch 3");
  CHECK(std::abs(whole.result.at("loss").get<double>() - parts.result.at("loss").get<double>()) < 1e-12);
  CHECK(whole.result.at("accuracy") == parts.result.at("accuracy"));
}

TEST_CASE("the loss is that of the outputs") {
  const Setting setting;
  const auto found = evaluated(setting, setting.model());
  const std::vector<std::size_t> target = {0, 1, 2, 0, 1, 2};  // the seventh label is ignored
  double sum = 0;
  for (std::size_t n = 0; n < target.size(); ++n) {
    double total = 0;
    for (std::size_t c = 0; c < 3; ++c) total += std::exp(static_cast<double>(found.outputs[3 * n + c]));
    sum += std::log(total) - static_cast<double>(found.outputs[3 * n + target[n]]);
  }
  CHECK(std::abs(found.result.at("loss").get<double>() - sum / 6) < 1e-5);
}

TEST_CASE("samples without a target have outputs and no loss") {
  const Setting setting;
  rehearsal::exec::write_npz(setting / "inputs.npz", {{"input", random_images(2)}});
  const auto result = result_of(rehearse("evaluate " + setting.model() + " --data " + (setting / "inputs.npz") + " --outputs " +
                                         (setting / "o.npz") + " --format json"));
  CHECK_FALSE(result.contains("loss"));
  CHECK(rehearsal::exec::read_npz(setting / "o.npz").at("logits").type.shape == rehearsal::graph::Shape{2, 3});
}

TEST_CASE("what cannot be evaluated is named") {
  const Setting setting;
  const std::string command = "evaluate " + setting.model() + " --format json --data ";
  check_failure(rehearse(command + (setting / "none.npz")), 1, {"none.npz"});
  check_failure(rehearse(command + setting.data() + " --checkpoint " + (setting / "none")), 1, {"none", "does not exist"});
  rehearsal::exec::write_npz(setting / "wrong.npz", {{"image", random_images(2)}});
  check_failure(rehearse(command + (setting / "wrong.npz")), 1, {"wrong.npz", "input"});
  // A checkpoint of another model.
  REQUIRE(rehearse(std::string("run ") + kGpt + " --batch 2 --steps 1 --format json --checkpoint " + (setting / "gpt")).status == 0);
  check_failure(rehearse(command + setting.data() + " --checkpoint " + (setting / "gpt")), 1, {"of another model"});
  check_failure(rehearse(command + setting.data(), 2), 1, {"one process"});
  check_failure(rehearse(command + setting.data() + " --target labels"), 1, {"--target labels", "input, target"});
  check_failure(rehearse(command + setting.data() + " --dtype bf16"), 1, {"--dtype bf16", "f32 or f64"});
}

TEST_CASE("a checkpoint is evaluated as what was trained, or refused") {
  const TemporaryFolder folder;
  const std::string place = folder / "c", tokens = folder / "tokens.bin";
  REQUIRE(run_shell("python3 -c \"open('" + tokens + "', 'wb').write(bytes(i * i % 11 for i in range(200)))\"").status == 0);
  const auto data = " --format json --data 'tokens:" + tokens + "?dtype=uint8'";
  const auto trained =
      result_of(rehearse(std::string("run ") + kGpt + " --batch 2 --steps 3 --optimizer adam --lr 0.05 --freeze 'wte*' --seed 7" + data +
                         " --eval 'tokens:" + tokens + "?dtype=uint8' --checkpoint " + place));
  const auto evaluated = [&](const std::string& model, const std::string& more = "") {
    return rehearse("evaluate " + model + data + " --checkpoint " + place + " " + more);
  };
  // The seed made the frozen table, and stands in the checkpoint.
  CHECK(result_of(evaluated(kGpt)).at("loss").get<double>() == Approx(trained.at("evaluation").at("loss").get<double>()).epsilon(1e-8));
  check_failure(evaluated(kGpt, "--seed 8"), 1, {"--seed 8", "was made with --seed 7"});
  check_failure(evaluated("'zoo:gpt?layers=2&hidden=8&heads=2&seq=4&vocab=11'"), 1, {"is in the model", "of another model"});
  check_failure(evaluated(kGpt, "--lora 2"), 1, {"is in the model", "of another model"});
  const auto other = evaluated("'zoo:gpt?layers=1&hidden=8&heads=4&seq=4&vocab=11'");
  CHECK(other.status == 0);
  CHECK_THAT(other.err, contains("another network"));
}

TEST_CASE("an evaluation that says nothing says so") {
  const Setting setting;
  rehearsal::exec::write_npz(setting / "none.npz", {{"input", random_images(3)}, {"target", labels({-100, -100, -100})}});
  const auto none = rehearse("evaluate " + setting.model() + " --format json --data " + (setting / "none.npz"));
  CHECK(none.status == 0);
  CHECK_THAT(none.err, contains("every label of the target is -100"));
  auto images = random_images(3);
  const float nan = std::nanf("");
  const auto second = sizeof(float) * 3 * 32 * 32;
  std::memcpy(images.bytes.data() + second, &nan, sizeof nan);
  rehearsal::exec::write_npz(setting / "nan.npz", {{"input", images}, {"target", labels({0, 1, 2})}});
  const auto broken = rehearse("evaluate " + setting.model() + " --format json --data " + (setting / "nan.npz"));
  CHECK_THAT(broken.err, contains("the loss is not finite") && contains("is row 1 of ") && contains("nan.npz"));
  CHECK_THAT(result_of(broken).at("not_finite").get<std::string>(), contains("row 1 of "));
  rehearsal::exec::write_npz(setting / "inputs.npz", {{"input", images}});
  const auto outputs = rehearse("evaluate " + setting.model() + " --format json --data " + (setting / "inputs.npz"));
  CHECK_THAT(outputs.err, contains("outputs are no numbers") && contains("is row 1 of "));
  CHECK_FALSE(result_of(rehearse("evaluate " + setting.model() + " --format json --data " + setting.data())).contains("not_finite"));
  const auto bound = rehearse("evaluate " + setting.model() + " --bind foo=3 --format json --data " + (setting / "none.npz"));
  CHECK(bound.status == 0);
  CHECK_THAT(bound.err, contains("foo"));
}

TEST_CASE("nothing is written over what is read") {
  const Setting setting;
  const auto before = text_of(setting.data()), model = text_of(setting.model());
  const auto run = "run " + setting.model() + " --batch 2 --steps 1 --format json --data npz:" + setting.data();
  for (const std::string output : {"--metrics", "--trace", "--export"})
    check_failure(rehearse(run + " " + output + " " + setting.data()), 1, {output, "is the file that --data names"});
  check_failure(rehearse(run + " --export " + setting.model()), 1, {"--export", "is the file that MODEL names"});
  check_failure(rehearse(run + " --metrics " + (setting / "m") + " --trace " + (setting / "m")), 1,
                {"--trace", "is where --metrics writes"});
  const auto here = "cd " + (setting / "") + " && " REHEARSAL_COMMAND " ";
  for (const std::string other : {"./m", "$PWD/m", "nothing/../m"}) {
    INFO(other);
    check_failure(run_shell(here + run + " --export m --trace " + other), 1, {"is where --"});
  }
  write_text(setting / "t.json", "{}");
  for (const std::string output : {"--csv", "--chrome"})
    check_failure(run_shell(here + "report t.json " + output + " ./t.json"), 1, {output, "is the file that TRACE names"});
  check_failure(run_shell(here + "fit --measured t.json --steps 0 -o t.json"), 1, {"is the file that --measured names"});
  check_failure(rehearse("evaluate " + setting.model() + " --data " + setting.data() + " --outputs " + setting.data()), 1,
                {"--outputs", "is the file that --data names"});
  for (const std::string output : {"--dot", "--json", "--pnml"})
    check_failure(rehearse("explain dp=2 --model " + setting.model() + " --batch 2 --platform dgx-a100 " + output + " " + setting.model()),
                  1, {output, "is the file that --model names"});
  CHECK(text_of(setting.data()) == before);
  CHECK(text_of(setting.model()) == model);
  CHECK(rehearse(run + " --metrics /dev/null").status == 0);
}
