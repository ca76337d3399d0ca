// How wide an interval is, by what was published of runs like the one that is asked for.

#include "costmodel/evidence.hpp"

#include <cmath>

#include "costmodel/precision.hpp"
#include "platforms/devices.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

RunTraits run_of(const char* device, const char* framework, const char* precision, const char* kind) {
  RunTraits traits;
  traits.names = {device, framework, precision, kind};
  return traits;
}

SeenKind seen(RunTraits traits, double devices, double parameters, int times, double error) {
  traits.devices = devices;
  traits.parameters = parameters;
  return {std::move(traits), times, error};
}

/// Eight runs of decoders on chip A, forty of image networks on chip B.
FittedEvidence two_kinds() {
  FittedEvidence e;
  e.log_factor = {{"default", 0.4}, {"step", 0.3}};
  e.kinds = {seen(run_of("A", "torch", "16-bit", "decoder"), 64, 1e9, 8, 0.1),
             seen(run_of("B", "jax", "fp8", "image network"), 8, 1e8, 40, 0.2)};
  e.level = 0.8;
  e.widening = {2, 1.5, 1.2, 1.44, 1.25, 1.1};
  return e;
}

/// Of a group of 0.3 that counts eight times, and runs whose errors of 0.1 and 0.2 count so often: 90 % are within 1.6449 times these.
double drawn(double decoders, double images) {
  return std::sqrt((8 * 0.09 + decoders * 0.16449 * 0.16449 + images * 0.32897 * 0.32897) / (8 + decoders + images));
}

TEST_CASE("an interval is drawn to what runs like it were off by, and is wider where none is like it") {
  const auto e = two_kinds();
  const auto width = [&](const RunTraits& asked) { return e.half_width("step", asked); };
  // Eight times like it; those of another framework say nothing.
  CHECK(width(run_of("A", "torch", "16-bit", "decoder")) == Approx(0.8 * drawn(8, 0)));
  // Of a new device the decoders differ in one name, 8 / 4 = 2, and it is twice as wide.
  CHECK(width(run_of("C", "torch", "16-bit", "decoder")) == Approx(0.8 * 2 * drawn(2, 0)));
  CHECK(width(run_of("C", "torch", "16-bit", "mixer")) == Approx(0.8 * 2 * 1.44 * drawn(0.5, 0)));
  CHECK(width(run_of("A", "paddle", "16-bit", "decoder")) == Approx(0.8 * 1.5 * 0.3));
  // Chip B is known, of image networks: half as much in the logarithm, sqrt(2). From these three names are away, 16 / 4^3 = 1/4 and
  // sqrt(1.5 · 1.2 · 1.44) = 1.61, which is further.
  CHECK(width(run_of("B", "torch", "16-bit", "decoder")) == Approx(0.8 * std::sqrt(2) * drawn(2, 0)));
  // Of forty no more than 16 count, and a quarter of these where the kind is another: sqrt(1.44) = 1.2 times as wide.
  CHECK(width(run_of("B", "jax", "fp8", "decoder")) == Approx(0.8 * 1.2 * drawn(0, 4)));
  CHECK(FittedEvidence(e).half_width("step", run_of("", "torch", "16-bit", "decoder")) ==
        Approx(width(run_of("C", "torch", "16-bit", "decoder"))));
  auto alone = e;
  alone.kinds.clear();
  CHECK(alone.half_width("step", run_of("A", "torch", "16-bit", "decoder")) == 0.3);
}

TEST_CASE("an interval is wider for more than twice the size of any run of the kind, and for a framework that is not known") {
  const auto e = two_kinds();
  auto asked = run_of("A", "torch", "16-bit", "decoder");
  const double known = e.half_width("step", asked);
  asked.devices = 128;
  CHECK(e.half_width("step", asked) == known);
  asked.devices = 129;
  CHECK(e.half_width("step", asked) == Approx(1.25 * known));
  asked.parameters = 3e9;
  CHECK(e.half_width("step", asked) == Approx(1.25 * 1.1 * known));
  // An image network's largest run had eight devices; of a new kind the largest of all counts.
  auto images = run_of("B", "jax", "fp8", "image network");
  images.devices = 64;
  CHECK(e.new_in(images) == std::vector<std::string>{"64 devices: published are 8 at most"});
  images[Novelty::Kind] = "mixer";
  CHECK(e.new_in(images) == std::vector<std::string>{"kind mixer: no published time"});
  asked = run_of("A", "torch", "16-bit", "decoder");
  asked.framework_assumed = true;
  CHECK(e.half_width("step", asked) == Approx(1.5 * known));
}

TEST_CASE("what is new about a question is said") {
  const auto e = two_kinds();
  CHECK(e.new_in(run_of("A", "torch", "16-bit", "decoder")).empty());
  CHECK(e.new_in(run_of("C", "torch", "fp4", "decoder")) ==
        std::vector<std::string>{"device C: no published time", "precision fp4: no published time"});
  CHECK(e.new_in(run_of("B", "torch", "16-bit", "decoder")) ==
        std::vector<std::string>{"decoder, 16-bit, by torch on B: each is known, not together; nearest: decoder, 16-bit, by torch on A"});
  auto large = run_of("A", "torch", "16-bit", "decoder");
  large.parameters = 405e9;
  CHECK(e.new_in(large) == std::vector<std::string>{"405 billion parameters: published are 1 billion at most"});
  CHECK(FittedEvidence().new_in(large).empty());  // nothing is known of anything
  // What nobody said is not known, whatever it is taken for.
  CHECK(e.new_in(run_of("", "torch", "16-bit", "decoder")) == std::vector<std::string>{"device unknown"});
  auto assumed = run_of("A", "torch", "16-bit", "decoder");
  assumed.framework_assumed = true;
  CHECK(e.new_in(assumed) == std::vector<std::string>{"framework unknown, taken for torch"});
}

TEST_CASE("other quantities are wider for a device or framework that nobody published a run of") {
  FittedEvidence e;
  e.log_factor = {{"default", 0.2}, {"memory", 0.1}};
  e.devices = {"A"};
  e.frameworks = {"torch"};
  platforms::Device chip;
  chip.name = "A";
  CHECK(e.of("memory") == 0.1);
  CHECK(e.of("another") == 0.2);
  CHECK(e.widening_of(chip) == 1);
  chip.name = "C";
  CHECK(e.widening_of(chip) == 1.5);
  CHECK(e.widening_of("torch") == 1);
  CHECK(e.widening_of("mxnet") == 1.3);
  CHECK(FittedEvidence().widening_of("mxnet") == 1);  // nothing is said of frameworks
}

TEST_CASE("published runs are told apart by how narrow their numbers are, and how these are scaled") {
  const auto on = [](const char* device, const char* text) { return precision_class(precision_of(platforms::load_device(device), text)); };
  CHECK(on("V100-SXM2-16GB", "fp32") == "32-bit");
  CHECK(on("A100-SXM4-80GB", "tf32") == "32-bit");
  CHECK(on("A100-SXM4-80GB", "bf16") == "16-bit");
  CHECK(on("H100-SXM5-80GB", "fp8") == "fp8");
  CHECK(on("H100-SXM5-80GB", "fp8-rowwise") == "fp8-rowwise");
  CHECK(on("H100-SXM5-80GB", "fp8-block") == "fp8-block");
  CHECK(on("B200-SXM-180GB", "mxfp8") == "mxfp8");
  CHECK(on("B200-SXM-180GB", "nvfp4") == "fp4");
}

}  // namespace
}  // namespace rehearsal::costmodel
