// Whose measurements they are, and for whom else they speak.
#include "costmodel/measured_device.hpp"

#include "platforms/devices.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

using platforms::DeviceKind;

DeviceIdentity measured(std::map<std::string, std::string> items) { return identity_of(MachineContext{std::move(items)}); }
DeviceIdentity gpu(const std::string& name) { return measured({{"cpu", "AMD EPYC"}, {"gpu", name}}); }
DeviceIdentity cpu(const std::string& name) { return measured({{"cpu", name}}); }
DeviceIdentity known(const std::string& name) { return identity_of(platforms::load_device(name)); }

platforms::Device called(const std::string& name, DeviceKind kind) {
  platforms::Device device;
  device.name = name;
  device.kind = kind;
  return device;
}

TEST_CASE("a context names the GPU before the processor of its host, and not which of several it was") {
  CHECK(gpu("NVIDIA H200 (cuda:3)").text() == "NVIDIA H200");
  CHECK(gpu("NVIDIA H200 (cuda:3)").kind == DeviceKind::Gpu);
  CHECK(cpu("AMD EPYC").kind == DeviceKind::Cpu);
  CHECK_FALSE(measured({{"host", "here"}}).kind.has_value());
  CHECK(DeviceIdentity{DeviceKind::Gpu, ""}.text() == "a GPU");
  // The "core" that calibrate calls its devices is no make.
  CHECK(identity_of(called("core", DeviceKind::Cpu)).text() == "a processor");
}

TEST_CASE("measurements of one kind of device are foreign to another, and those of a GPU to other GPUs") {
  for (const auto& other : {known("A100-SXM4-80GB"), known("TPUv4-32GB"), identity_of(called("mine", DeviceKind::Gpu))})
    CHECK(likeness(cpu("AMD EPYC"), other) == Likeness::Foreign);
  for (const auto& other : {known("Xeon-Gold-6248"), identity_of(called("core", DeviceKind::Cpu)), known("H100-SXM5-80GB")})
    CHECK(likeness(gpu("NVIDIA H200 (cuda:0)"), other) == Likeness::Foreign);
  CHECK(likeness(gpu("NVIDIA A100-SXM4-40GB"), known("A100-SXM4-80GB")) == Likeness::Foreign);  // its memory is slower
}

TEST_CASE("a device is the same under its names, and under those of what is as quick") {
  CHECK(likeness(gpu("NVIDIA H200 (cuda:0)"), known("H200-SXM5-141GB")) == Likeness::Same);
  CHECK(likeness(gpu("NVIDIA H100 80GB HBM3 (cuda:0)"), known("H100-SXM5-80GB")) == Likeness::Same);
  CHECK(likeness(gpu("NVIDIA A100-SXM4-80GB"), known("A800-SXM4-80GB")) == Likeness::Same);
  CHECK(likeness(gpu("Tesla V100-SXM2-32GB"), known("V100-SXM2-16GB")) == Likeness::Same);
  CHECK(likeness(cpu("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"), known("Xeon-Gold-6248")) == Likeness::Same);
  CHECK(likeness(cpu("Babbage Analytical Engine"), cpu("Babbage Analytical Engine")) == Likeness::Same);
}

TEST_CASE("other processors are akin, and what does not say what it is may be anything") {
  CHECK(likeness(cpu("AMD EPYC 7742 64-Core Processor"), known("Xeon-Gold-6248")) == Likeness::Akin);
  CHECK(likeness(cpu("AMD EPYC"), cpu("Babbage Analytical Engine")) == Likeness::Akin);
  CHECK(likeness(cpu("AMD EPYC"), identity_of(called("core", DeviceKind::Cpu))) == Likeness::NotSaid);
  CHECK(likeness(gpu("NVIDIA H200"), identity_of(called("mine", DeviceKind::Gpu))) == Likeness::NotSaid);
  CHECK(likeness(measured({}), known("A100-SXM4-80GB")) == Likeness::NotSaid);
}

}  // namespace
}  // namespace rehearsal::costmodel
