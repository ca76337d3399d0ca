#include "exec/checkpoint/checkpoint_part.hpp"

#include <nlohmann/json.hpp>

#include "plan/sharding/copies.hpp"

namespace rehearsal::exec {
namespace {

using Json = nlohmann::ordered_json;

/// One part per rank that holds something which no rank before it holds.
std::string part_name(const plan::Program& program, int rank) {
  const auto stage = "stage-" + std::to_string(program.role(rank).stage);
  for (int other = 0; other < rank; ++other)
    if (program.role(other).stage == program.role(rank).stage) return stage + "-rank-" + std::to_string(rank) + ".bin";
  return stage + ".bin";
}

/// Of the ranks that hold the same block the first one writes it.
bool writes(const plan::Program& program, int rank, const plan::Layout& layout) {
  const auto at = plan::position(program, rank, 0);
  for (std::size_t a = 0; a < layout.size(); ++a)
    if (!layout[a].split() && at[a] != 0) return false;
  return true;
}

Json to_json(const plan::Region& region) {
  Json dims = Json::array();
  for (const auto& set : region) {
    auto& ranges = dims.emplace_back(Json::array());
    for (const auto& r : set) ranges.push_back({r.begin, r.end});
  }
  return dims;
}

}  // namespace

bool is_saved(const graph::Tensor& tensor) {
  const auto role = tensor.role;
  return role == graph::TensorRole::Parameter || role == graph::TensorRole::State ||
         (role == graph::TensorRole::Slot && !graph::is_measured(tensor.name));
}

std::string own_name(const plan::Program& program, int rank, const graph::Tensor& tensor) {
  if (program.plan.local_steps == 0 || tensor.role != graph::TensorRole::Slot || !is_float(tensor.type.dtype)) return {};
  return tensor.name + of_replica(program, rank);
}

PartPlan::PartPlan(Executor& executor, const Training& training) : file_(part_name(training.program, training.world.rank())) {
  Json tensors = Json::array();
  const auto add = [&](graph::TensorId t, int age, const std::string& name_of_it, const char* role) {
    const auto& type = training.graph.graph[t].type;
    const auto size = static_cast<std::size_t>(executor.stored_bytes(t));
    tensors.push_back({{"name", name_of_it},
                       {"role", role},
                       {"dtype", std::string(name(type.dtype))},
                       {"shape", type.shape},
                       {"region", to_json(executor.stored_region(t))},
                       {"offset", bytes_},
                       {"bytes", size}});
    blocks_.push_back({t, age});
    bytes_ += size;
  };
  const int rank = training.world.rank();
  for (auto t : executor.stored_tensors()) {
    const auto& tensor = training.graph.graph[t];
    if (!is_saved(tensor)) continue;
    if (const auto own = own_name(training.program, rank, tensor); !own.empty()) add(t, 0, own, kKept);
    if (!writes(training.program, rank, executor.stored_layout(t))) continue;
    for (int age = 0; age < executor.versions(t); ++age)
      add(t, age, aged(tensor.name, age), tensor.role == graph::TensorRole::Slot ? kSlot : age > 0 ? kOlder : "value");
  }
  for (const auto& v : executor.kept().all()) {
    if (!v.written) continue;
    const auto& kept = executor.kept().buffer(v);
    const auto& shape = kept.shapes.front();
    tensors.push_back({{"name", v.name},
                       {"role", kKept},
                       {"dtype", std::string(name(kept.dtype))},
                       {"shape", shape},
                       {"region", to_json(plan::whole_region(shape))},
                       {"offset", bytes_},
                       {"bytes", kept.bytes}});
    bytes_ += static_cast<std::size_t>(kept.bytes);
  }
  tensors_ = tensors.dump();
}

std::string PartPlan::copy(Executor& executor) const {
  std::string bytes(bytes_, '\0');
  auto* to = reinterpret_cast<std::byte*>(bytes.data());
  for (const auto& block : blocks_) {
    executor.read_stored(block.tensor, block.age, to);
    to += executor.stored_bytes(block.tensor);
  }
  for (const auto& v : executor.kept().all()) {
    if (!v.written) continue;
    executor.kept().read(v, to);
    to += executor.kept().buffer(v).bytes;
  }
  return bytes;
}

}  // namespace rehearsal::exec
