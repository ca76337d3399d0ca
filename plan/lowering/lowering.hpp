#pragma once
// From a training graph and a plan to the Program that every rank plays.

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "graph/training.hpp"
#include "plan/backend.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/program/program.hpp"
#include "plan/sharding/rule_book.hpp"

namespace rehearsal::plan {

/// What a pass left of the role of the rank that stands for it.
struct PassResult {
  std::string_view pass, leaves;
  const Program& program;  ///< without its roles
  const Role& role;
};

/// Of the devices of a stage.
struct StageSpeed {
  FlopsPerSecond flops;  ///< in products
  BytesPerSecond bytes;  ///< moved in memory
  Seconds launch;        ///< of a kernel
};

struct LoweringOptions {
  int threads = 1;                         ///< of one rank
  std::int64_t bucket_bytes = 25'000'000;  ///< gradients are reduced in buckets of about this size
  /// Links of one group of every kind along one of a Program's axes: what is not named by the plan takes the algorithm whose closed form on
  /// the slowest of them is least, message by message. Absent: rings. The Program has ranks and axes, and no roles yet.
  std::function<std::vector<CollectiveLinks>(const Program& mesh, std::size_t axis)> links;
  std::shared_ptr<const graph::LogicalDims> dims;  ///< of this graph, when already inferred
  std::shared_ptr<RuleBook> rules;                 ///< of this graph, filled as plans ask; absent: found anew
  std::vector<StageSpeed> stage_speeds;            ///< of the slowest device of every stage; empty: all alike
  std::function<int(int rank)> device_of;          ///< ranks with equal numbers have equal devices; absent: all
  /// Holds the Program to plan/memory/check_messages.hpp, which can take as long as lowering: what is to run asks for it. Builds with
  /// assertions check every Program, others do where REHEARSAL_CHECK_PROGRAMS is set, as it is for the tests.
  bool check_messages = false;
  /// Hears of every pass over every role (plan/lowering/role_passes.hpp); absent: nobody does.
  std::function<void(const PassResult&)> after_pass;
};

/// Mesh of a plan's ranks, innermost first as plan.order says; axes of size 1 other than dp are left out. With experts `dp` counts the
/// copies of them, and `ep` the ranks of one: along both together lie the replicas of everything else.
[[nodiscard]] std::vector<MeshAxisInfo> mesh_of(const Plan&);

/// The axes, followed by one for every run of neighbouring ones but pp, named as "height.dp": ranks that differ along several axes sum at
/// once what is a sum along all of them.
[[nodiscard]] std::vector<MeshAxisInfo> with_joint_axes(std::vector<MeshAxisInfo> axes);

/// What refuses shares of the batch that differ, where equal ones would do.
class UnevenShares : public Refusal {
  using Refusal::Refusal;
};

/// Every reason why the plan does not suit the graph; empty when it does.
[[nodiscard]] std::vector<Violation> validate(const graph::TrainingGraph&, const Plan&);

/// Throws BadInput when validate() finds something, Refusal when the model cannot use the plan (naming the node in the way).
[[nodiscard]] Program lower(const graph::TrainingGraph&, const Plan&, const Backend&, const LoweringOptions&);

}  // namespace rehearsal::plan
