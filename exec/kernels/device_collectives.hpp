#pragma once
// Collectives that devices carry out among themselves, beside what each of them computes: what NCCL does for NVIDIA's GPUs.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/dtype.hpp"
#include "plan/collectives/collective.hpp"

namespace rehearsal::exec {

/// One rank's part in one. The vector is worked on in place, as the rows of plan's collective table do.
struct DeviceCollective {
  int group = -1;  ///< as join() numbered it
  plan::CollectiveKind kind = plan::CollectiveKind::AllReduce;
  graph::LabelKind reduction = graph::LabelKind::Sum;
  void* data = nullptr;
  DType dtype = DType::F32;
  std::int64_t count = 0;
  std::span<const std::int64_t> parts;             ///< AllGather, ReduceScatter: where the ranks' parts begin, and the end of the last one
  std::span<const plan::CollectiveStep> messages;  ///< the other kinds: what goes to whom and comes from whom (collectives/exchange.hpp)
};

/// What ranks do together while their devices get to know each other.
struct Meeting {
  /// All ranks of the group get what its first one has.
  std::function<std::string(std::span<const int> group, const std::string& own)> tell;
  /// Between two looks at what is not ready yet: throws where that takes too long, or a rank is lost. `since`: when the wait began.
  std::function<void(double since)> meanwhile;
};

/// Used from one thread. Failures of the devices and of what is between them throw EnvironmentFailure.
class DeviceCollectives {
 public:
  struct Times {
    double begin = 0, end = 0;  ///< of now_seconds()
  };

  DeviceCollectives() = default;
  DeviceCollectives(const DeviceCollectives&) = delete;
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;
  virtual ~DeviceCollectives() = default;

  /// "NCCL 2.28.9"
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual bool does(plan::CollectiveKind, DType, graph::LabelKind reduction) const = 0;
  /// A group that will have collectives, of which this rank is number `me`: its number from now on. All ranks of the job join theirs in the
  /// same order.
  [[nodiscard]] virtual int join(std::span<const int> group, int me) = 0;
  /// Begins when the device has done what it was asked for before, and what was started before has ended. All ranks of a group start the
  /// same ones in the same order. Returns its number, valid until forget().
  [[nodiscard]] virtual std::uint32_t start(const DeviceCollective&) = 0;
  /// Once it has said true, what the device is asked for from then on finds the result.
  [[nodiscard]] virtual bool done(std::uint32_t number) = 0;
  [[nodiscard]] virtual Times times(std::uint32_t number) = 0;  ///< of one that is done
  /// All must be done.
  virtual void forget() = 0;
};

}  // namespace rehearsal::exec
