// Gradients that travel compressed, against the definitions of their papers: what two ranks' halves of the batch give, compressed and added
// up here, tensor by tensor, in arithmetic of its own. Random numbers are the ones of base/random.hpp that the ranks draw.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "exec/host/compressors/compressor.hpp"
#include "exec/host/compressors/power_sgd.hpp"
#include "plan/compressors.hpp"
#include "plan/low_rank.hpp"
#include "plan/plan.hpp"
#include "tests/exec/executor/halves.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

constexpr double kMomentum = 0.9;  // of sample::training_of

/// Of one rank's gradient; `u` has a number from [0, 1) for every element.
std::vector<double> ternary(const std::vector<double>& g, const std::vector<double>& u) {
  double largest = 0;
  for (const double x : g) largest = std::max(largest, std::abs(x));
  std::vector<double> sent;
  for (std::size_t i = 0; i < g.size(); ++i) sent.push_back(u[i] < std::abs(g[i]) / largest ? std::copysign(largest, g[i]) : 0);
  return sent;
}

std::vector<double> quantized(const std::vector<double>& g, const std::vector<double>& u, double levels) {
  std::vector<double> sent;
  for (std::size_t first = 0; first < g.size(); first += 512) {
    double squares = 0;
    for (std::size_t i = first; i < std::min(g.size(), first + 512); ++i) squares += g[i] * g[i];
    const double norm = std::sqrt(squares);
    for (std::size_t i = first; i < std::min(g.size(), first + 512); ++i) {
      const double exact = norm == 0 ? 0 : levels * std::abs(g[i]) / norm, down = std::floor(exact);
      sent.push_back(std::copysign(norm * (u[i] < exact - down ? down + 1 : down) / levels, g[i]));
    }
  }
  return sent;
}

/// Whose numbers; rank -1: that all draw alike.
struct Draw {
  std::int64_t step = 0;
  int rank = 0;
};

/// The numbers that a rank of a group draws for a gradient, in a training with seed 0 (exec/play/compressed_sums.cpp).
std::vector<double> drawn(const std::string& gradient, std::size_t elements, Draw draw) {
  const auto seed = random_bits(0, 0x6772616469656E74, static_cast<std::uint64_t>(draw.step));
  auto stream = graph::initial_stream(gradient) ^ 0x636F6D7072657373ULL;
  if (draw.rank >= 0) stream += 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(draw.rank + 1);
  std::vector<double> u;
  for (std::size_t i = 0; i < elements; ++i) u.push_back(random_uniform(seed, stream, i));
  return u;
}

std::vector<double> by_sides(const std::vector<double>& g) {
  std::vector<double> sent;
  for (std::size_t first = 0; first < g.size(); first += 512) {
    const auto end = std::min(g.size(), first + 512);
    double sums[2] = {0, 0}, counts[2] = {0, 0};
    for (std::size_t i = first; i < end; ++i) sums[g[i] < 0] += g[i], ++counts[g[i] < 0];
    for (std::size_t i = first; i < end; ++i) sent.push_back(sums[g[i] < 0] / counts[g[i] < 0]);
  }
  return sent;
}

double elements_sent(double share, std::size_t n) { return std::max(1.0, std::round(share * static_cast<double>(n))); }

std::vector<double> largest_of(const std::vector<double>& g, double share) {
  std::vector<std::size_t> order(g.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return std::abs(g[a]) > std::abs(g[b]); });
  std::vector<double> sent(g.size(), 0.0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(elements_sent(share, g.size())); ++i) sent[order[i]] = g[order[i]];
  return sent;
}

/// One element of each of k strata; `scaled` by its size.
std::vector<double> drawn_of(const std::vector<double>& g, const std::vector<double>& u, double share, bool scaled) {
  const auto n = g.size(), k = static_cast<std::size_t>(elements_sent(share, n));
  std::vector<double> sent(n, 0.0);
  std::size_t begin = 0;
  for (std::size_t at = 0; at < k; ++at) {
    const auto size = n / k + (at < n % k ? 1 : 0);
    const auto e = begin + static_cast<std::size_t>(u[at] * static_cast<double>(size));
    sent[e] = g[e] * (scaled ? static_cast<double>(size) : 1);
    begin += size;
  }
  return sent;
}

