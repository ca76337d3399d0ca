// cuDNN's own answers about GPUs that are not here: for every convolution of the zoo's image networks the kernels that a training would use
// are made, from descriptions of the catalogue's GPUs. Nothing is computed.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/kernels/compute_backend.hpp"
#include "exec/kernels/cuda/device_properties.hpp"
#include "exec/kernels/kernel_tables.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "platforms/devices.hpp"
#include "tests/catch.hpp"

extern "C" rehearsal::exec::ComputeBackend* rehearsal_make_described_backend(const rehearsal::platforms::Device&, bool tf32);

namespace rehearsal::exec {
namespace {

constexpr std::string_view kGpus[] = {"V100-SXM2-16GB", "T4-16GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB"};

std::unique_ptr<ComputeBackend> described(std::string_view gpu, bool tf32 = false) {
  return std::unique_ptr<ComputeBackend>(rehearsal_make_described_backend(platforms::load_device(gpu), tf32));
}

bool is_convolution(std::string_view op) {
  return op == "Conv" || op == "ConvTranspose" || op == "ConvGradInput" || op == "ConvGradWeight";
}

/// One convolution of a training step.
struct ConvolutionCase {
  const graph::OpSchema* schema = nullptr;
  graph::Attributes attributes;
  std::vector<std::optional<graph::TensorType>> inputs, outputs;
  std::string network;

