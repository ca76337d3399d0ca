// 1-bit Adam (Tang et al., ICML 2021): plans, and values by hand. tests/interop/compressed_gradients.py holds whole trainings to the
// paper's algorithm.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "exec/host/compressors/shared_sums.hpp"
#include "exec/kernels/kernel.hpp"
#include "plan/compressors.hpp"
#include "plan/plan.hpp"
#include "tests/exec/executor/halves.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

constexpr int kSteps = 5, kWhole = 2;  ///< the second moment settles in two of them

}  // namespace

TEST_CASE("moments in a bit each give the same losses under every plan that may compress") {
  const std::string how = ",compression=1bit-adam,exact_steps=" + std::to_string(kWhole),
                    command = std::to_string(kSteps) + " optimizer:adam";
  const std::vector<std::pair<std::string, int>> plans{{"dp=2,overlap=off", 2}, {"dp=2,micro_batch=2", 2}, {"dp=2,pp=2,micro_batch=2", 4}};
  for (const std::string model : {"mlp", "llama"}) {
    const Case plain{model, 8, "dp=2" + how};
    const auto whole = printed_of({plain}, 2, command).at(sample::to_text(plain));
    REQUIRE(whole.size() == kSteps);
    const auto same = [&](const Case& c, int ranks, double tolerance) {
      const auto losses = printed_of({c}, ranks, command).at(sample::to_text(c));
      INFO(sample::to_text(c));
      for (std::size_t step = 0; step < kSteps; ++step) CHECK(std::abs(losses.at(step) / whole[step] - 1) <= tolerance);
    };
    for (const auto& [plan, ranks] : plans) same({model, 8, plan + how}, ranks, 1e-6);
    // The fast kernels, in f32: a sign of what is nearly 0 may be another.
    if (model == "mlp") same({model, 8, "dp=2" + how, "f32"}, 2, 1e-3);
  }
}

TEST_CASE("signs and a scale, and what they leave, by hand") {
  // Of (1, -3, 2, 0) the mean size is 1.5: 1.5, -1.5, 1.5, 1.5 is sent, and -0.5, -1.5, 0.5, -1.5 is left.
  const auto how = plan::parse_compression("1bit-adam");
  const std::vector<std::int64_t> elements{4};
  const auto blocks = plan::shared_blocks(how, elements, DType::F64, 1);
  CHECK(blocks.count == 1);
  CHECK(blocks.block_bytes == 8 + 64);  // a scale, and a bit for each of 512
  const SharedTask task{how.rule, DType::F64, {0, 1}, blocks};
  std::vector<double> x{1, -3, 2, 0}, left(4), sum(4), left_of_sum(512);
  std::vector<std::byte> sent(72), gathered(72);
  write_blocks(task, {0, 4}, {x.data(), left.data()}, sent.data());
  CHECK(left == std::vector<double>{-0.5, -1.5, 0.5, -1.5});
  sum_share(task, elements, {0, sent.data(), left_of_sum.data()}, gathered.data());
  read_sum(task, {0, 4}, gathered.data(), sum.data());
  CHECK(sum == std::vector<double>{1.5, -1.5, 1.5, 1.5});  // of one rank's signs nothing is lost once more
  CHECK(left_of_sum[0] == 0);
}

TEST_CASE("moments travel where Adam takes gradients as they are, and after some steps") {
  const auto refused = [](const std::string& optimizer, const std::string& key, const std::string& why) {
    const Case c{"mlp", 8, "dp=2,compression=1bit-adam" + key};
    CHECK_THROWS_WITH(sample::program_of(c, sample::training_of(c, optimizer)), contains(why));
  };
  refused("adam", "", "use as many steps as it takes to settle: exact_steps=100");
  refused("sgd", ",exact_steps=2", "use --optimizer adam or adamw");
  refused("muon", ",exact_steps=2", "use --optimizer adam or adamw");
  refused("adam", ",exact_steps=2,offload=optimizer", "offload=none");
  const Case c{"mlp", 8, "dp=2,exact_steps=2"};
  CHECK_THROWS_WITH(sample::program_of(c, sample::training_of(c)), contains("exact_steps: is for a compressor"));
}

TEST_CASE("moments in place of gradients move nothing ten times further than Adam could") {
  // beta1 = 0.9: the moment is taken as it comes, 0.5; the second stays 0.04. After one step that it saw, of two, the corrections are
  // 1 - 0.81 = 0.19 and 1 - 0.999 = 0.001: 1 - 0.1 * (0.5 / 0.19) / sqrt(0.04 / 0.001) = 0.9583911. Of a second moment of 0 nothing moves;
  // of 1e-8 the first is held to 10 * 0.1 / sqrt(0.001) * 0.19 * sqrt(1e-8 / 0.001) = 0.019, and the step to 0.1 * 10 * 0.1 / sqrt(0.001),
  // which is 3.162278, but for eps beside the root of 1e-5, which is 0.003.
  const graph::Attributes attributes{{"lr", 0.1}, {"moments_from", std::int64_t{1}}};
  const graph::TensorType three{DType::F64, {3}}, scalar{DType::I64, {}};
  std::vector<double> p{1, 1, 1}, m{0.5, 0.5, 0.5}, first{0.3, 0, 0}, second{0.04, 0, 1e-8};
  std::int64_t step = 2;
  const std::vector<std::optional<graph::TensorType>> inputs{three, three, scalar, three, three}, outputs{three, three, three};
  const std::vector<plan::Format> plain(5, plan::Format::Plain);
  const KernelRequest request{graph::op_table()[graph::op("AdamUpdate")], attributes, inputs, outputs, plain, std::span(plain).first(3), 1};
  std::string reason;
  const auto rows = reference_kernels();
  const auto row = std::ranges::find(rows, std::string_view("AdamUpdate"), &KernelRow::op);
  const auto kernel = row->make(request, reason);
  const auto view = [](void* data, const graph::TensorType& type) {
    TensorView v;
    v.data = data;
    v.type = &type;
    return v;
  };
  const std::vector<TensorView> in{view(p.data(), three), view(m.data(), three), view(&step, scalar), view(first.data(), three),
                                   view(second.data(), three)},
      out{view(p.data(), three), view(first.data(), three), view(second.data(), three)};
  kernel->run(in, out, {.step = 1});
  CHECK(std::abs(p[0] - 0.9583911) < 1e-7);
  CHECK(p[1] == 1);
  CHECK(std::abs(p[2] - (1 - 3.162278)) < 2e-5);
  CHECK(first[0] == 0.5);
  CHECK(first[1] == 0);
  CHECK(std::abs(first[2] - 0.019) < 1e-12);
  CHECK(second == std::vector<double>{0.04, 0, 1e-8});
}
