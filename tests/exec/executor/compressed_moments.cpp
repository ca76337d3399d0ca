// 1-bit Adam against its paper (Tang et al., ICML 2021, algorithm 1), in arithmetic of its own: Adam for some steps; then each of two ranks
// makes the first moment that it would have with its own gradient, and signs and a scale of every block of that travel, and of the sum.
#include <algorithm>
#include <cmath>
#include <map>
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
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;

/// Signs times the mean size of each block of 512.
std::vector<double> scaled_signs(const std::vector<double>& x) {
  std::vector<double> sent;
  for (std::size_t first = 0; first < x.size(); first += 512) {
    const auto end = std::min(x.size(), first + 512);
    double sizes = 0;
    for (std::size_t i = first; i < end; ++i) sizes += std::abs(x[i]);
    for (std::size_t i = first; i < end; ++i) sent.push_back((x[i] < 0 ? -1 : 1) * sizes / static_cast<double>(end - first));
  }
  return sent;
}

/// Compresses what is given and what was left over, and keeps what is left over now.
std::vector<double> with_feedback(std::vector<double> x, std::vector<double>& left) {
  left.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += left[i];
  const auto sent = scaled_signs(x);
  for (std::size_t i = 0; i < x.size(); ++i) left[i] = x[i] - sent[i];
  return sent;
}

/// What both ranks have of one parameter, and what each has not sent.
struct Moments {
  std::vector<double> first, second, left_of_sum;
  std::map<int, std::vector<double>> left;
};

/// The mean gradient's moments; or, from step kWhole on, the first one as two ranks exchange it.
void advance(Moments& m, const std::vector<std::vector<double>>& own, int step, std::pair<double, double> corrections) {
  const auto n = own.front().size();
  m.first.resize(n), m.second.resize(n);
  if (step < kWhole) {
    for (std::size_t i = 0; i < n; ++i) {
      const double g = own[0][i] + own[1][i];
      m.first[i] = kBeta1 * m.first[i] + (1 - kBeta1) * g;
      m.second[i] = kBeta2 * m.second[i] + (1 - kBeta2) * g * g;
    }
    return;
  }
  std::vector<double> sum(n, 0.0);
  for (const int rank : {0, 1}) {
    std::vector<double> moment(n);
    for (std::size_t i = 0; i < n; ++i) moment[i] = kBeta1 * m.first[i] / 2 + (1 - kBeta1) * own[static_cast<std::size_t>(rank)][i];
    const auto sent = with_feedback(std::move(moment), m.left[rank]);
    for (std::size_t i = 0; i < n; ++i) sum[i] += sent[i];
  }
  m.first = with_feedback(std::move(sum), m.left_of_sum);
  const double most = 10 * (1 - kBeta1) / std::sqrt(1 - kBeta2) * corrections.first;  // ten times as far as Adam goes
  for (std::size_t i = 0; i < n; ++i) {
    const double held = most * std::sqrt(m.second[i] / corrections.second);
    m.first[i] = std::clamp(m.first[i], -held, held);
  }
}

/// Gradients of both halves of a batch, of which the mean is that of all.
std::vector<Values> gradients_of(Communicator& world, const Case& half, const Values& before, DataSource& data, std::int64_t step) {
  std::vector<Values> gradients;
  for (const int r : {0, 1}) {
    Alone rank(world, half);
    Half samples(data, (step + r) * half.batch);
    rank.set_weights(before);
    (void)rank.step(step, samples);
    auto& own = gradients.emplace_back(rank.velocities());
    for (auto& [name, values] : own)
      for (double& g : values) g /= 2;
  }
  return gradients;
}

std::vector<double> defined_losses(Communicator& world, const Case& whole_case) {
  Alone whole(world, whole_case);
  Case half = whole_case;
  half.batch /= 2;
  const auto data = synthetic_data(whole.training(), 1);
  std::map<std::string, Moments> moments;
  std::vector<double> losses;
  auto weights = whole.weights();
  for (int step = 0; step < kSteps; ++step) {
    const auto halves = gradients_of(world, half, weights, *data, step);
    whole.set_weights(weights);
    losses.push_back(whole.step(step, *data));
    const double of_first = 1 - std::pow(kBeta1, step + 1), of_second = 1 - std::pow(kBeta2, std::min(step + 1, kWhole));
    for (auto& [name, values] : weights) {
      auto& m = moments[name];
      advance(m, {halves[0].at(name), halves[1].at(name)}, step, {of_first, of_second});
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] -= kRate * (m.first[i] / of_first) / (std::sqrt(m.second[i] / of_second) + kEps);
    }
  }
  return losses;
}

}  // namespace

// Before this process is a rank itself: ranks that it launches would inherit its marks.
TEST_CASE("two ranks that exchange moments in a bit each do what the paper says") {
  const std::string how = ",compression=1bit-adam,exact_steps=" + std::to_string(kWhole);
  const std::vector<std::pair<std::string, int>> plans{
      {"dp=2", 2}, {"dp=2,overlap=off", 2}, {"dp=2,micro_batch=2", 2}, {"dp=2,pp=2,micro_batch=2", 4}};
  std::map<std::string, std::vector<double>> losses;
  for (const auto& [plan, ranks] : plans)
    losses.merge(printed_of({{"mlp", 8, plan + how}, {"llama", 8, plan + how}}, ranks, std::to_string(kSteps) + " optimizer:adam"));
  // The fast kernels, in f32: a sign of what is nearly 0 may be another.
  const Case narrow{"mlp", 8, "dp=2" + how, "f32"};
  losses.merge(printed_of({narrow}, 2, std::to_string(kSteps) + " optimizer:adam"));
  for (std::size_t step = 0; step < kSteps; ++step)
    CHECK(std::abs(losses.at(sample::to_text(narrow))[step] / losses.at(sample::to_text({"mlp", 8, "dp=2" + how}))[step] - 1) < 1e-3);
  MpiSession session;  // after the launches
  for (const std::string model : {"mlp", "llama"}) {
    const auto defined = defined_losses(session.world(), {model, 8, "dp=1"});
    for (const auto& [plan, ranks] : plans) {
      const auto text = sample::to_text({model, 8, plan + how});
      INFO(text);
      REQUIRE(losses.at(text).size() == kSteps);
      for (std::size_t step = 0; step < kSteps; ++step)
        CHECK(std::abs(losses.at(text)[step] - defined[step]) <= 1e-6 * std::abs(defined[step]));
    }
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
