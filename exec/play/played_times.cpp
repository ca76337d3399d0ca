#include "exec/play/played_times.hpp"

#include <utility>

#include "base/cpu_time.hpp"
#include "exec/comm/communicator.hpp"

namespace rehearsal::exec {

void PlayedTimes::begin_step() { device_.forget_marks(); }

void PlayedTimes::begin() {
  if (!device_.is_host()) mark_ = device_.mark();
  began_ = now_seconds();
  busy_before_ = thread_seconds();
}

void PlayedTimes::end(predict::TimedInstruction instruction) {
  instruction.begin = began_;
  instruction.end = now_seconds();
  instruction.busy = thread_seconds() - busy_before_;
  if (!device_.is_host()) marks_.push_back({mark_, device_.mark()});
  played_.push_back(instruction);
}

std::vector<predict::TimedInstruction> PlayedTimes::take() {
  auto played = std::exchange(played_, {});
  if (device_.is_host()) return played;
  std::vector<predict::TimedInstruction> all;
  for (std::size_t i = 0; i < played.size(); ++i) {
    auto on_device = played[i];
    on_device.begin = device_.time_of(marks_[i].begin);
    on_device.end = device_.time_of(marks_[i].end);
    on_device.busy = on_device.end - on_device.begin;
    all.push_back(on_device);
  }
  marks_.clear();
  return all;
}

}  // namespace rehearsal::exec
