#include "exec/timed_kernels.hpp"

#include <algorithm>
#include <functional>
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
double bytes_for(const bench::Case& node) {
  const bench::CaseNode whole(node);
  double bytes = 0;
  for (const auto* types : {&whole.inputs(), &whole.outputs()})
    for (const auto& type : *types) bytes += type ? graph::size_of(*type).value() : 0;
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

  [[nodiscard]] std::string text() const {
    auto text = kernels_.front().node();
    for (const auto& kernel : kernels_) text += ' ' + kernel.kernel().implementation;
    return text;
  }

  void run_for(double seconds, Communicator* world) {
    for (auto& kernel : kernels_) kernel.run();  // makes machine code
    const double begin = now_seconds();
    for (int round = 1; round <= kMostRounds; ++round) {
      for (auto& kernel : kernels_) kernel.run();
      if (!anywhere(world, now_seconds() - begin < seconds) && round >= kLeastRounds) return;
    }
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
  static constexpr int kLeastRounds = 3, kMostRounds = 40;

  /// Other work on the machine only adds. Of one thread its processor time, of several the wall clock.
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
  costmodel::KernelChoices choices{bench::kernel_home(), {}};
  const double room = bench::memory_to_measure_in() / (timing.world == nullptr ? 1 : timing.world->local_size());
  const double each = timing.seconds / static_cast<double>(std::max<std::size_t>(1, nodes.size()));
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    progress.advance("nodes with several kernels", static_cast<double>(n), static_cast<double>(nodes.size()));
    if (anywhere(timing.world, progress.stop_requested())) break;
    if (anywhere(timing.world, bytes_for(nodes[n]) > room)) continue;
    Contest contest(nodes[n], backend, timing.threads);
    require_same_kernels(timing.world, contest.text());
    contest.run_for(each, timing.world);
    choices.nodes.push_back(contest.choice(timing.world));
  }
  return choices;
}

}  // namespace rehearsal::exec
