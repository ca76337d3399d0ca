// Which of several kernels runs a node: by a rule, or by what was chosen.

#include "base/error.hpp"
#include "exec/bench/cases.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/host/fast.hpp"
#include "exec/kernels/kernel_tables.hpp"
#include "exec/kernels/native/levels.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/against_reference.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Sizes = std::vector<std::int64_t>;

namespace {

constexpr const char *kTiles = "native:winograd", *kTaps = "onednn:convolution", *kProduct = "onednn:product";

/// Of so many channels, to as many, of 3 x 3 taps over a square.
bench::Case convolution(std::int64_t channels, std::int64_t side, DType type = DType::F32) {
  const graph::TensorType x{type, {4, channels, side, side}}, w{type, {channels, channels, 3, 3}};
  return {"Conv", {{"pads", Sizes(4, 1)}}, {x, w}};
}

/// The gradient of a convolution's weights whose windows are pixels.
bench::Case pixels(DType type) {
  const graph::TensorType x{type, {4, 64, 7, 7}}, y{type, {4, 32, 7, 7}};
  return {"ConvGradWeight", {{"kernel_shape", Sizes{1, 1}}}, {x, y}};
}

costmodel::KernelChoices choices(const bench::Case& c, const std::string& chosen, const std::string& other) {
  const bench::CaseNode node(c);
  costmodel::KernelChoices made{{"", "", kernel_libraries()}, {}};
  made.nodes.push_back({node_key(node.on(1)), chosen, {{other, Seconds(2)}, {chosen, Seconds(1)}}});
  return made;
}

std::vector<std::string> offered(const CpuBackend& backend, const bench::Case& c) {
  const bench::CaseNode node(c);
  std::vector<std::string> names;
  for (const auto& offer : backend.offers(node.on(1))) names.push_back(offer.implementation);
  CHECK(backend.offer(node.on(1)).implementation == names.front());
  return names;
}

/// Of rows that are invented.
class Nothing final : public Kernel {
 public:
  void run(std::span<const TensorView>, std::span<const TensorView>, const RunContext&) override {}
};

std::unique_ptr<Kernel> nothing(const KernelRequest&, std::string&) { return std::make_unique<Nothing>(); }

std::unique_ptr<Kernel> refused(const KernelRequest&, std::string& reason) {
  reason = "it has no units for it";
  return nullptr;
}

bool not_preferred(const plan::LocalNode&, std::string& reason) {
  reason = "it is not expected to be quicker";
  return false;
}

bool has_vectors() { return native::loops().multiply_add_bytes >= 32; }

}  // namespace

TEST_CASE("a backend names every kernel that may be quicker, first the one that it takes") {
  if (!has_vectors()) return;  // without AVX2 there are no tiles
  const CpuBackend backend("onednn");
  CHECK(offered(backend, convolution(64, 56)) == std::vector<std::string>{kTiles, kTaps});
  CHECK(offered(backend, convolution(512, 7)) == std::vector<std::string>{kTaps, kTiles});
  CHECK(offered(backend, convolution(8, 56)) == std::vector<std::string>{kTaps});  // tiles need 16 channels
  CHECK(offered(backend, pixels(DType::F32)) == std::vector<std::string>{kTaps, kProduct});
  CHECK(offered(CpuBackend("reference"), convolution(64, 56)) == std::vector<std::string>{"reference:any"});
  const bench::Case sum{"Add", {}, {graph::TensorType{DType::F32, {8}}, graph::TensorType{DType::F32, {8}}}};
  CHECK(offered(backend, sum).size() == 1);
  CHECK(offered(backend, convolution(64, 56, DType::F64)) == std::vector<std::string>{"reference:any"});
}

TEST_CASE("an offer says why the others were not taken, where none was expected to be quicker, too") {
  const KernelRow rows[] = {{"Add", "x:loops", nothing, nullptr, not_preferred}, {"Add", "x:units", refused}};
  KernelTables tables;
  tables.add(rows);
  const bench::CaseNode node({"Add", {}, {graph::TensorType{DType::F32, {8}}, graph::TensorType{DType::F32, {8}}}});
  std::string reasons;
  const auto offer = tables.offer(node.on(1), reasons);
  REQUIRE(offer.has_value());
  CHECK(offer->implementation == "x:loops");
  CHECK(offer->why == "x:loops: it is not expected to be quicker; x:units: it has no units for it");
  CHECK(reasons == offer->why);
}

