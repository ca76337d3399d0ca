// Gradients of 16 bits that micro-batches add up: in f32, whatever shares them out, and sent in 16 bits as those of one micro-batch are.
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "exec/kernels/narrow.hpp"
#include "plan/memory/check_messages.hpp"
#include "tests/exec/executor/halves.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

/// What an update in 16 bits adds to the f32 copies of the weights.
std::vector<double> first_move(Communicator& world, const Case& c) {
  const auto training = training_of(c);
  const auto program = program_of(c, training);
  const auto backend = backend_of(c);
  Executor executor({program, training, world}, backend, {});
  const auto weights = [&] {
    std::vector<double> all;
    for (const auto& p : training.parameters) {
      const auto block = executor.stored(p.slots.front());
      const auto* first = reinterpret_cast<const float*>(block.data());
      all.insert(all.end(), first, first + block.size() / sizeof(float));
    }
    return all;
  };
  const auto before = weights();
  (void)executor.step(0, *synthetic_data(training, 1));
  auto move = weights();
  for (std::size_t i = 0; i < move.size(); ++i) move[i] -= before[i];
  return move;
}

double length(const std::vector<double>& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

std::int64_t bytes_sent(const plan::Program& program, plan::CollectiveKind kind) {
  std::int64_t bytes = 0;
  const auto& role = program.role(0);
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions)
      if (i.kind == plan::InstructionKind::Collective && role.collectives[static_cast<std::size_t>(i.collective)].kind == kind)
        bytes += plan::message_bytes(role, i, 0);
  return bytes;
}

}  // namespace

TEST_CASE("a thousand addends of 16 bits are all in their sum") {
  // Of ones, a sum of 8 bits stays at 2^8 and one of 11 bits at 2^11: 4096 are beyond both.
  constexpr std::int64_t kCount = 5000, kAddends = 4096;  // more than one block and a part of one
  for (const DType type : {DType::BF16, DType::F16}) {
    INFO(name(type));
    std::vector<float> ones(kCount, 1), sum(kCount, 7);  // of another step
    std::vector<std::uint16_t> addend(kCount);
    narrow(ones.data(), type, addend.data(), kCount);
    for (std::int64_t n = 0; n < kAddends; ++n) accumulate(sum.data(), addend.data(), kCount, {type, n == 0}, 2);
    CHECK(sum == std::vector<float>(kCount, kAddends));
  }
}

TEST_CASE("as many micro-batches as samples train as one does in 16 bits") {
  MpiSession session;
  for (const std::string type : {"bf16", "f16"}) {
    INFO(type);
    const auto one = first_move(session.world(), {"mlp", 1024, "dp=1", type});
    const auto many = first_move(session.world(), {"mlp", 1024, "micro_batch=1", type});
    auto apart = many;
    for (std::size_t i = 0; i < apart.size(); ++i) apart[i] -= one[i];
    CHECK(length(one) > 0);
    // Either's gradients are rounded: to 8 bits, by 2^-9 of themselves at most, and what they are made of once more.
    CHECK(length(apart) <= std::ldexp(length(one), -7));
  }
}

TEST_CASE("sums of 16-bit gradients have 32 bits where they wait and 16 where they travel") {
  const std::vector<std::string> plans{"dp=2,micro_batch=2",
                                       "dp=2,micro_batch=2,overlap=off",
                                       "dp=2,micro_batch=2,zero=1",
                                       "dp=2,micro_batch=2,zero=2",
                                       "dp=2,micro_batch=2,zero=3",
                                       "dp=4,micro_batch=1,zero=2,zero_group=2",
                                       "tp=2,micro_batch=2",
                                       "pp=2,micro_batch=2",
                                       "dp=2,pp=2,micro_batch=1,schedule=zb-v",
                                       "dp=2,pp=2,micro_batch=1,schedule=pipedream-2bw",
                                       "pp=2,micro_batch=1,schedule=dualpipe",
                                       "dp=2,pp=2,micro_batch=1,schedule=dualpipe,overlap=off",
                                       "dp=2,pp=2,micro_batch=1,schedule=dualpipe,zero=1"};
  for (const auto& text : plans) {
    INFO(text);
    const Case c{"gpt", 8, text, "bf16"};
    const auto training = training_of(c);
    const auto program = program_of(c, training);
    plan::check_messages(program);
    for (const auto& role : program.roles)
      for (const auto& body : role.bodies)
        for (const auto& i : body.instructions) {
          if (i.kind == plan::InstructionKind::Accumulate)
            CHECK(role.buffers[i.outputs[0]].dtype == plan::sum_type(role.buffers[i.inputs[0]].dtype));
          if ((i.kind == plan::InstructionKind::Collective || i.kind == plan::InstructionKind::Send) && training.graph[i.tensor].type.dtype == DType::BF16)
            CHECK(role.buffers[i.inputs[0]].dtype == DType::BF16);
        }
  }
}

TEST_CASE("both ranks of a bidirectional pipeline add the same two rounded sums") {
  // Else one copy of the weights is updated with A + r(B), the other with r(A) + B.
  const Case c{"gpt", 8, "pp=2,micro_batch=1,schedule=dualpipe", "bf16"};
  const auto training = training_of(c);
  const auto program = program_of(c, training);
  const auto is_wide = [&](const plan::Role& role, plan::BufferIndex b) {
    return role.buffers[b].dtype == DType::F32 && training.graph[role.buffers[b].tensor].type.dtype == DType::BF16;
  };
  int sums = 0;
  for (const auto& role : program.roles)
    for (const auto& body : role.bodies) {
      std::set<plan::BufferIndex> as_sent;  // wide sums that hold what was rounded
      for (const auto& i : body.instructions) {
        if (i.kind == plan::InstructionKind::Kernel && is_wide(role, i.outputs[0]) && !is_wide(role, i.inputs[0]))
          as_sent.insert(i.outputs[0]);
        if (i.kind != plan::InstructionKind::Accumulate || plan::per_micro_batch(body.kind) || !is_wide(role, i.outputs[0])) continue;
        CHECK(as_sent.contains(i.outputs[0]));
        ++sums;
      }
    }
  CHECK(sums > 10);
}

TEST_CASE("replicas send no more bytes of several micro-batches' 16-bit gradients than of one's") {
  const auto program = [](const std::string& plan) {
    const Case c{"mlp", 8, plan, "bf16"};
    return program_of(c, training_of(c));
  };
  const auto one = program("dp=2"), several = program("dp=2,micro_batch=1");
  // 12 x 16 + 16 + 3 (16 x 16 + 16) + 16 x 5 + 5 = 1109 gradients, each tensor's at a multiple of 64 bytes: of 32 elements of 16 bits, 192
  // + 32 + 3 (256 + 32) + 96 + 32 = 1216, or of 16 of f32, 192 + 16 + 3 (256 + 16) + 80 + 16 = 1120; with 16 bytes of the loss.
  CHECK(bytes_sent(one, plan::CollectiveKind::AllReduce) == 1216 * 2 + 16);
  CHECK(bytes_sent(several, plan::CollectiveKind::AllReduce) == 1120 * 2 + 16);
  const auto whole = program("dp=2,zero=1"), parts = program("dp=2,zero=1,micro_batch=1");
  CHECK(bytes_sent(parts, plan::CollectiveKind::ReduceScatter) == bytes_sent(whole, plan::CollectiveKind::ReduceScatter));
}