/// What a rank sends of a gradient in a step.
std::vector<double> sent_of(const plan::Compression& how, const std::string& gradient, const std::vector<double>& g, Draw draw) {
  const auto u = [&](int rank) { return drawn(gradient, g.size(), {draw.step, rank}); };
  switch (how.rule) {
    case plan::CompressionRule::Sign: {
      std::vector<double> signs;
      for (const double x : g) signs.push_back(x < 0 ? -1 : 1);
      return signs;
    }
    case plan::CompressionRule::TernGrad:
      return ternary(g, u(draw.rank));
    case plan::CompressionRule::Qsgd:
      return quantized(g, u(draw.rank), how.setting);
    case plan::CompressionRule::OneBit:
      return by_sides(g);
    case plan::CompressionRule::TopK:
      return largest_of(g, how.setting);
    case plan::CompressionRule::SparCml: {
      std::vector<double> sent;
      for (std::size_t first = 0; first < g.size(); first += 512) {
        const std::vector<double> block(g.begin() + static_cast<std::ptrdiff_t>(first),
                                        g.begin() + static_cast<std::ptrdiff_t>(std::min(g.size(), first + 512)));
        const double k = std::min(elements_sent(how.setting, 512), static_cast<double>(block.size()));
        const auto largest = largest_of(block, k / static_cast<double>(block.size()));
        sent.insert(sent.end(), largest.begin(), largest.end());
      }
      return sent;
    }
    default:
      return drawn_of(g, u(-1), how.setting, how.rule == plan::CompressionRule::RandomK);
  }
}

/// A matrix with its columns made orthonormal, by projections on those before.
std::vector<double> orthonormal(std::vector<double> p, std::size_t rows, std::size_t rank) {
  const auto along = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < rows; ++i) sum += p[i * rank + a] * p[i * rank + b];
    return sum;
  };
  for (std::size_t k = 0; k < rank; ++k) {
    const double whole = std::sqrt(along(k, k));
    for (std::size_t o = 0; o < k; ++o)
      for (double c = along(k, o), i = 0; i < static_cast<double>(rows); ++i)
        p[static_cast<std::size_t>(i) * rank + k] -= c * p[static_cast<std::size_t>(i) * rank + o];
    const double left = std::sqrt(along(k, k));
    for (std::size_t i = 0; i < rows; ++i) p[i * rank + k] = left > 1e-7 * whole ? p[i * rank + k] / left : 0;
  }
  return p;
}

/// Two ranks that exchange what is left of their gradients, each with what it has kept.
class Exchange {
 public:
  explicit Exchange(const plan::Compression& how) : how_(how) {}

  /// The sum that both ranks decode of a gradient of which each has its own.
  std::vector<double> sum(const graph::Tensor& tensor, const std::vector<std::vector<double>>& own, std::int64_t step) {
    const auto& gradient = tensor.name;
    if (how_.rule == plan::CompressionRule::PowerSgd) return low_rank_sum(tensor, own, step);
    std::vector<double> sum(own.front().size(), 0.0);
    for (std::size_t r = 0; r < own.size(); ++r) {
      auto g = own[r];
      auto& kept = kept_[{gradient, r}];
      kept.resize(g.size());
      const bool remembers = plan::compressor(how_.rule)->remembers;
      for (std::size_t i = 0; remembers && i < g.size(); ++i) g[i] += kept[i];
      const auto sent = sent_of(how_, gradient, g, {step, static_cast<int>(r)});
      for (std::size_t i = 0; i < g.size(); ++i) {
        sum[i] += sent[i];
        kept[i] = g[i] - sent[i];
      }
    }
    if (how_.rule == plan::CompressionRule::Sign)
      for (double& x : sum) x = x == 0 ? 0 : std::copysign(1.0, x);
    return sum;
  }