TEST_CASE("the kernel of a name is offered without the others") {
  const bench::CaseNode node(pixels(DType::F32));
  const CpuBackend backend("onednn"), reference("reference");
  const auto offers = backend.offers(node.on(1));
  for (const auto& offer : std::span(offers).subspan(1)) {
    const auto named = backend.offer_by(offer.implementation, node.on(1));
    REQUIRE(named.has_value());
    CHECK(named->implementation == offer.implementation);
    CHECK(named->workspace == offer.workspace);
  }
  CHECK_FALSE(backend.offer_by("native:magic", node.on(1)).has_value());
  CHECK_FALSE(reference.offer_by(kProduct, node.on(1)).has_value());
}

TEST_CASE("a choice is followed in both directions, with the memory of the kernel that it names") {
  if (!has_vectors()) return;  // without AVX2 there are no tiles
  for (const auto& [c, chosen, usual] : {std::tuple{convolution(64, 56), kTaps, kTiles}, {convolution(512, 7), kTiles, kTaps}}) {
    CpuBackend backend("auto");
    const bench::CaseNode node(c);
    CHECK(backend.offer(node.on(1)).implementation == usual);
    CHECK(backend.offer(node.on(1)).timed.empty());
    backend.choose(choices(c, chosen, usual), "file");
    const auto offer = backend.offer(node.on(1));
    CHECK(offer.implementation == chosen);
    REQUIRE(offer.timed.size() == 2);
    CHECK(offer.timed[1].implementation == chosen);
    const auto kernel = backend.make(
        chosen, {node.schema(), node.attributes(), node.inputs(), node.outputs(), offer.input_formats, offer.output_formats, 1});
    CHECK(offer.workspace.value() == static_cast<double>(kernel->workspace_bytes()));
    CHECK(offered(backend, c) == std::vector<std::string>{chosen, usual});
    // It is of one thread, and of these sizes.
    CHECK(backend.offer(node.on(2)).implementation == usual);
    CHECK(backend.offer(bench::CaseNode(convolution(256, 14)).on(1)).implementation == kTiles);
  }
}

TEST_CASE("what nobody can choose is refused by name, and left alone where another build made it") {
  const auto c = convolution(64, 56);
  const auto usual = offered(CpuBackend("onednn"), c).front();
  const auto magic = choices(c, "native:magic", usual);
  CpuBackend backend("onednn");
  CHECK_THROWS_WITH(backend.choose(magic, "machine.json: choices"),
                    contains("machine.json: choices") && contains("\"native:magic\" is no kernel of Conv"));
  CHECK_THROWS_AS(backend.choose(magic, "machine.json: choices"), BadInput);
  auto of_other_build = magic;
  of_other_build.home.libraries = "oneDNN 99";
  backend.choose(of_other_build, "machine.json: choices");
  CHECK(offered(backend, c).front() == usual);
  CpuBackend reference("reference");
  reference.choose(magic, "machine.json: choices");  // has nothing to choose
  CHECK(offered(reference, c) == std::vector<std::string>{"reference:any"});
}

TEST_CASE("kernels of 16 bits are chosen beside those that widen") {
  if (!has_vectors()) return;  // without AVX2 there are no tiles
  const auto c = convolution(64, 56, DType::BF16);
  const std::string widened = std::string("widened:") + kTiles;
  CpuBackend backend("onednn");
  const auto names = offered(backend, c);
  REQUIRE(std::ranges::find(names, widened) != names.end());
  const auto other = names.size() > 1 ? names[names.front() == widened ? 1 : 0] : widened;
  for (const auto& wanted : {widened, other}) {
    backend.choose(choices(c, wanted, wanted == other ? widened : other), "file");
    CHECK(offered(backend, c).front() == wanted);
  }
}

TEST_CASE("the gradient of weights of single pixels is the same by a product") {
  Case c{"ConvGradWeight", {{"kernel_shape", Sizes{1, 1}}}, {{4, 64, 7, 7}, {4, 32, 7, 7}}};
  for (const int threads : {1, 3}) {
    (void)compared(c, plan::Format::ChannelsLast, threads, kProduct);
    (void)compared(c, plan::Format::ChannelsLast, threads, kTaps);
  }
}
