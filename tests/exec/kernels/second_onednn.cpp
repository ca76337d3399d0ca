// Two versions of oneDNN in one process. With REHEARSAL_ONEDNN_MODULE, which CMake sets for the tests named second_onednn: one of another
// version, or the first once more (rehearsal_onednn_double); also how fast.cpp runs with them, which compares all kernels of both.

#include "exec/host/second_onednn.hpp"

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/error.hpp"
#include "exec/bench/cases.hpp"
#include "exec/bench/measured.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/host/fast.hpp"
#include "exec/kernels/kernel_tables.hpp"
#include "exec/kernels/onednn/families.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

const char* module_to_test() { return std::getenv("REHEARSAL_ONEDNN_MODULE"); }

/// "onednn3.2:matmul"
std::string of_second(const std::string& kernel) {
  const auto& version = second_onednn().version;
  return "onednn" + version.substr(0, version.rfind('.')) + ':' + kernel;
}

bench::Case product(DType type, std::int64_t side) {
  return {"MatMul", {}, {graph::TensorType{type, {side, side}}, graph::TensorType{type, {side, side}}}};
}

std::vector<std::string> names_of(const std::vector<plan::KernelOffer>& offers) {
  std::vector<std::string> names;
  for (const auto& offer : offers) names.push_back(offer.implementation);
  return names;
}

/// Files of OpenMP that are loaded: GCC's, Intel's or LLVM's.
std::set<std::string> threads_by() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    for (const auto* runtime : {"/libgomp.", "/libiomp5.", "/libomp."})
      if (line.find(runtime) != std::string::npos) files.insert(line.substr(line.find('/')));
  return files;
}

}  // namespace

TEST_CASE("two versions of oneDNN are each their own, and both are named where kernels are timed", "[onednn]") {
  if (module_to_test() == nullptr) return;
  const auto& second = second_onednn();
  INFO(second.trouble);
  REQUIRE(second.trouble.empty());
  REQUIRE(!second.version.empty());
  const auto first = onednn::library_kernels().version;
  // Both asked their library: were its functions found in the other one, they would say the same.
  const bool is_double = std::string(module_to_test()).find("double") != std::string::npos;
  CHECK((second.version == first) == is_double);
  CHECK(kernel_libraries() == "oneDNN " + first + " and " + second.version);
  CHECK(second.rows.size() == onednn::library_kernels().rows.size());
}

TEST_CASE("no rule takes a kernel of the second oneDNN, and a choice does", "[onednn]") {
  if (module_to_test() == nullptr) return;
  const auto c = product(DType::F32, 32);
  const bench::CaseNode node(c);
  const auto matmul = of_second("matmul");
  CpuBackend backend("auto");
  CHECK(names_of(backend.offers(node.on(1))) == std::vector<std::string>{"onednn:matmul", matmul});
  CHECK(names_of(CpuBackend("reference").offers(node.on(1))).size() == 1);
  costmodel::KernelChoices choices{{"", "", kernel_libraries()}, {}};
  choices.nodes.push_back({node_key(node.on(1)), matmul, {{"onednn:matmul", Seconds(2)}, {matmul, Seconds(1)}}});
  backend.choose(choices, "file");
  CHECK(backend.offer(node.on(1)).implementation == matmul);
  CHECK(backend.offer(bench::CaseNode(product(DType::F32, 33)).on(1)).implementation == "onednn:matmul");
  // f16 has no units in either: both compute it in f32.
  const auto narrow = names_of(CpuBackend("auto").offers(bench::CaseNode(product(DType::F16, 32)).on(1)));
  CHECK(narrow == std::vector<std::string>{"widened:onednn:matmul", "widened:" + matmul});
}

TEST_CASE("what the second oneDNN refuses says so", "[onednn]") {
  if (module_to_test() == nullptr) return;
  const bench::CaseNode node({"ConvGradWeight",
                              {{"kernel_shape", std::vector<std::int64_t>{1, 1}}},
                              {graph::TensorType{DType::F16, {2, 16, 4, 4}}, graph::TensorType{DType::F16, {2, 16, 4, 4}}}});
  const CpuBackend backend("auto");
  CHECK_THAT(backend.offers(node.on(1)).front().why, contains(of_second("convolution") + ": f16 "));
  CHECK_THAT(backend.offer(node.on(1)).why, !contains(of_second("convolution")));  // nobody asked it
  const auto refused = of_second("magic");
  const std::vector<plan::Format> plain(2, plan::Format::Plain);
  CHECK_THROWS_WITH(backend.make(refused, {node.on(1).schema, node.on(1).attributes, node.on(1).inputs, node.on(1).outputs, plain,
                                           std::span(plain).first(1), 1}),
                    contains("ConvGradWeight cannot run as " + refused + ": unknown implementation"));
}

TEST_CASE("both oneDNNs compute with the same threads", "[onednn]") {
  if (module_to_test() == nullptr) return;
  const CpuBackend backend("auto");
  auto c = product(DType::F32, 256);
  for (const auto& implementation : {std::string("onednn:matmul"), of_second("matmul")}) {
    c.implementation = implementation;
    bench::Measured kernel(c, backend, 2);
    kernel.run();
    CHECK(kernel.kernel().implementation == implementation);
  }
  CHECK(threads_by().size() == 1);  // another file would be another pool of threads
}

TEST_CASE("no kernel gets a tensor in the layout of another library") {
  const KernelRow packing{"Add", "x:packs", [](const KernelRequest&, std::string&) { return std::unique_ptr<Kernel>(); },
                          [](const plan::LocalNode&, std::vector<plan::Format>&, std::vector<plan::Format>& outputs) {
                            outputs[0] = plan::Format::Packed;
                            return true;
                          }};
  KernelTables tables;
  tables.add({&packing, 1});
  const bench::CaseNode node({"Add", {}, {graph::TensorType{DType::F32, {8}}, graph::TensorType{DType::F32, {8}}}});
  std::string reason;
  CHECK_THROWS_WITH(tables.offer(node.on(1), reason), contains("x:packs") && contains("a layout of its own"));
}
