#include "graph/zoo/zoo.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"
#include "tests/graph/zoo/counts.hpp"
#include "tests/graph/zoo/small.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using zoo::flops_of;
using zoo::parameters_of;

namespace {

struct Published {
  std::string_view reference;
  std::int64_t parameters;
  std::string_view source;
};
constexpr std::string_view kTorchvision = "torchvision.models, num_params of the pre-trained weights";
constexpr std::string_view kTimm = "timm, results/model_metadata-in1k.csv and model cards";
constexpr std::string_view kHuggingFace = "Hugging Face, number of parameters of the published checkpoint";
constexpr std::string_view kTransformers = "transformers 5.23, AutoModelForCausalLM.from_config() of the published configuration";
// What is counted by hand stands beside it.
constexpr Published kPublished[] = {
    {"resnet18", 11'689'512, kTorchvision},
    {"resnet34", 21'797'672, kTorchvision},
    {"resnet50", 25'557'032, kTorchvision},
    {"resnet50_v1", 25'557'032, "as v1.5: only strides differ"},
    {"resnet101", 44'549'160, kTorchvision},
    {"resnet152", 60'192'808, kTorchvision},
    {"resnet50_v2", 25'549'352, kTimm},
    {"resnext50_32x4d", 25'028'904, kTorchvision},
    {"resnext101_32x4d", 44'177'704, kTimm},
    {"resnext101_32x8d", 88'791'336, kTorchvision},
    {"wide_resnet50_2", 68'883'240, kTorchvision},
    {"wide_resnet101_2", 126'886'696, kTorchvision},
    {"seresnet50", 28'088'024, kTimm},
    {"seresnext101_32x4d", 48'955'416, kTimm},
    {"vgg11", 132'863'336, kTorchvision},
    {"vgg13", 133'047'848, kTorchvision},
    {"vgg16", 138'357'544, kTorchvision},
    {"vgg19", 143'667'240, kTorchvision},
    {"alexnet", 61'100'840, kTorchvision},
    {"googlenet", 6'624'904, kTorchvision},
    {"inception_v3", 23'834'568, "torchvision.models.inception_v3(aux_logits=False)"},
    {"inception_v4", 42'679'816, kTimm},
    {"densenet121", 7'978'856, kTorchvision},
    {"densenet161", 28'681'000, kTorchvision},
    {"densenet169", 14'149'480, kTorchvision},
    {"densenet201", 20'013'928, kTorchvision},
    {"mobilenet_v1", 4'231'976, "Howard et al. 2017, table 8: 4.2 million; the usual implementation has 4,231,976"},
    {"mobilenet_v2", 3'504'872, kTorchvision},
    {"mobilenet_v3_large", 5'483'032, kTorchvision},
    {"mobilenet_v3_small", 2'542'856, kTorchvision},
    {"efficientnet_b0", 5'288'548, kTorchvision},
    {"efficientnet_b1", 7'794'184, kTorchvision},
    {"efficientnet_b2", 9'109'994, kTorchvision},
    {"efficientnet_b3", 12'233'232, kTorchvision},
    {"efficientnet_b4", 19'341'616, kTorchvision},
    {"efficientnet_b5", 30'389'784, kTorchvision},
    {"efficientnet_b6", 43'040'704, kTorchvision},
    {"efficientnet_b7", 66'347'960, kTorchvision},
    {"efficientnet_v2_s", 21'458'488, kTorchvision},
    {"efficientnet_v2_m", 54'139'356, kTorchvision},
    {"xception", 22'855'952, kTimm},
    {"shufflenet_v2", 2'278'604, kTorchvision},
    {"nasnet_large", 88'753'150, kTimm},
    {"nasnet_mobile", 5'289'978, "Cadene, pretrained-models.pytorch, nasnetamobile"},
    {"amoebanetd?filters=208", 81'505'540, "Huang et al. 2019, table 1: 82 million"},
    {"unet2d_stacked?convolutions=6&channels=72", 362'157'516, "torchgpipe, docs/benchmarks.rst: 362.2 million"},
    {"unet2d_stacked?convolutions=11&channels=128", 2'213'834'176, "torchgpipe, docs/benchmarks.rst: 2.21 billion"},
    {"regnetx_008", 7'259'656, kTorchvision},
    {"regnetx_016", 9'190'136, kTorchvision},
    {"regnetx_032", 15'296'552, kTorchvision},
    {"regnetx_040", 22'118'248, kTimm},
    {"regnetx_080", 39'572'648, kTorchvision},
    {"regnetx_160", 54'278'536, kTorchvision},
    {"regnety_016", 11'202'430, kTorchvision},
    {"regnety_032", 19'436'338, kTorchvision},
    {"regnety_040", 20'646'656, kTimm},
    {"regnety_080", 39'180'068, kTimm},
    {"regnety_160", 83'590'140, kTorchvision},
    {"regnety_320", 145'046'770, kTorchvision},
    {"convnext_tiny", 28'589'128, kTorchvision},
    {"convnext_small", 50'223'688, kTorchvision},
    {"convnext_base", 88'591'464, kTorchvision},
    {"convnext_large", 197'767'336, kTorchvision},
    {"swin_tiny", 28'288'354, kTorchvision},
    {"swin_small", 49'606'258, kTorchvision},
    {"swin_base", 87'768'224, kTorchvision},
    {"swin_large", 196'532'476, kTimm},
    {"mixer", 59'880'472, kTimm},
    {"vit", 86'567'656, kTorchvision},
    {"vit?patch=32", 88'224'232, kTorchvision},
    {"vit?hidden=1024&layers=24&heads=16", 304'326'632, kTorchvision},
    {"vit?hidden=384&heads=6", 22'050'664, kTimm},
    {"bert", 109'514'298, "transformers.BertForMaskedLM, bert-base-uncased"},
    {"bert?hidden=1024&layers=24&heads=16", 335'174'458, "transformers.BertForMaskedLM, bert-large-uncased"},
    {"gpt", 124'439'808, kHuggingFace},
    {"gpt?hidden=1600&layers=48&heads=25", 1'557'611'200, kHuggingFace},
    {"gpt-neox", 6'857'302'016, kHuggingFace},
    {"gpt-neox?layers=6&hidden=512&heads=8&vocab=50304", 70'426'624, kHuggingFace},
    {"gpt-neox?layers=44&hidden=6144&heads=64&vocab=50432", 20'554'567'680, kHuggingFace},
    {"mpt", 6'649'286'656, kHuggingFace},
    {"llama", 6'738'415'616, kHuggingFace},
    {"llama?hidden=5120&layers=40&heads=40&ffn=13824", 13'015'864'320, kHuggingFace},
    {"llama?hidden=8192&layers=80&heads=64&kv_heads=8&ffn=28672", 68'976'648'192, kHuggingFace},
    {"llama?hidden=4096&kv_heads=8&ffn=14336&vocab=128256&theta=500000", 8'030'261'248, kHuggingFace},
    {"llama?hidden=8192&layers=80&heads=64&kv_heads=8&ffn=28672&vocab=128256", 70'553'706'496, kHuggingFace},
    {"moe", 46'702'792'704, kHuggingFace},
    {"llama3-8b", 8'030'261'248, kHuggingFace},
    {"llama3.1-70b", 70'553'706'496, kHuggingFace},
    {"llama3.1-405b", 405'853'388'800, kHuggingFace},
    {"llama3.2-1b", 1'235'814'400, kHuggingFace},
    {"llama3.2-3b", 3'212'749'824, kHuggingFace},
    {"mistral-7b", 7'241'732'096, kHuggingFace},
    {"mistral-nemo", 12'247'782'400, kHuggingFace},
    {"qwen2.5-7b", 7'615'616'512, kHuggingFace},
    {"qwen2.5-72b", 72'706'203'648, kHuggingFace},
    {"qwen3-0.6b", 596'049'920, kHuggingFace},
    {"mimo-7b", 7'622'619'136, "by hand: 2 x 151680 x 4096 + 36 x (4096 x 10240 + 6144 + 3 x 4096 x 11008 + 2 x 4096) + 4096"},
    {"qwen3-next-80b-a3b", 79'674'391'296, kTransformers},
    {"deepseek-v4-flash", 284'332'230'231, kTransformers},
    {"deepseek-v4-pro", 1'572'997'179'491, kTransformers},
    {"qwen3.5-27b", 26'895'998'464, kTransformers},
    {"qwen3.5-35b-a3b", 34'660'610'688, kTransformers},
    {"qwen3.5-122b-a10b", 122'111'526'912, kTransformers},
    {"qwen3.5-397b-a17b", 396'346'350'336, kTransformers},
    {"gemma4-31b", 30'697'345'280, kTransformers},
    {"gemma4-26b-a4b", 25'233'141'760, kTransformers},
    {"mimo-v2-flash", 308'778'768'832, kTransformers},
    {"minimax-m3", 426'174'565'632, kTransformers},
    {"deepseek-v3.2", 671'877'929'216, kTransformers},
    {"glm-5", 743'911'199'232, kTransformers},
    {"glm-5.2", 743'377'000'704, kTransformers},
    {"qwen3-8b", 8'190'735'360, kHuggingFace},
    {"qwen3-32b", 32'762'123'264, kHuggingFace},
    {"qwen3-30b-a3b", 30'532'122'624, kHuggingFace},
    {"qwen3-235b-a22b", 235'093'634'560, kHuggingFace},
    {"gemma-2b", 2'506'172'416, kHuggingFace},
    {"gemma-7b", 8'537'680'896, kHuggingFace},
    {"gemma2-2b", 2'614'341'888, kHuggingFace},
    {"gemma2-9b", 9'241'705'984, kHuggingFace},
    {"gemma2-27b", 27'227'128'320, kHuggingFace},
    {"gemma3-4b", 3'880'263'168, kTransformers},
    {"gemma3-12b", 11'766'034'176, kTransformers},
    {"gemma3-27b", 27'009'346'304, kTransformers},
    {"olmo2-7b", 7'298'617'344, kTransformers},
    {"olmo2-13b", 13'716'198'400, kTransformers},
    {"glm4.5-air", 106'852'245'504, kTransformers},
    {"glm4.5", 352'797'814'784, kTransformers},
    {"mixtral-8x7b", 46'702'792'704, kHuggingFace},
    {"mixtral-8x22b", 140'620'634'112, kHuggingFace},
    {"gpt-oss-20b", 20'914'757'184, kHuggingFace},
    {"gpt-oss-120b", 116'829'156'672, kHuggingFace},
    {"kimi-k2", 1'026'408'209'408, "Kimi K2 (2025): 1.03 trillion; as DeepSeek-V3's sum, by hand"},
    {"llama4-scout", 107'769'861'120, "the text part of the published checkpoint"},
    {"llama4-maverick", 400'711'848'960, "the text part of the published checkpoint"},
    {"nemotron3-nano", 31'577'937'344, kTransformers},
    {"nemotron3-super", 120'668'687'360, kTransformers},
    {"nemotron3-ultra", 549'308'968'960, kTransformers},
    {"nemotron-h-56b", 56'324'350'464, kTransformers},
    {"deepseek-moe-16b", 16'375'728'128, kHuggingFace},
    {"deepseek-v2-lite", 15'706'484'224, kHuggingFace},
    {"deepseek-v2", 235'741'434'880, kHuggingFace},
    // Attention 7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168 = 187,107,328; two norms
    // 14,336; three layers 3 * 7168 * 18432; 58 with 257 experts of 3 * 7168 * 2048 and a gate 7168 * 256; embedding, head 2 * 129280 *
    // 7168; a norm. The 256 numbers a layer that balance the gate are no parameters (58 * 256 fewer than the checkpoint's).
    {"deepseek-v3", 671'026'404'352, "DeepSeek-V3 (2024), by hand: 671 billion"},
    // a module: two norms and the last one 3 * 7168, 2 * 7168 * 7168, and a layer with experts of 11,507,286,016
    {"deepseek-v3?mtp=1", 671'026'404'352 + 11'610'067'968, "DeepSeek-V3, by hand"},
    {"t5", 222'903'552, kHuggingFace},
    {"t5?enc_layers=6&dec_layers=6&hidden=512&heads=8&ffn=2048", 60'506'624, kHuggingFace},
    {"t5?enc_layers=24&dec_layers=24&hidden=2048&heads=32&ffn=5120&gated=1&tied=0", 2'849'757'184, kHuggingFace},
    // torchvision.models.retinanet_resnet50_fpn has 34,014,999, its frozen normalizations (53,120 scales and shifts) not among them
    {"retinanet_resnet50?classes=91", 34'068'119, "torchvision.models.detection, and the normalizations' parameters"},
    // convolutions 9 i o + o twice a level, 64 to 1024 channels from 1, upward 4 * 2c * c + c, head 64 * 2 + 2
    {"unet2d_valid", 31'030'658, "Ronneberger et al. 2015, by hand: 31.03 million"},
    {"diffusion", 865'910'724, "diffusers.UNet2DConditionModel, stable-diffusion-2"},
    // a layer: 5 h^2, 2 h f + f + h, two norms of 2 h: 3,412,480; sixteen of them, 267,735 (h + 1), two biases of h; NVIDIA: 192 million
    {"transformer-xl", 191'948'759, "Dai et al. 2019, by hand"},
    // 90 h^2 + 38 h of LSTMs and attention, embedding and classifier 2 V h + V; NVIDIA and MLPerf: 160 million
    {"gnmt", 160'634'432, "Wu et al. 2016, by hand"},
    // tables 26 * 100 * 128; bottom 13, 512, 256, 128: 7,168 + 131,328 + 32,896; top 128 + 27 * 26 / 2 = 479, 1024, 1024, 512, 256, 1:
    // 491,520 + 1,049,600 + 524,800 + 131,328 + 257
    {"dlrm?rows=100", 332'800 + 171'392 + 2'197'505, "Naumov et al. 2019, by hand"},
    // an encoder layer: 4 h^2 + 4 h, 2 h f + f + h, two norms of 2 h: 12,596,224; a decoder layer 4 h^2 + 6 h more: 16,796,672;
    // six of each and 37,000 h; the paper's table 3 says 213 million
    {"transformer", 214'245'376, "Vaswani et al. 2017, by hand"},
};

struct Counted {
  std::string_view reference;
  double giga_multiply_adds;  ///< of one sample, forward
};
// torchvision.models, "_ops" of the pre-trained weights (multiply-adds of convolutions and products).
constexpr Counted kCounted[] = {{"resnet18", 1.814},
                                {"resnet50", 4.089},
                                {"resnet152", 11.514},
                                {"resnext50_32x4d", 4.23},
                                {"resnext101_32x8d", 16.414},
                                {"wide_resnet50_2", 11.398},
                                {"vgg16", 15.470},
                                {"alexnet", 0.714},
                                {"googlenet", 1.498},
                                {"inception_v3", 5.713},
                                {"densenet121", 2.834},
                                {"densenet201", 4.291},
                                {"mobilenet_v2", 0.301},
                                {"mobilenet_v3_large", 0.217},
                                {"mobilenet_v3_small", 0.057},
                                {"efficientnet_b0", 0.386},
                                {"efficientnet_b4", 4.394},
                                {"efficientnet_b7", 37.746},
                                {"vit", 17.564},
                                {"vit?patch=32", 4.409},
                                {"efficientnet_v2_s?image=384", 8.366},
                                {"shufflenet_v2", 0.145},
                                {"regnetx_032", 3.177},
                                {"regnety_016", 1.612},
                                {"regnety_160", 15.912},
                                {"convnext_tiny", 4.456},
                                {"convnext_base", 15.355},
                                {"swin_tiny", 4.491},
                                {"swin_base", 15.431}};

}  // namespace

TEST_CASE("parameter counts are those of the published models", "[slow]") {
  for (const Published& p : kPublished) {
    INFO(p.reference << ": " << p.source);
    CHECK(parameters_of(zoo::build(p.reference, 1)) == p.parameters);
  }
}

TEST_CASE("FLOPs are those of the published models") {
  for (const Counted& c : kCounted) {
    INFO(c.reference);
    CHECK(flops_of(zoo::build(c.reference, 1), {"Conv", "Gemm", "MatMul"}) / 2e9 == Approx(c.giga_multiply_adds).epsilon(0.01));
  }
}

TEST_CASE("GPT-2 small has its published size") {
  // tokens 50257 x 768, positions 1024 x 768; a block: 2 norms of 2 x 768, 768 x 2304 + 2304, 768 x 768 + 768, 768 x 3072 + 3072,
  // 3072 x 768 + 768 = 7,087,872; twelve of them; a last norm of 1536: 124,439,808
  CHECK(parameters_of(zoo::build("zoo:gpt")) == 124'439'808);
  CHECK(parameters_of(zoo::build("zoo:gpt?tied=0")) == 124'439'808 + 50257 * 768);
  // a block of hidden 8, ffn 10: 32 + 8 * 24 + 24 + 8 * 8 + 8 + 8 * 10 + 10 + 10 * 8 + 8 = 498; vocabulary 5 * 8, 4 positions * 8, norm 16
  CHECK(parameters_of(zoo::build("gpt?layers=3&hidden=8&heads=2&ffn=10&seq=4&vocab=5")) == 3 * 498 + 40 + 32 + 16);
}

TEST_CASE("a preset is its model with other defaults") {
  for (const zoo::ZooPreset& preset : zoo::zoo_presets()) {
    INFO(preset.name);
    CHECK(zoo::parse(preset.name).row == zoo::parse(preset.model).row);
  }
  CHECK(zoo::parse("zoo:Llama-3-8B").values.at("vocab") == 128256);
  const auto changed = zoo::parse("zoo:qwen3-30b-a3b?layers=2&batch=4");
  CHECK(changed.row->name == "moe");
  CHECK(changed.values.at("layers") == 2);
  CHECK(changed.values.at("experts") == 128);
  CHECK_THROWS_WITH(zoo::parse("zoo:lama3-8b"), contains("did you mean \"llama3-8b\"?"));
  CHECK_THROWS_WITH(zoo::parse("zoo:llama3-8b?layer=2"), contains("layer") && contains("layers"));
}

TEST_CASE("U-Net counts by hand") {
  // a double convolution from i to o channels: 9 i o + 2 o + 9 o o + 2 o; an upward step from 2 c to c: 4 * 2c * c + c and a double
  // convolution from 2 c to c; the head c * classes + classes. Depth 1, 4 channels, 3 in, 2 classes:
  // (108 + 8 + 144 + 8) + (288 + 16 + 576 + 16) + (128 + 4) + (288 + 8 + 144 + 8) + (8 + 2) = 268 + 896 + 132 + 448 + 10
  CHECK(parameters_of(zoo::build("unet2d?depth=1&channels=4&image=16")) == 1754);
  // three dimensions, instance normalization, no biases: 27 i o + 2 o + 27 o o + 2 o, upward 8 i o. Channels 2, 4, at most 5, 1 in:
  // (54 + 4 + 108 + 4) + (216 + 8 + 432 + 8) + (540 + 10 + 675 + 10), up from 5 to 4: 160 + (864 + 8 + 432 + 8), up to 2: 64 +
  // (216 + 4 + 108 + 4), head 2 * 3 + 3: 170 + 664 + 1235 + 1472 + 396 + 9
  CHECK(parameters_of(zoo::build("unet3d?depth=2&channels=2&max_channels=5&image=16")) == 3946);
  // 64 to 1024 channels, as in the paper's figure 1
  const auto pair = [](std::int64_t i, std::int64_t o) { return 9 * i * o + 9 * o * o + 4 * o; };
  std::int64_t expected = pair(3, 64) + 64 * 2 + 2;
  for (std::int64_t c = 64; c < 1024; c *= 2) expected += pair(c, 2 * c) + 8 * c * c + c + pair(2 * c, c);
  CHECK(parameters_of(zoo::build("unet2d")) == expected);
}

TEST_CASE("FLOPs of the convolutions and the classifier of ResNet-50") {
  // torchvision's table: 4.09 GFLOPS per 224 x 224 image, counting multiply-adds (our FLOPs count each as two)
  const double flops = flops_of(zoo::build("resnet50?batch=1"), {"Conv", "Gemm"});
  CHECK(flops / 2e9 == Approx(4.09).margin(0.005));
  // the first convolution by hand: 112 * 112 * 64 results of 3 * 49 multiply-adds
  const Graph graph = zoo::build("resnet50?batch=1");
  const auto first = std::find_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& n) { return n.name == "conv1"; });
  REQUIRE(first != graph.nodes().end());
  const NodeTypes types(graph, *first);
  CHECK(work_of(schema(*first), types.view()).flops.value() == 2.0 * 112 * 112 * 64 * 3 * 49);
}

TEST_CASE("FLOPs of GPT-2 follow six parameters a token") {
  // matrix products forward: 2 FLOPs per weight and token (embedding as the result's weight included, positions and norms not),
  // and 4 seq hidden per token and layer for scores and mixing
  const double tokens = 1024, weights = 12.0 * (768 * 2304 + 768 * 768 + 2 * 768 * 3072) + 50257.0 * 768;
  CHECK(flops_of(zoo::build("gpt?batch=1"), {"MatMul"}) == Approx(tokens * (2 * weights + 12.0 * 4 * 1024 * 768)).epsilon(1e-12));
}

TEST_CASE("every model trains: all parameters have gradients and nothing is in the way") {
  for (const zoo::ZooRow& row : zoo::zoo_table()) {
    INFO(row.name);
    const Graph model = with_initial_values(zoo::build(zoo::small_variant(row.name)));
    const TrainingGraph training = build_training_graph(model, {});
    std::size_t parameters = 0, known = 0;
    for (const Tensor& tensor : model.tensors()) {
      parameters += tensor.role == TensorRole::Parameter;
      known += tensor.role == TensorRole::Parameter && tensor.contents.known();
    }
    CHECK(training.parameters.size() == parameters);
    CHECK(known == parameters);
    CHECK(training.untrainable.empty());
    CHECK(training.warnings.empty());
    CHECK(training.batch == 2);
  }
}

TEST_CASE("running statistics are updated in training") {
  const TrainingGraph training = build_training_graph(zoo::build("resnet18?image=32"), {});
  const auto& tensors = training.graph.tensors();
  const auto states = std::count_if(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.role == TensorRole::State; });
  const auto updated = std::count_if(tensors.begin(), tensors.end(), [&](const Tensor& t) {
    return t.stored_in != TensorId::None && training.graph[t.stored_in].role == TensorRole::State;
  });
  CHECK(states == 2 * 20);  // 20 normalizations
  CHECK(updated == states);
}

TEST_CASE("an image of another size reaches the classifier of VGG") {
  for (const std::string image : {"32", "64", "160", "224", "256", "448"}) {
    const Graph graph = zoo::build("vgg11?batch=1&image=" + image);
    CHECK(parameters_of(graph) == 132'863'336);
    CHECK(graph[graph.outputs()[0]].type.shape == Shape{1, 1000});
  }
}

TEST_CASE("networks that people call by name have the parameters that their authors' files have") {
  // transformers 4.x (GPT2LMHeadModel, BertForMaskedLM, T5ForConditionalGeneration) and torchvision (vit_*), counted by
  // sum(p.numel() for p in model.parameters()).
  const std::pair<const char*, std::int64_t> kCounts[] = {
      {"gpt2", 124'439'808},      {"gpt2-medium", 354'823'168}, {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200}, {"bert-large", 335'174'458},  {"t5-small", 60'506'624},
      {"t5-large", 737'668'096},  {"vit_l_16", 304'326'632},    {"vit_h_14", 632'045'800}};
  for (const auto& [name, count] : kCounts) {
    INFO(name);
    CHECK(parameters_of(zoo::build(std::string("zoo:") + name, 1)) == count);
  }
}

TEST_CASE("references are parsed strictly") {
  CHECK(zoo::parse("zoo:gpt").values.at("layers") == 12);
  CHECK(zoo::parse("gpt?layers=2&hidden=256").values.at("hidden") == 256);
  CHECK_THROWS_WITH(zoo::parse("zoo:gtp"), contains("gtp") && contains("did you mean \"gpt\"?") && contains("`rehearse zoo` lists all"));
  CHECK_THROWS_WITH(zoo::parse("zoo:gpt?depth=3"), contains("depth") && contains("layers") && contains("vocab"));
  CHECK_THROWS_WITH(zoo::parse("zoo:gpt?layers=-1"), contains("layers=-1") && contains("1 to"));
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers=99999999999999999999"), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers=two"), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers="), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers"), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:"), BadInput);
  CHECK_THROWS_WITH(zoo::build("gpt?hidden=100&heads=12"), contains("hidden=100") && contains("heads=12"));
  CHECK_THROWS_WITH(zoo::build("llama?hidden=4096&heads=32&kv_heads=5"), contains("heads=32") && contains("kv_heads=5"));
  CHECK_THROWS_WITH(zoo::build("gpt-neox?hidden=24&heads=8"), contains("rotary=25") && contains("pairs"));
  CHECK_THROWS_WITH(zoo::build("llama?hidden=24&heads=8"), contains("rotary=100") && contains("hidden/heads=3"));
  CHECK_THROWS_WITH(zoo::build("moe?experts=2&top_k=3"), contains("top_k=3") && contains("experts=2"));
  CHECK_THROWS_WITH(zoo::build("moe?kv_lora=8&kv_heads=4"), contains("kv_heads=4") && contains("kv_heads=0"));
  CHECK_THROWS_WITH(zoo::build("moe?kv_lora=8&kv_heads=0&head_dim=64"), contains("head_dim=64") && contains("kv_lora"));
  CHECK_THROWS_WITH(zoo::build("moe?kv_lora=8&kv_heads=0&rope_dim=3"), contains("rope_dim=3") && contains("even"));
  CHECK_THROWS_WITH(zoo::parse("llama?delta_heads=3"), contains("delta_heads=3") && contains("with full_every alone"));
  CHECK_THROWS_WITH(zoo::parse("moe?window_every=2"), contains("window_every=2") && contains("with window alone"));
  CHECK_THROWS_WITH(zoo::parse("llama3-8b?chunk=32"), contains("zoo:llama3-8b: chunk=32"));
  CHECK(zoo::parse("llama?delta_heads=32").values.at("delta_heads") == 32);  // the default, as the text of a choice says it
  CHECK(zoo::parse("gemma3-27b?window_every=3").values.at("window_every") == 3);
  CHECK_THROWS_WITH(zoo::build("llama?layers=1&head_dim=7"), contains("head_dim=7") && contains("pairs"));
  CHECK_THROWS_WITH(zoo::build("moe?layers=1&hidden=16&heads=2&kv_heads=0&seq=4&mtp=3"), contains("mtp=3") && contains("seq=4"));
  CHECK_THROWS_WITH(zoo::build("vit?image=100"), contains("image=100") && contains("patch=16"));
  CHECK_THROWS_WITH(zoo::build("unet2d?image=100"), contains("multiple of 16"));
  CHECK_THROWS_AS(zoo::build("resnet18", 0), BadInput);
  CHECK(zoo::parse("llama?seq=1048576").values.at("seq") == 1 << 20);  // a context of 1M
  CHECK_THROWS_WITH(zoo::parse("gpt?seq=20000000"), contains("seq=20000000 is outside 1 to 16777216"));
  // every factor is in its range, their product is not a size
  CHECK_THROWS_AS(zoo::build("gpt?batch=1000000000&seq=1000000&vocab=10000000"), BadInput);
}

TEST_CASE("the batch asked for stands over the reference's") {
  const Graph graph = zoo::build("zoo:resnet18?batch=3&image=32", 5);
  CHECK(graph[graph.inputs()[0]].type.shape == Shape{5, 3, 32, 32});
}

TEST_CASE("every row's defaults lie in its ranges") {
  for (const zoo::ZooRow& row : zoo::zoo_table()) {
    for (const zoo::ZooParameter& p : row.parameters) {
      INFO(row.name << " " << p.name);
      CHECK(p.otherwise >= p.least);
      CHECK(p.otherwise <= p.most);
      CHECK_FALSE(p.description.empty());
    }
  }
}
