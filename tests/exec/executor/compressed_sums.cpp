// Gradients that travel compressed: bytes, plans, and values by hand. tests/interop/compressed_gradients.py holds whole trainings to the
// papers' algorithms.
#include <cmath>
#include <limits>
#include <map>
#include <vector>

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

constexpr int kSteps = 3;

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

TEST_CASE("compressed gradients give the same losses under every plan that may compress") {
  const std::vector<std::pair<std::string, int>> plans{
      {"dp=2,overlap=off", 2}, {"dp=2,micro_batch=2", 2}, {"dp=2,pp=2,micro_batch=2", 4}, {"dp=2,pp=2,micro_batch=1,schedule=gpipe", 4}};
  const std::vector<std::string> models{"mlp", "gpt"};
  const auto text = [](const std::string& model, const std::string& plan, const std::string& how) {
    return sample::to_text({model, 8, plan + ",compression=" + how});
  };
  std::map<std::string, std::vector<double>> losses;
  for (const int ranks : {2, 4}) {
    std::vector<Case> cases;
    for (const auto& model : models)
      for (const auto& how : kCompressors) {
        if (ranks == 2) cases.push_back({model, 8, "dp=2,compression=" + how});
        for (const auto& [plan, wanted] : plans)
          if (wanted == ranks) cases.push_back({model, 8, plan + ",compression=" + how});
      }
    losses.merge(printed_of(cases, ranks, std::to_string(kSteps) + " -"));
  }
  for (const auto& model : models)
    for (const auto& how : kCompressors) {
      const auto& one_part = losses.at(text(model, "dp=2", how));
      for (const auto& [plan, ranks] : plans) {
        INFO(text(model, plan, how));
        const auto& found = losses.at(text(model, plan, how));
        REQUIRE(found.size() == kSteps);
        for (std::size_t step = 0; step < kSteps; ++step) CHECK(std::abs(found[step] - one_part[step]) <= 1e-6 * std::abs(one_part[step]));
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