  [[nodiscard]] ConvolutionCase in(DType type) const {
    auto other = *this;
    for (auto* types : {&other.inputs, &other.outputs})
      for (auto& t : *types)
        if (t) t->dtype = type;
    return other;
  }
  [[nodiscard]] plan::LocalNode node() const {
    static const std::vector<plan::Format> kPlain(3, plan::Format::Plain);
    return {*schema, attributes, inputs, outputs, std::span(kPlain).first(inputs.size())};
  }
  [[nodiscard]] std::string text() const { return network + " " + signature_of(node()); }
};

/// Of all image networks of the zoo, each different one once.
const std::vector<ConvolutionCase>& convolutions_of_zoo() {
  static const std::vector<ConvolutionCase> kCases = [] {
    std::map<std::string, ConvolutionCase> cases;
    for (const auto& row : graph::zoo::zoo_table()) {
      const auto model = graph::zoo::build(row.name, 16);
      if (std::ranges::none_of(model.nodes(), [](const auto& n) { return is_convolution(graph::schema(n).name); })) continue;
      const auto training = graph::build_training_graph(graph::with_initial_values(model), {});
      for (const auto& n : training.graph.nodes()) {
        if (!is_convolution(graph::schema(n).name)) continue;
        const graph::NodeTypes types(training.graph, n);
        const auto view = types.view();
        ConvolutionCase c{&graph::schema(n),
                          n.attributes,
                          {view.inputs.begin(), view.inputs.end()},
                          {view.outputs.begin(), view.outputs.end()},
                          std::string(row.name)};
        cases.emplace(signature_of(c.node()), std::move(c));
      }
    }
    std::vector<ConvolutionCase> list;
    for (auto& [signature, c] : cases) list.push_back(std::move(c));
    return list;
  }();
  return kCases;
}

/// Every so many of them are asked about; REHEARSAL_ALL_PLANS=1: all, for some minutes.
std::size_t step_of_cases() { return std::getenv("REHEARSAL_ALL_PLANS") != nullptr ? 1 : 23; }

struct Asked {
  std::size_t asked = 0;
  std::size_t channels_last = 0;     ///< of them
  std::vector<std::string> refused;  ///< by cuDNN, with its reason
  double most_workspace = 0;
};

Asked ask(const ComputeBackend& backend, DType type, std::size_t first) {
  Asked result;
  const auto& all = convolutions_of_zoo();
  const auto step = step_of_cases();
  for (std::size_t i = first % step; i < all.size(); i += step, ++result.asked) {
    const auto c = all[i].in(type);
    const auto offer = backend.offer(c.node());
    result.channels_last += offer.implementation == "cudnn:convolution-channels-last" ? 1 : 0;
    if (!offer.implementation.starts_with("cudnn:convolution") || !offer.engine.starts_with("eng")) {
      result.refused.push_back(c.text() + ": " + offer.implementation + ": " + offer.why);
      continue;
    }
    result.most_workspace = std::max(result.most_workspace, offer.workspace.value());
  }
  return result;
}

/// 3x3, 64 to 64 channels on images of 56x56, as in ResNet-50.
ConvolutionCase usual_convolution(std::string_view op, DType type) {
  const auto holds = [](const ConvolutionCase& c, const graph::Shape& shape) {
    const auto is = [&](const auto& t) { return t && t->shape == shape; };
    return std::ranges::any_of(c.inputs, is) || std::ranges::any_of(c.outputs, is);
  };
  for (const auto& c : convolutions_of_zoo())
    if (c.schema->name == op && holds(c, {64, 64, 3, 3}) && holds(c, {16, 64, 56, 56})) return c.in(type);
  throw InternalError("ResNet-50 has such a convolution");
}

}  // namespace

TEST_CASE("the zoo has convolutions of every kind to ask about") {
  std::set<std::string_view> ops, networks;
  for (const auto& c : convolutions_of_zoo()) ops.insert(c.schema->name), networks.insert(c.network);
  CHECK(ops.size() == 4);
  CHECK(networks.size() > 50);
  CHECK(convolutions_of_zoo().size() > 4000);
}

TEST_CASE("cuDNN has a plan for every convolution of the zoo on every GPU, in f32 and f16") {
  for (std::size_t g = 0; g < std::size(kGpus); ++g) {
    const auto backend = described(kGpus[g]);
    for (const auto type : {DType::F32, DType::F16}) {
      const auto asked = ask(*backend, type, 2 * g + (type == DType::F16 ? 1 : 0));
      INFO(kGpus[g] << " " << name(type) << ": " << (asked.refused.empty() ? "" : asked.refused.front()));
      CHECK(asked.refused.empty());
      CHECK(asked.asked >= convolutions_of_zoo().size() / step_of_cases());
      CHECK(asked.most_workspace < 16e9);                                        // less than the smallest of them has
      CHECK(asked.channels_last >= (type == DType::F16 ? asked.asked / 2 : 0));  // the others have groups of channels
      CHECK((type == DType::F16 || asked.channels_last == 0));
    }
  }
}

TEST_CASE("bf16 has plans where GPUs compute in it, from compute capability 8.0 on") {
  for (const auto gpu : kGpus) {
    INFO(gpu);
    const auto asked = ask(*described(gpu), DType::BF16, 5);
    const bool computes = platforms::load_device(gpu).compute_capability->value >= 8;
    INFO((asked.refused.empty() ? "" : asked.refused.front()));
    CHECK(asked.refused.empty() == computes);
  }
}

TEST_CASE("what cuDNN refuses runs on the host, with its reason") {
  const auto offer = described("V100-SXM2-16GB")->offer(usual_convolution("Conv", DType::BF16).node());
  CHECK(offer.implementation.starts_with("host:"));
  CHECK_THAT(offer.why, contains("cudnn:convolution: ") && contains("cuDNN"));
  CHECK(offer.engine.empty());
}

TEST_CASE("f32 stays f32 unless tf32 is asked for") {
  const auto engine = [](std::string_view gpu, std::string_view op, bool tf32) {
    return described(gpu, tf32)->offer(usual_convolution(op, DType::F32).node()).engine;
  };
  for (const auto* op : {"Conv", "ConvGradInput", "ConvGradWeight"}) {
    INFO(op);
    // Where there is tf32 cuDNN proposes dozens of engines that round to it before the first that does not.
    CHECK(engine("A100-SXM4-80GB", op, false) != engine("A100-SXM4-80GB", op, true));
    CHECK(engine("H100-SXM5-80GB", op, false) != engine("H100-SXM5-80GB", op, true));
    CHECK(engine("T4-16GB", op, false) == engine("T4-16GB", op, true));
  }
}

TEST_CASE("a signal's and a volume's convolutions have plans, and f64's") {
  const auto backend = described("H100-SXM5-80GB");
  const graph::TensorType signal{DType::F32, {4, 8, 100}}, taps{DType::F32, {16, 8, 5}}, heard{DType::F32, {4, 16, 96}};
  const graph::Attributes none;
  const auto& schema = graph::schema(*graph::find_op("Conv"));
  const std::vector<plan::Format> plain(2, plan::Format::Plain);
  const auto implementation = [&](const graph::TensorType& x, const graph::TensorType& w, const graph::TensorType& y) {
    const std::vector<std::optional<graph::TensorType>> inputs{x, w}, outputs{y};
    return backend->offer({schema, none, inputs, outputs, plain}).implementation;
  };
  CHECK(implementation(signal, taps, heard) == "cudnn:convolution");
  CHECK(implementation({DType::F32, {2, 4, 9, 9, 9}}, {DType::F32, {4, 4, 3, 3, 3}}, {DType::F32, {2, 4, 7, 7, 7}}) == "cudnn:convolution");
  CHECK(implementation({DType::F64, {2, 4, 9, 9}}, {DType::F64, {4, 4, 3, 3}}, {DType::F64, {2, 4, 7, 7}}) == "cudnn:convolution");
}

TEST_CASE("the arena of ResNet-50 holds what the kernels' plans ask for") {
  const auto training = graph::build_training_graph(graph::with_initial_values(graph::zoo::build("resnet50", 32)), {});
  for (const bool tf32 : {false, true}) {
    const auto backend = described("H100-SXM5-80GB", tf32);
    const auto program = plan::lower(training, plan::Plan{}, *backend, {});
    const auto& role = program.role(0);
    int convolutions = 0, with_workspace = 0;
    for (const auto& body : role.bodies)
      for (const auto& i : body.instructions) {
        if (i.kind != plan::InstructionKind::Kernel || i.kernel < 0) continue;
        const auto& info = role.kernels[static_cast<std::size_t>(i.kernel)];
        if (info.implementation != (tf32 ? "cudnn:convolution-tf32" : "cudnn:convolution")) continue;
        ++convolutions;
        // As the executor makes it.
        const auto& node = training.graph[i.node];
        std::vector<std::optional<graph::TensorType>> inputs, outputs;
        const auto type = [&](plan::BufferIndex b) {
          return b == plan::kNoBuffer ? std::nullopt
                                      : std::optional(graph::TensorType{role.buffers[b].dtype, role.buffers[b].shapes.front()});
        };
        std::ranges::transform(i.inputs, std::back_inserter(inputs), type);
        std::ranges::transform(i.outputs, std::back_inserter(outputs), type);
        const auto kernel = backend->make(info.implementation, {plan::schema_of(role, i, node), plan::attributes_of(role, i, node), inputs,
                                                                outputs, info.input_formats, info.output_formats});
        CHECK(kernel->workspace_bytes() == info.workspace_bytes);
        if (info.workspace_bytes == 0) continue;
        ++with_workspace;
        REQUIRE(i.workspace != plan::kNoBuffer);
        const auto& workspace = role.buffers[i.workspace];
        CHECK(workspace.bytes == info.workspace_bytes);
        CHECK(workspace.offset >= 0);
        CHECK(workspace.offset + workspace.bytes <= role.memory.arena_bytes);
      }
    CHECK(convolutions == 53 + 52 + 53);  // the first one's image needs no gradient
    CHECK(with_workspace >= 33);
  }
}

TEST_CASE("a GPU is described with all that cuDNN asks for") {
  const auto properties = nlohmann::json::parse(cuda::device_properties(platforms::load_device("H100-SXM5-80GB")));
  CHECK(properties.size() == 24);
  CHECK(properties.at("deviceVer") == 900);
  CHECK(properties.at("multiProcessorCount") == 132);
  CHECK(properties.at("maxSharedMemoryPerBlockOptin") == 232448);  // 227 KiB
  CHECK(properties.at("l2CacheSize") == 52428800);
  CHECK(properties.at("smClockRateKHz") == 1980000);
  // 3350 GB/s through 5120 bits, two a clock; nvidia-smi shows 2619 MHz.
  CHECK(properties.at("memClockRateKHz") == 2617188);
  const auto t4 = nlohmann::json::parse(cuda::device_properties(platforms::load_device("T4-16GB")));
  CHECK(t4.at("maxThreadsPerSM") == 1024);
  CHECK(t4.at("memClockRateKHz") == 5000000);
  CHECK(t4.at("reservedSharedMemoryPerBlock") == 0);
}

TEST_CASE("what is not known of a device is named") {
  CHECK_THROWS_WITH(cuda::device_properties(platforms::load_device("TPUv4-32GB")),
                    contains("TPUv4-32GB") && contains("no NVIDIA GPU of a known compute capability") && contains("9.0"));
  auto device = platforms::load_device("H100-SXM5-80GB");
  device.l2.reset();
  CHECK_THROWS_WITH(cuda::device_properties(device), contains("l2 is not known"));
  device = platforms::load_device("H100-SXM5-80GB");
  device.compute_capability->value = 13.4;
  CHECK_THROWS_WITH(cuda::device_properties(device), contains("compute capability 13.4") && contains("7.0"));
}

}  // namespace rehearsal::exec