 private:
  /// Algorithms 1 and 2 of Vogels et al. 2019, with the sum in place of the mean.
  std::vector<double> low_rank_sum(const graph::Tensor& tensor, const std::vector<std::vector<double>>& own, std::int64_t step) {
    const auto n = static_cast<std::size_t>(tensor.type.shape.front()), m = own.front().size() / n;
    const auto r = std::min({static_cast<std::size_t>(how_.setting), n, m});
    std::vector<double> sum(n * m, 0.0);
    if ((n + m) * r >= n * m) {
      for (const auto& g : own)
        for (std::size_t e = 0; e < n * m; ++e) sum[e] += g[e];
      return sum;
    }
    auto& q = q_[tensor.name];
    q.resize(m * r);
    const auto seed = random_bits(0, 0x6772616469656E74, static_cast<std::uint64_t>(step));
    const auto stream = graph::initial_stream(tensor.name) ^ 0x636F6D7072657373ULL;
    for (std::size_t k = 0; k < r; ++k) {
      double most = 0;
      for (std::size_t j = 0; j < m; ++j) most = std::max(most, std::abs(q[j * r + k]));
      for (std::size_t j = 0; most == 0 && j < m; ++j) q[j * r + k] = random_normal(seed, stream, j * r + k);
    }
    std::vector<std::vector<double>> with;
    std::vector<double> p(n * r, 0.0), second(m * r, 0.0);
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      auto& kept = kept_[{tensor.name, rank}];
      kept.resize(n * m);
      auto& g = with.emplace_back(own[rank]);
      for (std::size_t e = 0; e < n * m; ++e) g[e] += kept[e];
      for (std::size_t i = 0; i < n * m * r; ++i) p[i / (m * r) * r + i % r] += g[i / r] * q[i / r % m * r + i % r];
    }
    p = orthonormal(p, n, r);
    for (const auto& g : with)
      for (std::size_t i = 0; i < n * m * r; ++i) second[i / r % m * r + i % r] += g[i / r] * p[i / (m * r) * r + i % r];
    for (std::size_t i = 0; i < n * m * r; ++i) sum[i / r] += p[i / (m * r) * r + i % r] * second[i / r % m * r + i % r];
    for (std::size_t rank = 0; rank < own.size(); ++rank)
      for (std::size_t e = 0; e < n * m; ++e) kept_[{tensor.name, rank}][e] = with[rank][e] - sum[e] / static_cast<double>(own.size());
    q = second;
    return sum;
  }

  plan::Compression how_;
  std::map<std::string, std::vector<double>> q_;
  std::map<std::pair<std::string, std::size_t>, std::vector<double>> kept_;
};

constexpr int kSteps = 3;

struct DataOfStep {
  DataSource& source;
  std::int64_t step;
};

/// Gradients of both halves of a batch, by the name of the weights: from what the first step of a training makes of these.
std::vector<Values> gradients_of_halves(Communicator& world, const Case& half, const Values& before, DataOfStep data) {
  std::vector<Values> gradients;
  for (const int r : {0, 1}) {
    Alone rank(world, half);
    Half samples(data.source, (data.step + r) * half.batch);  // the rank itself begins at step times its batch
    rank.set_weights(before);
    (void)rank.step(data.step, samples);
    auto& own = gradients.emplace_back(rank.weights());
    for (auto& [name, values] : own)
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = (before.at(name)[i] - values[i]) / kRate;
  }
  return gradients;
}

/// Losses when gradients are exchanged as told, under SGD with momentum.
std::vector<double> defined_losses(Communicator& world, const Case& whole_case, const plan::Compression& how) {
  Alone whole(world, whole_case);
  Case half = whole_case;
  half.batch /= 2;
  const auto data = synthetic_data(whole.training(), 1);
  Exchange exchange(how);
  std::vector<double> losses;
  auto weights = whole.weights();
  Values velocities;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const auto halves = gradients_of_halves(world, half, weights, {*data, step});
    whole.set_weights(weights);
    losses.push_back(whole.step(step, *data));
    const auto& graph = whole.training().graph;
    for (const auto& p : whole.training().parameters) {
      const auto& name = graph[p.value].name;
      std::vector<std::vector<double>> own{halves[0].at(name), halves[1].at(name)};
      for (auto& g : own)
        for (double& x : g) x /= 2;  // the mean of all is half of the sum of both halves' means
      const auto sum = exchange.sum(graph[p.gradient], own, step);
      auto& velocity = velocities[name];
      velocity.resize(sum.size());
      for (std::size_t i = 0; i < sum.size(); ++i) {
        velocity[i] = kMomentum * velocity[i] + sum[i];
        weights.at(name)[i] -= kRate * velocity[i];
      }
    }
  }
  return losses;
}

const std::vector<std::string> kGathering{"sign",     "1bit",         "terngrad",  "qsgd:4",
                                          "qsgd:127", "randomk:0.25", "topk:0.05", "randomk-memory:0.25"};

std::vector<std::string> with_factors() {
  auto all = kGathering;
  all.insert(all.end(), {"powersgd:1", "powersgd:2", "sparcml:0.05", "sparcml:0.5"});
  return all;
}
const std::vector<std::string> kCompressors = with_factors();

