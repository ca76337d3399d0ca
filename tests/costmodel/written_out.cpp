// What the cost model says of kernels, collectives and power on known devices, written out to be read (tests/costmodel/written_out/;
// docs/testing.md). With the published constants: a new fit shows here as a change of these files.
#include "tests/written_out.hpp"

#include <cstdio>

#include "costmodel/accelerator.hpp"
#include "costmodel/attention_kernels.hpp"
#include "costmodel/collective_library.hpp"
#include "costmodel/cost_model.hpp"
#include "costmodel/matmul_tiles.hpp"
#include "costmodel/power.hpp"
#include "costmodel/product_kernels.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"

namespace rehearsal::costmodel {
namespace {

template <class... Values>
std::string printed(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// Lines do not end in blanks.
void check_file(const char* file, const std::string& text) {
  std::string trimmed, line;
  for (std::istringstream lines(text); std::getline(lines, line);) trimmed += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  test::check_written_out(std::string(REHEARSAL_COSTMODEL_WRITTEN_OUT) + "/" + file, trimmed);
}

std::string written_products() {
  std::string text =
      "FLOPs of the time that a product occupies a device, over those that it computes: m x n x k, products at a time. Dense on 108, 132 "
      "and\n"
      "16 multiprocessors; with short loops on 108; dense on 108 where small tiles cost a quarter of their penalty.\n";
  text += "                                        108          132           16        short      quarter\n";
  for (const auto& s : {MatmulShape{4096, 4096, 4096, 1},
                        {8192, 768, 768, 1},
                        {8192, 3072, 768, 1},
                        {8192, 50257, 768, 1},
                        {768, 768, 8192, 1},
                        {64, 64, 65536, 1},
                        {300, 200, 100000, 1},
                        {1, 1, 1, 1},
                        {1, 4096, 4096, 1},
                        {16, 4096, 1024, 1},
                        {33, 65, 129, 1},
                        {127, 129, 511, 7},
                        {128, 128, 512, 108},
                        {128, 128, 512, 432},
                        {128, 64, 64, 96},
                        {512, 512, 64, 384},
                        {2048, 16, 2048, 8},
                        {255, 257, 1000, 3}}) {
    const double exact = 2 * s.m * s.n * s.k * s.batch;
    text += printed("%-31s %11.6g  %11.6g  %11.6g  %11.6g  %11.6g\n", printed("%g x %g x %g, %g", s.m, s.n, s.k, s.batch).c_str(),
                    quantised_flops(s, 108, kDenseLoopOverhead) / exact, quantised_flops(s, 132, kDenseLoopOverhead) / exact,
                    quantised_flops(s, 16, kDenseLoopOverhead) / exact, quantised_flops(s, 108, kShortLoopOverhead) / exact,
                    quantised_flops(s, 108, kDenseLoopOverhead, 0.25) / exact);
  }
  return text;
}

std::string written_attention() {
  std::string text =
      "\nFLOPs of the time that fused attention occupies a device, over those of its two products: heads of all samples, queries, keys, "
      "the\n"
      "keys that a query sees in the mean, elements of a query and of a value. By the kernels of generations, on 108 and 132 units.\n";
  const char* generations[] = {"ampere", "hopper", "blackwell", "ada", "cdna3"};
  text += "                                  ";
  for (const char* g : generations) text += printed(" %-19s", g);
  text += "\n";
  for (const auto& s : {AttentionShape{128, 4096, 4096, 2048, 256},
                        {128, 4096, 4096, 4096, 256},
                        {16, 512, 512, 256, 128},
                        {1, 100, 200, 200, 128},
                        {1000, 77, 77, 77, 128},
                        {64, 1, 4096, 4096, 256},
                        {32, 1024, 8192, 512, 160}}) {
    text += printed("%-34s", printed("%g, %g, %g, %g, %g", s.heads, s.queries, s.keys, s.pairs, s.width).c_str());
    for (const char* g : generations) {
      const double exact = 2 * s.heads * s.queries * s.pairs * s.width;
      text += printed(" %-19s", printed("%.6g %.6g", occupied_attention(s, 108, attention_kernels(g)) / exact,
                                        occupied_attention(s, 132, attention_kernels(g)) / exact)
                                    .c_str());
    }
    text += "\n";
  }
  return text;
}

std::string rates_line(const platforms::Device& device, const char* precision, const char* framework, const RateContext& context) {
  const auto p = precision_of(device, precision);
  const auto rates = rates_of(device, p, context, published_constants().values);
  auto text = printed("%-18s %-11s %-11s", device.name.c_str(), precision, framework);
  for (const auto kind : {RateKind::Matmul, RateKind::WideMatmul, RateKind::Convolution, RateKind::Winograd, RateKind::BatchedMatmul,
                          RateKind::FlashAttention, RateKind::CudaCoreMatmul, RateKind::Depthwise})
    text += printed(" %8.5g", rates.flops_per_second[static_cast<std::size_t>(kind)] / 1e12);
  for (const auto kind : {RateKind::Elementwise, RateKind::Depthwise})
    text += printed(" %8.5g", rates.bytes_per_second[static_cast<std::size_t>(kind)] / 1e9);
  return text +
         printed(" %6.4g %6.4g  %g %g %g %g\n", rates.gap * 1e6, rates.host * 1e6, p.fill, p.grouped_share, p.cast_bytes, p.reuse_share);
}

std::string written_rates() {
  std::string text =
      "Rates that kernels reach: TFLOP/s of products, wide products, convolutions, Winograd's, batched products, fused attention, "
      "products\n"
      "off the matrix units and depthwise convolutions; GB/s of element-wise kernels and depthwise convolutions; us between kernels and "
      "us\n"
      "of the host for one; elements that filling a tile costs, share of grouped products, bytes of a cast, penalty of small tiles.\n"
      "device             precision   framework    product     wide     conv Winograd  batched    flash  scalar    depthw   memory  "
      "depthw.  gap    host\n";
  struct Asked {
    const char *device, *precision, *framework;
    LaunchMode launch = LaunchMode::Eager;
    bool image = false;
  };
  for (const auto& [name, precision, framework, launch, image] : {Asked{"K80-12GB", "fp32", "pytorch"},
                                                                  {"P100-SXM2-16GB", "fp32", "tensorflow1", LaunchMode::Static, true},
                                                                  {"P100-SXM2-16GB", "fp16", "pytorch"},
                                                                  {"V100-SXM2-16GB", "fp32", "pytorch"},
                                                                  {"V100-SXM2-16GB", "amp", "tensorflow1", LaunchMode::Static, true},
                                                                  {"T4-16GB", "fp16", "pytorch"},
                                                                  {"A100-SXM4-80GB", "fp32", "pytorch"},
                                                                  {"A100-SXM4-80GB", "tf32", "pytorch"},
                                                                  {"A100-SXM4-80GB", "bf16", "pytorch", LaunchMode::Captured},
                                                                  {"A100-SXM4-80GB", "bf16", "megatron"},
                                                                  {"A100-PCIE-40GB", "bf16", "pytorch"},
                                                                  {"RTX-3090-24GB", "bf16", "pytorch"},
                                                                  {"RTX-4090-24GB", "amp", "pytorch"},
                                                                  {"L40S-48GB", "fp8", "megatron-core"},
                                                                  {"H100-SXM5-80GB", "bf16", "pytorch"},
                                                                  {"H100-SXM5-80GB", "bf16", "megatron-core"},
                                                                  {"H100-SXM5-80GB", "fp8", "megatron-core"},
                                                                  {"H100-SXM5-80GB", "fp8-rowwise", "pytorch"},
                                                                  {"H100-SXM5-80GB", "fp8-block", "megatron-core"},
                                                                  {"H100-PCIE-80GB", "bf16", "pytorch"},
                                                                  {"B200-SXM-180GB", "bf16", "megatron-core"},
                                                                  {"B200-SXM-180GB", "mxfp8", "megatron-core"},
                                                                  {"B200-SXM-180GB", "nvfp4", "megatron-core"},
                                                                  {"B300-SXM-270GB", "nvfp4", "megatron-core"},
                                                                  {"MI300X-192GB", "bf16", "pytorch"},
                                                                  {"MI300X-192GB", "fp8", "pytorch"},
                                                                  {"Gaudi2-96GB", "bf16", "pytorch"},
                                                                  {"EPYC-7742", "fp32", "rehearse"}})
    text += rates_line(platforms::load_device(name), precision, framework, {*find_framework(framework), launch, image});
  return text;
}

KernelCase kernel_of(const char* op, graph::CostFamily family, double flops, double bytes, DType dtype, const char* signature = "",
                     int threads = 1) {
  return {op, "", signature, family, {Flops(flops), Bytes(bytes)}, dtype, threads};
}

std::string written_kernels() {
  using graph::CostFamily;
  std::string text = "Kernels by the datasheet: us, what bounds them, and the standard deviation of the logarithm.\n";
  struct Asked {
    const char *device, *key;
    DType dtype;
    int threads = 1;
  };
  for (const auto& [name, key, dtype, threads] : {Asked{"P100-SXM2-16GB", "f32", DType::F32},
                                                  {"V100-SXM2-16GB", "f16", DType::F16},
                                                  {"A100-SXM4-80GB", "tf32", DType::F32},
                                                  {"A100-SXM4-80GB", "bf16", DType::BF16},
                                                  {"A100-SXM4-80GB", "bf16", DType::F32},
                                                  {"H100-SXM5-80GB", "fp8", DType::BF16},
                                                  {"MI300X-192GB", "bf16", DType::BF16},
                                                  {"EPYC-7742", "f32", DType::F32, 16},
                                                  {"EPYC-7742", "f64", DType::F64, 128}}) {
    const CostModel model(platforms::load_device(name), {}, key);
    text += printed("\n%s, %s in a run of %s, %d threads\n", name, std::string(rehearsal::name(dtype)).c_str(), key, threads);
    const auto odd = "|" + std::string(rehearsal::name(dtype)) + "[512,770]|" + std::string(rehearsal::name(dtype)) + "[770,50257]>";
    for (const auto& [title, kernel] :
         {std::pair{"large product", kernel_of("MatMul", CostFamily::MatMul, 1e12, 1e9, dtype, "", threads)},
          {"product of odd rows", kernel_of("Gemm", CostFamily::MatMul, 1e12, 1e9, dtype, odd.c_str(), threads)},
          {"thin product", kernel_of("MatMul", CostFamily::MatMul, 1e9, 1e9, dtype, "", threads)},
          {"convolution", kernel_of("Conv", CostFamily::Convolution, 1e11, 1e8, dtype, "", threads)},
          {"normalization", kernel_of("LayerNormalization", CostFamily::Normalization, 1e9, 4e8, dtype, "", threads)},
          {"gather", kernel_of("Gather", CostFamily::Gather, 0, 1e8, dtype, "", threads)},
          {"update", kernel_of("Adam", CostFamily::Optimizer, 1e9, 2e9, dtype, "", threads)},
          {"tiny addition", kernel_of("Add", CostFamily::Elementwise, 10, 100, dtype, "", threads)},
          {"view", kernel_of("Reshape", CostFamily::View, 0, 0, dtype, "", threads)},
          {"eigenvectors", kernel_of("Eigen", CostFamily::Decomposition, 1e9, 1e6, dtype, "", threads)}}) {
      const auto e = model.kernel(kernel);
      text += printed("  %-20s %13.6g  %-16s %.6g\n", title, e.seconds.value() * 1e6,
                      std::string(rehearsal::costmodel::name(e.mechanism)).c_str(), e.log_error);
    }
    const auto copy = model.host_copy(Bytes(1e8));
    text += printed("  %-20s %13.6g  %-16s %.6g\n", "copy to the host", copy.seconds.value() * 1e6,
                    std::string(rehearsal::costmodel::name(copy.mechanism)).c_str(), copy.log_error);
    text += printed("  %-20s %13.6g  GB/s\n", "additions of messages", model.reduction_rate().value() / 1e9);
  }
  return text;
}

std::string library_line(const CollectiveLibrary& library, CollectiveKind kind, Group group, LibraryRelease release) {
  std::string text;
  for (const double bytes : {4096.0, 1e6, 64e6, 4e9}) {
    const auto t = library.library(kind, bytes, group, published_constants().values, release);
    text += printed(" %-23s",
                    printed("%s %s %.5g", std::string(t.algorithm).c_str(), std::string(t.protocol).c_str(), t.seconds * 1e6).c_str());
  }
  return text;
}

std::string written_library() {
  std::string text = "What NCCL or RCCL takes for 4 kB, 1 MB, 64 MB and 4 GB, and us: ranks, of which so many on a node.\n";
  struct Asked {
    const char* platform;
    std::vector<Group> groups;
    LibraryRelease release = kNewestRelease;
  };
  for (const auto& [name, groups, release] : {Asked{"dgx1-v100", {{2, 2}, {5, 5}, {8, 8}, {16, 8}}},
                                              {"dgx-a100", {{8, 8}, {16, 8}, {64, 8}, {64, 1}}},
                                              {"dgx-a100", {{16, 8}, {64, 1}}, {2, 12}},
                                              {"dgx-h100", {{4, 4}, {8, 8}, {64, 8}}},
                                              {"dgx-h100", {{8, 8}, {64, 8}}, {2, 16}},
                                              {"gb200-nvl72", {{72, 72}, {144, 72}}},
                                              {"alps-gh200", {{4, 4}, {32, 4}}},
                                              {"mi300x-8x", {{3, 3}, {8, 8}}},
                                              {"l40s-4x", {{2, 2}, {4, 4}}},
                                              {"v100-pcie-4x-10gbe", {{4, 4}, {16, 4}}}}) {
    const CollectiveLibrary library(platforms::load(name));
    text += printed("\n%s, release %d.%d\n", name, release.major, release.minor);
    for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::AllToAll, CollectiveKind::Broadcast})
      for (const auto group : groups)
        text += printed("  %-10s %3d/%-2d", std::string(rehearsal::costmodel::name(kind)).c_str(), group.ranks, group.per_node) +
                library_line(library, kind, group, release) + "\n";
  }
  return text;
}

std::string written_in_steps() {
  std::string text =
      "\nIn a training step: us of 4 kB and of 256 MB for an all-reduce, an all-gather and an all-to-all; of sends of 16 MB inside a node "
      "and\n"
      "between nodes; GB/s of a ring inside, and of a device's share of the cards.\n";
  const auto& c = published_constants().values;
  for (const char* name : {"dgx1-v100", "dgx2", "dgx-a100", "jean-zay-a100", "dgx-h100", "gb200-nvl72", "alps-gh200", "mi300x-8x",
                           "frontier", "p40-8x", "aws-p4d", "v100-pcie-4x-10gbe", "tpu-v4-pod"}) {
    const auto platform = platforms::load(name);
    const CollectiveLibrary library(platform);
    const int devices = library.devices_per_node();
    for (const int nodes : {1, 4}) {
      const Group group{devices * nodes, devices};
      if (group.ranks < 2 || (nodes > 1 && platform.topology.kind == "single")) continue;
      text += printed("%-20s %3d ranks", name, group.ranks);
      for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::AllToAll})
        for (const double bytes : {4096.0, 256e6}) text += printed(" %9.6g", library.seconds(kind, bytes, group, c) * 1e6);
      if (nodes == 1)
        text += printed("  send %.6g; ring %.6g GB/s", library.send(16e6, false, c) * 1e6, library.inside_rate(devices, c) / 1e9);
      if (nodes > 1)
        text += printed("  send %.6g; card %.6g GB/s", library.send(16e6, true, c, {1, nodes}) * 1e6, library.card_rate(c) / 1e9);
      text += "\n";
    }
  }
  return text;
}

