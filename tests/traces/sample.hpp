#pragma once
// Hand-made traces of two ranks and three instructions: a product and a sum of one layer, and an all-reduce.

#include <string>

#include "tests/platforms/sample.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces::sample {

inline costmodel::KernelCase kernel(std::string op, graph::CostFamily family, double flops, double bytes) {
  costmodel::KernelCase k;
  k.op = std::move(op);
  k.implementation = "ours";
  k.signature = std::to_string(static_cast<long long>(flops)) + "/" + std::to_string(static_cast<long long>(bytes));
  k.family = family;
  k.work = {Flops(flops), Bytes(bytes)};
  return k;
}

inline EventKind computing(const costmodel::KernelCase& k, plan::BodyKind body, std::uint32_t ordinal) {
  EventKind kind;
  kind.identity.body = body;
  kind.identity.node = static_cast<std::int32_t>(ordinal);
  kind.identity.ordinal = ordinal;
  kind.name = k.op + "_" + std::to_string(ordinal);
  kind.kernel = k;
  return kind;
}

inline EventKind all_reduce(std::int64_t bytes, std::uint32_t ordinal) {
  EventKind kind;
  kind.identity.kind = plan::InstructionKind::Collective;
  kind.identity.body = plan::BodyKind::Backward;
  kind.identity.ordinal = ordinal;
  kind.name = "gradients";
  kind.kernel.op = std::string(plan::name(plan::CollectiveKind::AllReduce));
  kind.kernel.implementation = "ring";
  kind.message_bytes = bytes;
  kind.message_ranks = 2;
  return kind;
}

inline Trace empty_trace(std::string kind) {
  Trace t;
  t.kind = std::move(kind);
  t.model = "by hand";
  t.model_hash = "0123";
  t.plan = "dp=2";
  t.batch = 4;
  t.dtype = "f32";
  return t;
}

/// Two CPU devices on one node: 1 TFLOP/s, 1 TB/s, messages of 2 us + bytes / (100 GB/s).
inline platforms::Platform machine() {
  auto platform = platforms::sample::cluster(1, 2, 0, "single", {});
  platform.topology.bandwidth = {};
  platform.topology.latency = {};
  auto& node = platform.nodes.front();
  node.device.kind = platforms::DeviceKind::Cpu;
  node.device.launch_overhead = Seconds(0);
  node.host_cores = 2;
  return platform;
}

}  // namespace rehearsal::traces::sample