/// All bytes that a compressor sends of a vector, and what a group of one decodes of them.
std::vector<float> there_and_back(const std::string& compressor, const std::vector<std::vector<float>>& own, std::uint64_t seed = 1) {
  const auto how = plan::parse_compression(compressor);
  const auto n = static_cast<std::int64_t>(own.front().size());
  std::vector<std::vector<std::byte>> sent;
  std::vector<const std::byte*> from;
  for (std::size_t r = 0; r < own.size(); ++r) {
    sent.emplace_back(static_cast<std::size_t>(plan::compressed_bytes(how, n, DType::F32)));
    exec::compress(how.rule, DType::F32, {how.setting, n, seed, 7, 100 + r}, own[r].data(), sent.back().data());
  }
  for (const auto& one : sent) from.push_back(one.data());
  std::vector<float> sum(own.front().size());
  exec::decompress(how.rule, DType::F32, {how.setting, n, seed, 7, 100}, from, sum.data());
  return sum;
}

/// Each of two ranks sends the other its share of the gradients, and its own share of the sum: half of what it sends in all, and of what
/// all gather.
std::int64_t bytes_of_shares(const Case& c, const graph::TrainingGraph& training) {
  const auto program = sample::program_of(c, training);
  const auto& role = program.role(0);
  std::int64_t bytes = 0;
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions)
      if (i.kind == plan::InstructionKind::Collective && role.buffers[i.outputs.front()].dtype == DType::U8)
        bytes += plan::message_bytes(role, i, 0) / 2;
  return bytes;
}

}  // namespace

// Before this process is a rank itself: ranks that it launches would inherit its marks.
TEST_CASE("what MPI is given to send is what is predicted") {
  std::vector<Case> cases{{"mlp", 8, "dp=2", "f32"}};
  for (const auto& how : kCompressors) cases.push_back({"mlp", 8, "dp=2,compression=" + how, "f32"});
  auto sent = printed_of(cases, 2, std::to_string(kSteps) + " wire");
  const double plain = sent.at(sample::to_text(cases.front())).at(0);
  const auto training = sample::training_of(cases.front());
  for (std::size_t n = 0; n < kCompressors.size(); ++n) {
    INFO(kCompressors[n]);
    const auto how = plan::parse_compression(kCompressors[n]);
    std::int64_t bytes = 0, compressed = 0;
    for (const auto& p : training.parameters) {
      const auto elements = graph::element_count(training.graph[p.gradient].type.shape);
      bytes += (4 * elements + 63) / 64 * 64;  // gradients lie at multiples of 64 bytes in the vector that is summed
      const auto factors = plan::factors_of(training.graph[p.gradient].type.shape, how.setting);
      if (how.rule == plan::CompressionRule::PowerSgd) compressed += 4 * (factors.first() + factors.second());
      if (plan::compressor(how.rule)->sum == plan::CompressedSum::Gather) compressed += plan::compressed_bytes(how, elements, DType::F32);
    }
    if (how.rule == plan::CompressionRule::SparCml) compressed = bytes_of_shares(cases[n + 1], training);
    // Of two ranks each sends its whole gradient once, in an all-reduce as in a gather of whole messages. All else is the same.
    CHECK(sent.at(sample::to_text(cases[n + 1])).at(0) - plain == 2.0 * kSteps * static_cast<double>(compressed - bytes));
  }
}

TEST_CASE("two ranks that exchange compressed gradients do what the papers say, under every plan that may compress") {
  const std::vector<std::pair<std::string, int>> plans{{"dp=2", 2},
                                                       {"dp=2,overlap=off", 2},
                                                       {"dp=2,micro_batch=2", 2},
                                                       {"dp=2,pp=2,micro_batch=2", 4},
                                                       {"dp=2,pp=2,micro_batch=1,schedule=gpipe", 4}};
  const std::vector<std::string> models{"mlp", "gpt"};
  std::map<std::string, std::vector<double>> losses;
  for (const int ranks : {2, 4}) {
    std::vector<Case> cases;
    for (const auto& model : models)
      for (const auto& [plan, wanted] : plans)
        for (const auto& how : kCompressors)
          if (wanted == ranks) cases.push_back({model, 8, plan + ",compression=" + how});
    losses.merge(printed_of(cases, ranks, std::to_string(kSteps) + " -"));
  }
  MpiSession session;  // after the launches
  for (const auto& model : models)
    for (const auto& how : kCompressors) {
      const auto defined = defined_losses(session.world(), {model, 8, "dp=1"}, plan::parse_compression(how));
      for (const auto& [plan, ranks] : plans) {
        const auto text = sample::to_text({model, 8, plan + ",compression=" + how});
        INFO(text);
        REQUIRE(losses.at(text).size() == kSteps);
        for (std::size_t step = 0; step < kSteps; ++step)
          CHECK(std::abs(losses.at(text)[step] - defined[step]) <= 1e-6 * std::abs(defined[step]));
      }
    }
}

