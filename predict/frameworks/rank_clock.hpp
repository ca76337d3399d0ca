#pragma once
// How far host, device and messages of one rank have come in a framework's step, and what the device waited for.

#include <algorithm>

#include "costmodel/kernel_rows.hpp"

namespace rehearsal::predict::frameworks {

/// What one stage hands to another.
struct HandedOver {
  static constexpr double kUnknown = -1;
  double sent = 0, arrived = kUnknown;
};

/// Host, device and messages of one rank.
class RankClock {
 public:
  /// `host_progressed`: messages are moved by the threads that compute.
  RankClock(double interference, bool host_progressed) : interference_(interference), host_progressed_(host_progressed) {}

  /// Kernels that the host issues. Beside messages that are on their way they lose a share of their speed.
  void run(const costmodel::LaunchQueue& q) {
    const double seconds = slowed(q.device, messages_ - device_);
    exposed_ += seconds - q.device;
    busy_ += q.device;
    device_ = std::max(device_ + seconds, host_ + q.both);
    host_ += q.host;
  }
  /// A message from another stage: the host waits for it, too. Until it is sent this is the bubble, where nothing of its own is on its way.
  void wait_for_stage(const HandedOver& message) {
    const double waited = std::max(0.0, message.arrived - device_);
    const double bubble = std::clamp(message.sent - std::max({device_, messages_, sends_}), 0.0, waited);
    bubble_ += bubble;
    exposed_ += waited - bubble;
    handovers_ += waited - bubble;
    device_ = std::max(device_, message.arrived);
    host_ = std::max(host_, message.arrived);
  }
  void wait_for_messages(double until) {
    exposed_ += std::max(0.0, until - device_);
    device_ = std::max(device_, until);
  }
  /// A collective that begins when the device is here and those before it are over. Returns when it ends.
  double start(double seconds) {
    if (host_progressed_) return messages_ = moved(seconds);
    return messages_ = std::max(messages_, device_) + seconds;
  }
  /// Sends to one neighbour follow each other.
  double send(double seconds) {
    if (host_progressed_) return moved(seconds);
    return sends_ = std::max(sends_, device_) + seconds;
  }

  [[nodiscard]] double device() const { return device_; }
  [[nodiscard]] double host() const { return host_; }
  [[nodiscard]] double messages() const { return messages_; }
  [[nodiscard]] double bubble() const { return bubble_; }
  [[nodiscard]] double exposed() const { return exposed_; }
  [[nodiscard]] double handovers() const { return handovers_; }
  [[nodiscard]] double busy() const { return busy_; }

 private:
  double moved(double seconds) {
    exposed_ += seconds;
    return device_ += seconds;
  }
  [[nodiscard]] double slowed(double seconds, double busy) const {
    if (busy <= 0 || seconds <= 0) return seconds;
    const double alone = seconds / (1 - interference_);
    return alone <= busy ? alone : seconds + interference_ * busy;
  }

  double interference_;
  bool host_progressed_;
  double host_ = 0, device_ = 0, messages_ = 0, sends_ = 0;
  double bubble_ = 0, exposed_ = 0, handovers_ = 0, busy_ = 0;
};

}  // namespace rehearsal::predict::frameworks