std::string written_power() {
  std::string text =
      "Watts of boards busy with arithmetic and memory for such shares of the time, and by how much a limit slows them: none, seven "
      "tenths\n"
      "and four tenths of their own.\n";
  const auto& c = published_constants().values;
  for (const char* name : {"P100-SXM2-16GB", "V100-SXM2-16GB", "A40-48GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "RTX-4090-24GB"}) {
    const auto device = platforms::load_device(name);
    for (const auto& activity : {Activity{0, 0}, {0.3, 0.5}, {0.9, 0.4}}) {
      text += printed("%-16s %.1f %.1f:", name, activity.matrix, activity.memory);
      for (const double share : {0.0, 0.7, 0.4}) {
        const auto power = device_power(device, activity, share * device.busy_power.value.value(), c);
        text += printed("  %8.3f W x %.5f%s", power.watts, power.slowdown, power.at_least ? " at least" : "");
      }
      text += "\n";
    }
    text += printed("%-16s rests at %.3f W; 8 in a node at their most %.1f W\n", name, resting_power(device),
                    node_power(device.busy_power.value.value(), 8, c));
  }
  return text;
}

TEST_CASE("work of products and attention is what is written out") { check_file("work.txt", written_products() + written_attention()); }

TEST_CASE("rates of devices are those that are written out") { check_file("rates.txt", written_rates()); }

TEST_CASE("times of kernels are those that are written out") { check_file("kernels.txt", written_kernels()); }

TEST_CASE("collectives of libraries are those that are written out") { check_file("library.txt", written_library() + written_in_steps()); }

TEST_CASE("what boards draw is what is written out") { check_file("power.txt", written_power()); }

}  // namespace
}  // namespace rehearsal::costmodel
