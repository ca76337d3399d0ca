// What a rank keeps of a parameter: the optimizer's state, and the f32 copy of 16-bit training, lie as the parameter does.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/narrow_type.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

/// Nothing is tied, so that every parameter lies on one stage.
constexpr const char* kGpt = "gpt?layers=4&hidden=64&heads=4&seq=16&vocab=64&tied=0";
constexpr const char* kExperts = "moe?layers=2&hidden=32&heads=4&kv_heads=4&ffn=64&vocab=64&seq=16&experts=4&top_k=2&capacity=125";

struct Trained {
  std::string model, optimizer = "adam";
  DType dtype = DType::F32;
};

graph::TrainingGraph training_of(const Trained& t) {
  auto model = graph::zoo::build(t.model, 8);
  if (t.dtype != DType::F32) model = graph::with_narrow_type(model, t.dtype).graph;
  graph::TrainingOptions options;
  options.optimizer.name = t.optimizer;
  return graph::build_training_graph(graph::with_initial_values(model), options);
}

/// Bytes of parameters, their gradients and their state on one rank, where all gradients are kept for the update.
std::int64_t bytes_of_training(const graph::TrainingGraph& training, const Role& role) {
  std::int64_t bytes = 0;
  for (const auto& b : role.buffers) {
    if (b.part_of != kNoBuffer) continue;
    const bool stored = b.lifetime == Lifetime::Persistent && b.tensor != graph::TensorId::None &&
                        training.graph[b.tensor].role != graph::TensorRole::Constant;
    const bool gradient = b.lifetime == Lifetime::Step && b.category == MemoryCategory::Gradients;
    bytes += stored || gradient ? b.bytes : 0;
  }
  return bytes;
}

std::int64_t elements_on(const graph::TrainingGraph& training, const Role& role) {
  std::int64_t count = 0;
  for (const auto& p : training.parameters)
    for (const auto& b : role.buffers)
      if (b.tensor == p.value && b.lifetime == Lifetime::Persistent && b.part_of == kNoBuffer)
        count += graph::element_count(b.shapes.front());
  return count;
}

}  // namespace

TEST_CASE("Adam keeps 16 bytes a parameter of the rank in f32 and 18 in 16 bits, whatever the plan splits") {
  // f32: parameter, gradient and two moments of 4 bytes. 16 bits: 2, and sum of gradients, copy and two moments of 4.
  for (const auto& [model, plan] : std::vector<std::pair<const char*, const char*>>{{kGpt, "dp=2,micro_batch=2"},
                                                                                    {kGpt, "tp=2,micro_batch=2"},
                                                                                    {kGpt, "tp=4,sequence_parallel=on,micro_batch=2"},
                                                                                    {kGpt, "pp=2,micro_batch=2"},
                                                                                    {kGpt, "tp=2,pp=2,micro_batch=2"},
                                                                                    {kGpt, "cp=2,micro_batch=2"},
                                                                                    {kExperts, "dp=4,ep=2,micro_batch=1"},
                                                                                    {kExperts, "dp=2,tp=2,ep=2,micro_batch=2"}})
    for (const auto dtype : {DType::F32, DType::BF16, DType::F16}) {
      INFO(model << " by " << plan << " in " << name(dtype));
      const auto training = training_of({model, "adam", dtype});
      const auto program = lower(training, parse_plan(plan), TableBackend(), {});
      const std::int64_t each = dtype == DType::F32 ? 16 : 18;
      for (const auto& role : program.roles) {
        const auto elements = elements_on(training, role), bytes = bytes_of_training(training, role);
        CHECK(elements > 0);
        CHECK(bytes >= each * elements);
        // Gradients lie at multiples of 64 bytes in their buckets; the step is counted in one number of 8 bytes.
        CHECK(bytes <= each * elements + 64 * static_cast<std::int64_t>(training.parameters.size()) + 8);
      }
    }
}

TEST_CASE("state of every optimizer lies as its parameter does") {
  struct Split {
    const char *model, *plan;
    std::vector<DType> dtypes{DType::F32, DType::BF16};
  };
  const std::vector<Split> splits{{kGpt, "tp=2"},
                                  {"llama?layers=2&hidden=64&heads=4&kv_heads=2&ffn=96&vocab=64&seq=16", "tp=4", {DType::BF16}},
                                  {kExperts, "dp=2,ep=2"},
                                  {kExperts, "dp=2,tp=2,ep=2", {DType::BF16}},
                                  {"resnet18?image=64&classes=10", "tp=2", {DType::F32}},
                                  {kGpt, "dp=2,tp=2,zero=1"}};
  for (const auto& optimizer : graph::optimizer_table())
    for (const auto& [model, plan, dtypes] : splits)
      for (const auto dtype : dtypes) {
        INFO(optimizer.name << ", " << name(dtype) << ", " << model << " by " << plan);
        const auto training = training_of({model, std::string(optimizer.name), dtype});
        const auto program = lower(training, parse_plan(plan), TableBackend(), {});
        const auto& sharding = *program.sharding;
        int split = 0;
        for (const auto& p : training.parameters)
          for (const auto slot : p.slots)
            for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
              if (sharding.axes[a].deals_out_updates) continue;
              const auto& of_parameter = sharding.layout(p.value)[a];
              const auto &own = training.graph[slot].type.shape, &whole = training.graph[p.value].type.shape;
              const auto dim = static_cast<std::size_t>(of_parameter.split() ? of_parameter.dim : 0);
              // Sums of rows have no columns, and numbers nothing to split.
              const bool has_dimension = own.size() == whole.size() && (!of_parameter.split() || own[dim] == whole[dim]);
              const auto& layout = sharding.layout(slot)[a];
              // What is decomposed may lie in parts or whole, what is made of it is of whole matrices.
              const auto& name_of_slot = training.graph[slot].name;
              const bool within_matrix = of_parameter.split() && dim + 2 >= own.size();
              const bool is_whole =
                  name_of_slot.ends_with("_root") || name_of_slot.ends_with("_basis") || name_of_slot.ends_with("_inverse");
              if (within_matrix && is_whole) {
                CHECK(layout == AxisLayout{});
              } else if (within_matrix && name_of_slot.ends_with("_factor")) {
                CHECK((layout == AxisLayout{} || layout == of_parameter));
              } else {
                CHECK(layout == (has_dimension ? of_parameter : AxisLayout{}));
              }
              split += sharding.layout(slot)[a].split();
            }
        CHECK((split > 0 || training.parameters.front().slots.empty()));
        // What an update makes is stored as it lies: nothing of it is cut, or travels.
        for (const Conversion& c : sharding.conversions)
          CHECK((training.graph[c.tensor].role != graph::TensorRole::Updated || !c.consumers.empty() ||
                 std::ranges::all_of(c.steps, [&](const ConversionStep& step) { return sharding.axes[step.axis].deals_out_updates; })));
      }
}