TEST_CASE("compressors send what is written here by hand") {
  // Signs: three ranks, element by element - - +, + + -, 0 + -: most are -, +, and a zero votes with the positive ones.
  CHECK(there_and_back("sign", {{-1, 5, 0}, {-2, 1e-9F, 3}, {4, -7, -1}}) == std::vector<float>{-1, 1, 1});
  CHECK(there_and_back("sign", {{-1, 5}, {2, 1}}) == std::vector<float>{0, 1});  // a tie, and two of a kind
  // Where |g| is s or 0 nothing is left to chance.
  CHECK(there_and_back("terngrad", {{-3, 0, 3}, {0, 2, 2}}) == std::vector<float>{-3, 2, 5});
  // |(3, -4)| is 5, and 5 levels make 3 and 4 of it.
  const auto exact = there_and_back("qsgd:5", {{3, -4}, {0, 0}});
  CHECK(std::abs(exact[0] - 3) <= 1e-6F);
  CHECK(std::abs(exact[1] + 4) <= 1e-6F);
  // 1, 3 and 0 are 4/3 on average, -2 and -4 are -3.
  CHECK(there_and_back("1bit", {{1, -2, 3, -4, 0}}) == std::vector<float>{4.0F / 3, -3, 4.0F / 3, -3, 4.0F / 3});
  // Of each the two largest of four; of equal ones the first.
  CHECK(there_and_back("topk:0.5", {{1, -5, 2, 2}, {7, 7, -7, 0}}) == std::vector<float>{7, 2, 2, 0});
  // All of all, as they are.
  CHECK(there_and_back("randomk:1", {{1, 2, 3}, {10, 20, 30}}) == std::vector<float>{11, 22, 33});
}

TEST_CASE("what a compressor that remembers has not sent is added to the next gradient") {
  const auto how = plan::parse_compression("topk:0.5");
  std::vector<float> kept{0, 0}, gradient{1, -3};
  std::vector<std::byte> sent(static_cast<std::size_t>(plan::compressed_bytes(how, 2, DType::F32)));
  const CompressorTask task{how.setting, 2, 1, 7, 100};
  compress_with_memory(how.rule, DType::F32, task, {gradient.data(), kept.data()}, sent.data());
  CHECK(kept == std::vector<float>{1, 0});  // -3 is sent
  gradient = {1.5F, 2};
  compress_with_memory(how.rule, DType::F32, task, {gradient.data(), kept.data()}, sent.data());
  CHECK(kept == std::vector<float>{0, 2});  // 2.5 is sent
  gradient = {std::numeric_limits<float>::infinity(), 0};
  compress_with_memory(how.rule, DType::F32, task, {gradient.data(), kept.data()}, sent.data());
  CHECK(kept == std::vector<float>{0, 2});
}

TEST_CASE("one rank's NaN or infinity is every rank's, and so is training told to stop") {
  for (const auto& how : kGathering)
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      INFO(how);
      for (const float x : there_and_back(how, {{1, 2, 3}, {1, bad, 3}})) CHECK(std::isnan(x));
    }
}

