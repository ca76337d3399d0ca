#include "plan/lowering/role_passes.hpp"

#include <array>

#include "base/checking.hpp"
#include "plan/collectives/message_arrivals.hpp"
#include "plan/lowering/apart.hpp"
#include "plan/lowering/bidirectional.hpp"
#include "plan/lowering/check_role.hpp"
#include "plan/lowering/deferral.hpp"
#include "plan/lowering/prefetch.hpp"
#include "plan/lowering/slots.hpp"
#include "plan/memory/planner.hpp"

namespace rehearsal::plan {
namespace {

bool always(const LoweringContext&) { return true; }
bool overlaps(const LoweringContext& c) { return c.plan.overlap; }
bool keeps_apart(const LoweringContext& c) { return !c.plan.overlap; }
bool is_bidirectional(const LoweringContext& c) { return c.pipeline.copies > 1; }
bool splits_backward(const LoweringContext& c) { return c.pipeline.schedule->splits_backward; }
bool trains_locally(const LoweringContext& c) { return c.plan.local_steps > 0; }
bool spreads_decompositions(const LoweringContext& c) { return c.plan.decompositions == Decompositions::Spread; }
bool has_stages(const LoweringContext& c) { return c.plan.pp > 1; }
bool plans_arrivals(const LoweringContext& c) { return c.backend.plans_arrivals(); }

template <void (RoleBuilder::*pass)()>
void on_copies(RoleWork& work) {
  for (const auto& copy : work.copies) (*copy.*pass)();
}

void open_bodies(RoleWork& work) {
  for (const auto& copy : work.copies) copy->open_bodies();
}

void prefetch_gathers(RoleWork& work) {
  for (const auto& copy : work.copies) prefetch_parameters(copy->role(), work.context.options.bucket_bytes);
}

void defer_sums_of_gradients(RoleWork& work) {
  for (const auto& copy : work.copies) defer_sums(copy->role(), work.context.options.bucket_bytes);
}

void keep_apart(RoleWork& work) {
  for (const auto& copy : work.copies) keep_collectives_apart(copy->role());
}

void join(RoleWork& work) {
  work.joined = std::move(work.copies.front()->role());
  if (work.copies.size() > 1)
    work.joined = joined_copies(std::move(work.joined), std::move(work.copies.back()->role()), work.context.plan.pp);
  work.copies.clear();
}

PipelineShape shape_of(const RoleWork& work) {
  return pipeline_shape(work.context.plan, micro_batches_of(work.context.program, work.rank));
}

void order_slots(RoleWork& work) {
  const auto& schedule = *work.context.pipeline.schedule;
  const auto shape = shape_of(work);
  work.joined.delay = schedule.weight_versions(work.stage, shape) - 1;
  set_slots(work.joined, schedule, shape);
}

void place_arrivals(RoleWork& work) { add_arrivals(work.joined, work.context.program); }

void lay_out_memory(RoleWork& work) {
  const auto& schedule = *work.context.pipeline.schedule;
  plan_memory(work.joined, schedule.in_flight(work.stage, shape_of(work)), schedule.asynchronous);
}

using Builder = RoleBuilder;

constexpr std::array kPasses{
    RolePass{"open bodies", "the stage's chunks", "empty bodies, in the order in which a micro-batch passes them", always, open_bodies},
    RolePass{"plan gradients", "what is summed over which ranks", "buckets, and a place in one for every gradient that is only summed",
             always, on_copies<&Builder::plan_gradients>},
    RolePass{"forward", "the stage's nodes", "kernels of the forward pass with their loads, conversions, messages and stashes", always,
             on_copies<&Builder::place_forward>},
    RolePass{"backward", "forward", "kernels of the backward pass, what they recompute and restore, and sums of gradients", always,
             on_copies<&Builder::place_backward>},
    RolePass{"weight gradients", "backward", "gradients that nobody waits for, in bodies of their own", splits_backward,
             on_copies<&Builder::place_weight_gradients>},
    RolePass{"sums of both copies", "all gradients", "what the two ranks of a stage have summed, exchanged and added", is_bidirectional,
             on_copies<&Builder::add_up_both_copies>},
    RolePass{"spread decompositions", "all gradients",
             "matrices that an optimizer decomposes shared out among replicas, and what each makes of them sent to all",
             spreads_decompositions, on_copies<&Builder::spread_decompositions>},
    RolePass{"update", "all gradients", "the optimizer, and running statistics", always, on_copies<&Builder::place_updates>},
    RolePass{"exchange shared parameters", "update", "updated parameters on every stage that reads them", has_stages,
             on_copies<&Builder::exchange_updated_parameters>},
    RolePass{"report loss", "update", "the step's loss, on the stage that has it", always, on_copies<&Builder::report_loss>},
    RolePass{"meet", "update", "what replicas that train by themselves do every few steps", trains_locally, on_copies<&Builder::meet>},
    RolePass{"close gathers", "all uses of sharded parameters", "gathers that share a message, with all that it carries", always,
             on_copies<&Builder::close_gathers>},
    RolePass{"prefetch", "gathers where they are used", "gathers ahead of their use, as far as memory for them goes", overlaps,
             prefetch_gathers},
    RolePass{"defer sums", "sums where they arrive", "sums of sharded gradients taken in late, behind the backward pass", overlaps,
             defer_sums_of_gradients},
    RolePass{"hold sums back", "sums where gradients are made", "the first sum behind the backward passes", keeps_apart,
             on_copies<&Builder::hold_sums_back>},
    RolePass{"keep collectives apart", "all instructions", "nothing computed beside a collective", keeps_apart, keep_apart},
    RolePass{"join copies", "one role a copy", "one role: bodies of both copies where there are two", always, join},
    RolePass{"order slots", "bodies", "which body runs for which micro-batch, as the schedule says", always, order_slots},
    RolePass{"plan arrivals", "messages", "where messages that come early are kept", plans_arrivals, place_arrivals},
    RolePass{"lay out memory", "lifetimes of buffers", "a place in the arena for every buffer", always, lay_out_memory},
};

RoleWork begin(const LoweringContext& context, int stage, int rank) {
  RoleWork work{context, stage, rank};
  for (int copy = 0; copy < context.pipeline.copies; ++copy)
    work.copies.push_back(std::make_unique<RoleBuilder>(context, RolePlace{stage, rank, copy}));
  return work;
}

}  // namespace

std::span<const RolePass> role_passes() { return kPasses; }

Role build_role(const LoweringContext& context, int stage, int rank, Watched watched) {
  auto work = begin(context, stage, rank);
  const bool checks = checks_every_pass();
  for (const RolePass& pass : kPasses) {
    if (!pass.applies(context)) continue;
    pass.run(work);
    if (checks) check_role(work.role(), pass.name);
    if (watched == Watched::Yes && context.options.after_pass)
      context.options.after_pass({pass.name, pass.leaves, context.program, work.role()});
  }
  return std::move(work.joined);
}

}  // namespace rehearsal::plan
