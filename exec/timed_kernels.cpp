#include "exec/timed_kernels.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/bench/measured.hpp"
#include "exec/kernels/kernel_tables.hpp"
#include "plan/lowering/lowering.hpp"

namespace rehearsal::exec {
namespace {

bench::Case case_of(const plan::LocalNode& node) {
  bench::Case c;
  c.op = std::string(node.schema.name);
  c.attributes = node.attributes;
  c.inputs.assign(node.inputs.begin(), node.inputs.end());
  c.outputs.assign(node.outputs.begin(), node.outputs.end());
  return c;
}

/// About what two kernels of it need at the same time: operands and results, and as much again to work in.
Bytes bytes_for(const bench::Case& node) {
  const bench::CaseNode whole(node);
  Bytes bytes;
  for (const auto* types : {&whole.inputs(), &whole.outputs()})
    for (const auto& type : *types)
      if (type) bytes += graph::size_of(*type);
  return 4 * bytes;
}

/// True everywhere where it is on one rank.
bool anywhere(Communicator* world, bool here) { return world == nullptr ? here : world->max(here ? 1 : 0) > 0; }

/// The kernels of one node, in turn so that all meet the same neighbours.
class Contest {
 public:
  Contest(const bench::Case& node, const ComputeBackend& backend, int threads) {
    kernels_.emplace_back(node, backend, threads);
    for (const auto& other : bench::by_other_kernels(node, backend, threads)) kernels_.emplace_back(other, backend, threads);
  }

  void run() {
    for (auto& kernel : kernels_) kernel.run();
  }

  [[nodiscard]] std::string text() const {
    auto text = kernels_.front().node();
    for (const auto& kernel : kernels_) text += ' ' + kernel.kernel().implementation;
    return text;
  }

  /// By the mean over the ranks of what it takes each.
  [[nodiscard]] costmodel::KernelChoice choice(Communicator* world) const {
    std::vector<double> own;
    for (const auto& kernel : kernels_) own.push_back(least_seconds(kernel));
    const auto all = world == nullptr ? own : world->exchange(own, "times of kernels");
    std::vector<costmodel::TimedKernel> timed;
    for (std::size_t k = 0; k < own.size(); ++k) {
      double sum = 0;
      for (std::size_t i = k; i < all.size(); i += own.size()) sum += all[i];
      timed.push_back(
          {kernels_[k].kernel().implementation, Seconds(sum * static_cast<double>(own.size()) / static_cast<double>(all.size()))});
    }
    return costmodel::choice_by_time(kernels_.front().node(), std::move(timed));
  }

 private:
  /// Other work on the machine only adds. Of one thread its processor time, of several the wall clock. The first run makes machine code.
  static double least_seconds(const bench::Measured& kernel) {
    const auto sample = bench::sample_of(kernel.kernel(), std::span(kernel.runs()).subspan(1));
    return (kernel.kernel().threads > 1 ? sample.wall_min : sample.cpu_min).value();
  }

  std::vector<bench::Measured> kernels_;
};

void require_same_kernels(Communicator* world, const std::string& own) {
  const auto first = world == nullptr ? own : world->broadcast(own);
  if (!anywhere(world, first != own)) return;
  throw Refusal("times of kernels: the ranks' machines have different kernels (" + first + (first == own ? "" : "; here " + own) +
                "); nothing can be chosen for all of them");
}

/// All nodes of a backend on all ranks.
class Timing {
 public:
  Timing(const ComputeBackend& backend, const KernelTiming& how, Progress& progress) : backend_(backend), how_(how), progress_(progress) {}

  /// As many nodes together as there is memory for, each group for its share of the time.
  std::vector<costmodel::KernelChoice> choices(std::span<const bench::Case> nodes) {
    const auto room = room_on_all();
    const auto fits = [&](const bench::Case& node) { return bytes_for(node).value() <= room.value(); };
    const auto all = static_cast<double>(std::ranges::count_if(nodes, fits));
    std::vector<Contest> group;
    Bytes used;
    for (const auto& node : nodes) {
      if (!fits(node)) continue;
      const auto bytes = bytes_for(node);
      if (used.value() + bytes.value() > room.value()) {
        finish(group, all);
        used = {};
      }
      if (anywhere(how_.world, progress_.stop_requested())) return std::move(chosen_);
      used += bytes;
      group.emplace_back(node, backend_, how_.threads);
      require_same_kernels(how_.world, group.back().text());
    }
    finish(group, all);
    return std::move(chosen_);
  }

 private:
  static constexpr int kLeastRounds = 3;

  /// Of the node that has least.
  [[nodiscard]] Bytes room_on_all() const {
    const auto here = bench::memory_to_measure_in();
    return how_.world == nullptr ? here : Bytes(-how_.world->max(-here.value() / how_.world->local_size()));
  }

  /// Round and round through all of them: repetitions of one kernel lie far apart, and between them the caches are overwritten.
  void finish(std::vector<Contest>& group, double all) {
    if (group.empty()) return;
    const double end = spent_ + how_.seconds * static_cast<double>(group.size()) / all, begin = now_seconds() - spent_;
    bool stopped = false;
    for (int round = 0; !stopped && (round <= kLeastRounds || anywhere(how_.world, now_seconds() - begin < end)); ++round)
      for (std::size_t n = 0; n < group.size() && !stopped; ++n) {
        group[n].run();
        progress_.advance("s", std::min(how_.seconds, now_seconds() - begin), how_.seconds);
        stopped = anywhere(how_.world, progress_.stop_requested());
      }
    spent_ = end;
    if (!stopped)
      for (const auto& contest : group) chosen_.push_back(contest.choice(how_.world));
    group.clear();
  }

  const ComputeBackend& backend_;
  const KernelTiming& how_;
  Progress& progress_;
  double spent_ = 0;  ///< of how_.seconds
  std::vector<costmodel::KernelChoice> chosen_;
};

}  // namespace

std::vector<bench::Case> nodes_with_choice(const graph::TrainingGraph& training, const plan::Plan& plan, const ComputeBackend& backend,
                                           int threads) {
  std::vector<bench::Case> nodes;
  std::set<std::string> seen;
  const plan::ListeningBackend listening(backend, [&](const plan::LocalNode& node, const plan::KernelOffer& offer) {
    if (!seen.insert(node_key(node)).second || !offer.timed.empty()) return;
    if (backend.offers(node).size() > 1) nodes.push_back(case_of(node));
  });
  plan::LoweringOptions options;
  options.threads = threads;
  (void)plan::lower(training, plan, listening, options);
  return nodes;
}

std::vector<bench::Case> nodes_with_choice(std::span<const bench::Case> sweep, const ComputeBackend& backend, int threads) {
  std::vector<bench::Case> nodes;
  std::set<std::string> seen;
  for (const auto& c : sweep)
    if (!bench::by_other_kernels(c, backend, threads).empty() && seen.insert(node_key(bench::CaseNode(c).on(threads))).second)
      nodes.push_back(c);
  return nodes;
}

costmodel::KernelChoices timed_choices(const ComputeBackend& backend, std::span<const bench::Case> nodes, const KernelTiming& timing,
                                       Progress& progress) {
  require_same_kernels(timing.world, std::to_string(nodes.size()) + " nodes that several of them can run");
  return {bench::kernel_home(), Timing(backend, timing, progress).choices(nodes)};
}

}  // namespace rehearsal::exec
