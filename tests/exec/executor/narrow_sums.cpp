// Gradients that travel in 16 bits, against their definition: two ranks round what their halves of the batch give, and their sum once more.
#include <cmath>
#include <map>
#include <vector>

#include "tests/exec/executor/halves.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

struct Narrow {
  int bits;      ///< of the significand, the leading one included
  int smallest;  ///< exponent
};

/// To the nearest, ties to even.
double rounded(double value, const Narrow& type) {
  if (value == 0) return value;
  const int unit = std::max(std::ilogb(value), type.smallest) - (type.bits - 1);
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

/// Loss of the second step when the first one's gradients were rounded as told; nullptr: not at all.
double second_loss(Communicator& world, const Case& whole_case, const Narrow* type) {
  Alone whole(world, whole_case);
  const auto data = synthetic_data(whole.training(), 1);
  const auto before = whole.weights();
  auto after = before;
  std::vector<Values> ends;
  for (const int half : {0, 1}) {
    Case c = whole_case;
    c.batch /= 2;
    Alone rank(world, c);
    Half samples(*data, half * c.batch);
    (void)rank.step(0, samples);
    ends.push_back(rank.weights());
  }
  for (auto& [name, values] : after)
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (const auto& end : ends) {
        // The mean of all is half of the sum of both halves' means.
        const double share = (before.at(name)[i] - end.at(name)[i]) / kRate / 2;
        // By way of f32, which is how kernels convert.
        sum += type == nullptr ? share : rounded(static_cast<float>(share), *type);
      }
      values[i] -= kRate * (type == nullptr ? sum : rounded(sum, *type));
    }
  whole.set_weights(after);
  return whole.step(1, *data);
}

}  // namespace

// Before this process is a rank itself: ranks that it launches would inherit its marks.
TEST_CASE("under hybrid plans rounding moves losses by no more than it does in data parallel ones") {
  // Who rounds what depends on the plan: the second loss is off by 11 bits of a step of 0.05, far less than a sum that lacks a part.
  const std::vector<std::string> plans{"dp=2,pp=2,micro_batch=1,schedule=dualpipe",
                                       "dp=2,pp=2,micro_batch=1,schedule=dualpipe,overlap=off",
                                       "dp=2,pp=2,micro_batch=1,schedule=zb-v,zero=2",
                                       "dp=2,pp=2,micro_batch=2",
                                       "dp=2,tp=2,zero=2,micro_batch=2",
                                       "dp=4,allreduce=packed-trees"};
  std::vector<Case> cases;
  for (const auto& plan : plans) cases.push_back({"mlp", 8, plan + ",compression=f16"});
  const auto losses = printed_of(cases, 4, "2 -");
  const auto exact = printed_of({{"mlp", 8, "dp=2"}}, 2, "2 -").begin()->second;
  for (const auto& [text, found] : losses) {
    INFO(text);
    REQUIRE(found.size() == 2);
    CHECK(std::abs(found[0] - exact[0]) <= 1e-12);
    CHECK(found[1] != exact[1]);
    CHECK(std::abs(found[1] - exact[1]) <= std::ldexp(std::abs(exact[0] - exact[1]), -8));
  }
}

TEST_CASE("gradients that travel in 16 bits are rounded by each rank, and their sum again") {
  const std::map<std::string, Narrow> types{{"bf16", {8, -126}}, {"f16", {11, -14}}};
  const std::vector<std::string> plans{
      "dp=2",        "dp=2,overlap=off",       "dp=2,allreduce=recursive-doubling", "dp=2,micro_batch=2", "dp=2,zero=1",
      "dp=2,zero=2", "dp=2,zero=3,overlap=off"};
  const std::vector<std::pair<std::string, std::int64_t>> models{{"mlp", 8}, {"gpt", 4}};
  std::vector<Case> cases;
  for (const auto& [model, batch] : models)
    for (const auto& [name, type] : types)
      for (const auto& plan : plans) cases.push_back({model, batch, plan + ",compression=" + name});
  const auto losses = printed_of(cases, 2, "2 -");
  MpiSession session;  // after the launch, whose ranks would inherit its marks
  for (const auto& [model, batch] : models) {
    const Case alone{model, batch, "dp=1"};
    const double exact = second_loss(session.world(), alone, nullptr);
    for (const auto& [name, type] : types) {
      const double defined = second_loss(session.world(), alone, &type);
      // Rounding is seen: other mathematics than without it.
      CHECK(std::abs(defined - exact) > 1e-9);
      for (const auto& plan : plans) {
        const auto text = sample::to_text({model, batch, plan + ",compression=" + name});
        INFO(text);
        const auto& found = losses.at(text);
        REQUIRE(found.size() == 2);
        CHECK(std::abs(found[1] - defined) <= 1e-12 * std::abs(defined));
      }
    }
  }
}

TEST_CASE("gradients in 16 bits are half the bytes of f32, and nothing else is rounded") {
  const auto sent = [](const std::string& plan, std::vector<std::string>* warnings = nullptr) {
    const Case c{"gpt", 4, plan, "f32"};
    const auto training = sample::training_of(c);
    const auto program = sample::program_of(c, training);
    if (warnings != nullptr) *warnings = program.warnings;
    std::map<plan::CollectiveKind, std::int64_t> bytes;
    const auto& role = program.role(0);
    for (const auto& body : role.bodies)
      for (const auto& i : body.instructions)
        if (i.kind == plan::InstructionKind::Collective && plan::message_bytes(role, i, 0) > 64)
          bytes[role.collectives[static_cast<std::size_t>(i.collective)].kind] += plan::message_bytes(role, i, 0);
    return bytes;
  };
  std::vector<std::string> warnings;
  const auto plain = sent("dp=2"), narrow = sent("dp=2,compression=bf16", &warnings);
  CHECK(narrow.at(plan::CollectiveKind::AllReduce) * 2 == plain.at(plan::CollectiveKind::AllReduce));
  REQUIRE_FALSE(warnings.empty());
  CHECK_THAT(warnings.back(), contains("different mathematics"));
  const auto dealt = sent("dp=2,zero=2"), narrowly_dealt = sent("dp=2,zero=2,compression=f16");
  CHECK(narrowly_dealt.at(plan::CollectiveKind::ReduceScatter) * 2 == dealt.at(plan::CollectiveKind::ReduceScatter));
  CHECK(narrowly_dealt.at(plan::CollectiveKind::AllGather) == dealt.at(plan::CollectiveKind::AllGather));
  // Activations' sums between tensor-parallel ranks stay as they are.
  const auto split = sent("tp=2"), narrowly_split = sent("tp=2,compression=bf16", &warnings);
  CHECK(split == narrowly_split);
  CHECK_THAT(warnings.back(), contains("without effect"));
}