TEST_CASE("two factors of a matrix, by hand") {
  // (3+2)*1 is less than 6 elements, (3+2)*2 is not; of [4, 1, 2, 2] the matrix is 4 x 4; a vector and a row have no factors.
  CHECK(plan::factors_of({3, 2}, 1).rank == 1);
  CHECK(plan::factors_of({3, 2}, 2).rank == 0);
  CHECK(plan::factors_of({4, 1, 2, 2}, 1).columns == 4);
  CHECK(plan::factors_of({4, 1, 2, 2}, 1).kept() == 16 + 4);
  CHECK(plan::factors_of({7}, 1).first() == 7);
  CHECK_FALSE(plan::factors_of({1, 7}, 1).any());
  // M = (3, 4, 0)ᵀ (1, 2), kept from before (0, 0, 0.5)ᵀ (0, 0), and Q = (1, 0): P = M Q = (3, 4, 0), of length 5.
  const FactorTask task{plan::factors_of({3, 2}, 1), 1, 7};
  std::vector<double> m{3, 6, 4, 8, 0, 0}, kept{0, 0, 0, 0, 0.5, 0, 1, 0}, p(3), q(2);
  first_factor(DType::F64, task, m.data(), kept.data(), p.data());
  CHECK(p == std::vector<double>{3, 4, 0.5});
  p = {6, 8, 0};  // the sum over two ranks, without what was kept
  second_factor(DType::F64, task, m.data(), p.data(), q.data());
  // P is (0.6, 0.8, 0), Mᵀ P = (3*0.6 + 4*0.8, twice that) = (5, 10).
  CHECK(std::abs(q[0] - 5) < 1e-12);
  CHECK(std::abs(q[1] - 10) < 1e-12);
  q = {10, 20};  // the other rank has the same: the sum is twice the gradient
  from_factors(DType::F64, task, {p.data(), q.data(), 2}, m.data(), kept.data());
  const std::vector<double> sum{6, 12, 8, 16, 0, 0}, left{0, 0, 0, 0, 0.5, 0, 10, 20};
  for (std::size_t e = 0; e < sum.size(); ++e) CHECK(std::abs(m[e] - sum[e]) < 1e-12);
  for (std::size_t e = 0; e < left.size(); ++e) CHECK(std::abs(kept[e] - left[e]) < 1e-12);
  // NaN of any rank is in the sums, and in what all make of them; what was kept stays.
  p[1] = std::numeric_limits<double>::quiet_NaN();
  second_factor(DType::F64, task, m.data(), p.data(), q.data());
  CHECK(std::isnan(q[0]));
  from_factors(DType::F64, task, {p.data(), q.data(), 2}, m.data(), kept.data());
  CHECK(std::isnan(m[0]));
  CHECK(std::abs(kept[4] - 0.5) < 1e-12);
}

TEST_CASE("sums of TernGrad, QSGD and random-k are right on average") {
  std::vector<float> g;
  for (int i = 0; i < 8; ++i) g.push_back(0.25F * static_cast<float>(i - 4));
  constexpr int kDraws = 20'000;
  for (const std::string how : {"terngrad", "qsgd:2", "randomk:0.25"}) {
    std::vector<double> mean(g.size());
    for (int s = 0; s < kDraws; ++s) {
      const auto sum = there_and_back(how, {g}, static_cast<std::uint64_t>(s));
      for (std::size_t i = 0; i < g.size(); ++i) mean[i] += sum[i] / kDraws;
    }
    INFO(how);
    // The largest deviation is random-k's: |g| sqrt(4 - 1) = 1.8, over sqrt(20000) 0.0125; six of them.
    for (std::size_t i = 0; i < g.size(); ++i) CHECK(std::abs(mean[i] - static_cast<double>(g[i])) <= 0.075);
  }
}

TEST_CASE("ranks gather what compressors leave, and nothing else changes") {
  const Case c{"mlp", 8, "dp=4,compression=sign", "f32"};
  const auto training = sample::training_of(c);
  const auto program = sample::program_of(c, training);
  std::int64_t expected = 0, found = 0;
  for (const auto& p : training.parameters) expected += (graph::element_count(training.graph[p.gradient].type.shape) + 7) / 8 + 1;
  const auto& role = program.role(0);
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions)
      if (i.kind == plan::InstructionKind::Collective &&
          role.collectives[static_cast<std::size_t>(i.collective)].kind == plan::CollectiveKind::AllGather)
        found += plan::message_bytes(role, i, 0);
  CHECK(found == 4 * expected);
  REQUIRE_FALSE(program.warnings.empty());
  CHECK_THAT(program.warnings.back(), contains("majority vote"));
  const auto alone = sample::program_of({"mlp", 8, "dp=1,compression=sign", "f32"}, training);
  CHECK_THAT(alone.warnings.back(), contains("without effect"));
}

TEST_CASE("compressors refuse plans that have no whole gradients") {
  for (const std::string plan :
       {"dp=2,zero=1", "dp=2,tp=2", "dp=2,cp=2", "dp=2,ep=2", "dp=2,spatial=1x1x2", "dp=2,pp=2,micro_batch=1,schedule=dualpipe"}) {
    const Case c{"mlp", 8, plan + ",compression=qsgd", "f32"};
    INFO(plan);
    CHECK_THROWS_WITH(sample::program_of(c, sample::training_of(c)), contains("compression: qsgd:4 takes whole gradients"));
  }
}
