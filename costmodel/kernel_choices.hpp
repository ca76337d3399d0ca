#pragma once
// Which kernel runs a node where several can, as their times on a machine say. Part of what `rehearse calibrate` keeps.

#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::costmodel {

/// A kernel, by the name that its Backend has for it, and what one run of it took.
struct TimedKernel {
  std::string implementation;
  Seconds seconds;
  friend bool operator==(const TimedKernel&, const TimedKernel&) = default;
};

/// What kernels that can run one node took.
struct KernelChoice {
  std::string node;    ///< operator, attributes, local types and threads, as the Backend writes them
  std::string chosen;  ///< one of `timed`
  std::vector<TimedKernel> timed;
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

/// What times of kernels depend on besides the node.
struct KernelHome {
  std::string cpu, instructions, libraries;  ///< the processor's name; the best set that is used, and limits of it; versions
  /// "AMD EPYC 9R14 with avx512 and oneDNN 2.6.3"
  [[nodiscard]] std::string text() const;
  friend bool operator==(const KernelHome&, const KernelHome&) = default;
};

struct KernelChoices {
  KernelHome home;
  std::vector<KernelChoice> nodes;  ///< each node once
  [[nodiscard]] bool empty() const { return nodes.empty(); }
  /// Takes these in place of what is known of their nodes; of everything where they are from another home.
  void take(const KernelChoices& newer);
};

/// Of kernels in order of preference by a rule: the quickest, but the first unless another takes more than 3 % less: times of one kernel
/// differ by as much.
[[nodiscard]] KernelChoice choice_by_time(std::string node, std::vector<TimedKernel> timed);

}  // namespace rehearsal::costmodel
