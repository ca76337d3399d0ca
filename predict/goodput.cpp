#include "predict/goodput.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/short_number.hpp"
#include "platforms/usual_figures.hpp"
#include "predict/assessment.hpp"

namespace rehearsal::predict {
namespace {

constexpr double kDay = 86400;
constexpr double kLeastEffective = 0.01;

/// The devices of one group of nodes that a plan uses.
struct Used {
  const platforms::NodeGroup* group;
  int devices;
  [[nodiscard]] int nodes() const { return (devices + group->devices - 1) / group->devices; }
};

std::vector<Used> used_of(const platforms::Platform& platform, int ranks) {
  std::vector<Used> used;
  for (const auto& group : platform.nodes) {
    const int own = std::min(ranks, group.count * group.devices);
    if (own > 0) used.push_back({&group, own});
    ranks -= own;
  }
  return used;
}

constexpr int kDigits = 3;  // of numbers in sentences

/// "12 s", "3.4 h", "2 d"
std::string duration(Seconds time) {
  constexpr std::pair<double, const char*> kUnits[] = {{2 * kDay, "d"}, {2 * 3600, "h"}, {2 * 60, "min"}};
  for (const auto& [least, unit] : kUnits)
    if (time.value() >= least) return short_number(time.value() / (least / 2), kDigits) + " " + unit;
  return to_text(time);
}

bool asks(const GoodputQuestion& q) {
  return q.every || q.failures_per_device_day || q.wait || q.restart || q.replacement || q.storage || q.spares != 0;
}

void require(bool right, const char* option, const char* what) {
  if (!right) throw BadInput(option, what);
}

void check(const GoodputQuestion& q, const platforms::Platform& platform) {
  const auto time = [](const std::optional<Seconds>& t) { return !t || (t->value() >= 0 && std::isfinite(t->value())); };
  require(!asks(q) || q.steps > 1, "--failures, --checkpoint-every, --checkpoint-wait, --restart, --replacement, --storage and --spares",
          "are about a whole training, and one step is none: give more with --steps, --epochs and --dataset, or --tokens");
  const double failures = q.failures_per_device_day.value_or(0);
  require(failures >= 0 && std::isfinite(failures), "--failures", "must be a number of failures for a device and day, from 0 on");
  require(time(q.wait), "--checkpoint-wait", "must be a time from 0 on, for example 5s");
  require(time(q.restart), "--restart", "must be a time from 0 on, for example 10min");
  require(time(q.replacement), "--replacement", "must be a time from 0 on, for example 4h");
  require(!q.storage || (q.storage->value() > 0 && std::isfinite(q.storage->value())), "--storage",
          "must be more than 0, for example 2GB/s");
  const int devices = platforms::device_count(platform);
  if (q.spares < 0 || q.spares >= devices)
    throw BadInput("--spares " + std::to_string(q.spares), "must be from 0 to " + std::to_string(devices - 1) + ": platform " +
                                                               platform.name + " has " + std::to_string(devices) + " devices");
}

/// What is known of the parts that a plan uses, and from where.
class Circumstances {
 public:
  Circumstances(const Assessment& a, const platforms::Platform& platform, const GoodputQuestion& q)
      : a_(a), platform_(platform), q_(q), used_(used_of(platform, a.ranks)) {
    find_failures();
    find_storage();
  }

  [[nodiscard]] bool known() const { return failures_known_ && storage_known_; }
  [[noreturn]] void refuse() const {
    if (!failures_known_)
      throw BadInput("--failures", "platform " + platform_.name + " does not say how often its devices fail; give --failures X (for a " +
                                       "device and day), or add \"time_between_failures\" to its device");
    throw BadInput("--storage", "platform " + platform_.name + " does not say how quickly a node writes checkpoints; give --storage " +
                                    "2GB/s, or add \"storage_bandwidth\" to its nodes");
  }

  [[nodiscard]] Goodput goodput() {
    Goodput g;
    g.run = {a_.step, q_.steps, q_.steps};
    g.checkpoint = a_.checkpoint.all;
    g.writing = writing_;
    auto& d = g.disturbances;
    d.between_failures = Seconds(1 / failures_per_second_);
    d.writing = writing_;
    set_copying(d);
    set_restart(d);
    set_replacement(d);
    says_.emplace_back("low and high are by chance and by how far off the time of a step may be, not by these figures");
    g.rests_on = joined(says_, "; ");
    return g;
  }

  /// Of nodes that wait, from device `first` on.
  [[nodiscard]] costmodel::JobCost idle(int first, int last, Seconds time) const {
    Joules of_devices;
    const auto add = [&](int ranks, double sign) {
      for (const auto& u : used_of(platform_, ranks)) of_devices += u.group->device.idle_power.value * time * (sign * u.devices);
    };
    add(last, 1);
    add(first, -1);
    const auto all = costmodel::job_cost(platform_, last, time, of_devices), less = costmodel::job_cost(platform_, first, time, {});
    return {all.energy - less.energy, all.money - less.money, all.carbon_kg - less.carbon_kg};
  }

 private:
  void find_failures() {
    failures_known_ = true;
    std::set<std::string> said;
    for (const auto& u : used_) {
      const auto& own = u.group->device.time_between_failures;
      if (!own) {
        failures_known_ = false;
        break;
      }
      failures_per_second_ += u.devices / own->value.value();
      said.insert(with_source("mean time between failures of " + u.group->device.name + ": " + to_exact_text(own->value), *own));
    }
    if (q_.failures_per_device_day) {
      failures_known_ = true;
      failures_per_second_ = a_.ranks * *q_.failures_per_device_day / kDay;
      said = {"failures of a device in a day: " + short_number(*q_.failures_per_device_day, kDigits) + " (--failures)"};
    }
    says_.assign(said.begin(), said.end());
  }

  void find_storage() {
    storage_known_ = true;
    std::set<std::string> said;
    for (const auto& u : used_) {
      auto own = u.group->storage_bandwidth;
      if (q_.storage) own = platforms::Sourced<BytesPerSecond>(*q_.storage, "--storage");
      storage_known_ = storage_known_ && (own || platform_.storage_bandwidth);
      if (!own) continue;
      writing_ = std::max(writing_, a_.checkpoint.of_node / own->value);
      said.insert(with_source("a node writes " + to_exact_text(own->value) + " to storage", *own));
    }
    if (const auto& all = platform_.storage_bandwidth) {
      writing_ = std::max(writing_, a_.checkpoint.all / all->value);
      said.insert(with_source("all nodes together write " + to_exact_text(all->value) + " to storage", *all));
    }
    says_.insert(says_.end(), said.begin(), said.end());
  }

  /// Devices copy what they write to the host's memory; where the host's memory is theirs it is read and written once.
  void set_copying(Disturbances& d) {
    if (q_.wait) {
      d.copying = *q_.wait;
      d.writing = std::max(Seconds(0), writing_ - d.copying);
      says_.push_back("training waits " + duration(*q_.wait) +
                      " for a checkpoint (--checkpoint-wait), what is left to write is written beside it");
      return;
    }
    for (const auto& u : used_) {
      const auto& device = u.group->device;
      if (device.kind == platforms::DeviceKind::Cpu) {
        d.copying = std::max(d.copying, 2 * a_.checkpoint.of_rank / device.memory_bandwidth.value);
      } else if (device.host_bandwidth) {
        d.copying = std::max(d.copying, a_.checkpoint.of_rank / device.host_bandwidth->value);
      } else {
        d.copying = writing_;
        d.writing = Seconds(0);
        says_.push_back("training waits while a checkpoint is written: the platform does not say how quick the link of " + device.name +
                        " to the host's memory is");
        return;
      }
    }
    says_.emplace_back("checkpoints are copied to the host's memory while training waits, and written beside it");
  }

  /// Reading takes as long as writing.
  void set_restart(Disturbances& d) {
    auto start = platforms::restart_time_of(platform_);
    if (q_.restart) start = {*q_.restart, "--restart"};
    d.restarting = start.value + writing_;
    says_.push_back(with_source("a restart takes " + duration(start.value), start) +
                    " and the reading of a checkpoint, as long as writing it");
  }

  void set_replacement(Disturbances& d) {
    auto replacement = platform_.replacement_time;
    if (q_.replacement) replacement = platforms::Sourced<Seconds>(*q_.replacement, "--replacement");
    if (!replacement) {
      require(q_.spares == 0, "--spares",
              "say nothing where a node that fails is replaced at once; how long a repair takes is --replacement T, or "
              "\"replacement_time\" of the platform");
      says_.emplace_back("another node is there at once where one fails (--replacement T)");
      return;
    }
    const int spares = spare_nodes();
    d.waits = share_without_spare(spares, replacement->value, d.between_failures);
    d.waiting = replacement->value / (spares + 1.0);
    says_.push_back(with_source("a node that failed is back after " + duration(replacement->value), *replacement) + ", with " +
                    std::to_string(spares) + " to spare " + short_number(100 * d.waits, kDigits) + " % of failures wait for one");
  }

  /// Nodes are replaced whole.
  [[nodiscard]] int spare_nodes() const {
    const int free = platforms::device_count(platform_) - a_.ranks;
    const auto& group = platforms::node_of(platform_, a_.ranks - 1);
    if (q_.spares % group.devices != 0)
      throw BadInput("--spares " + std::to_string(q_.spares),
                     "nodes are replaced whole; write a multiple of " + std::to_string(group.devices) + ", the devices of one");
    if (q_.spares > free)
      throw Refusal("plan " + to_text(a_.plan) + " uses " + std::to_string(a_.ranks) + " devices and leaves " + std::to_string(free) +
                    " to be spares, not " + std::to_string(q_.spares) + "; use fewer ranks or --nodes N");
    return static_cast<int>(q_.spares / group.devices);
  }

  const Assessment& a_;
  const platforms::Platform& platform_;
  const GoodputQuestion& q_;
  std::vector<Used> used_;
  bool failures_known_ = false, storage_known_ = false;
  double failures_per_second_ = 0;
  Seconds writing_;
  std::vector<std::string> says_;
};

double steps_between(const Goodput& g, const std::optional<CheckpointEvery>& every) {
  if (!every) return best_steps_between(g.run, g.disturbances);
  if (every->steps == 0) return g.run.steps;  // at the end only
  const double steps =
      every->steps ? static_cast<double>(*every->steps) : std::max(1.0, std::round(every->time.value_or(g.run.step) / g.run.step));
  const double least = std::min(fewest_steps_between(g.run, g.disturbances), g.run.steps);
  if (steps < least)
    throw Refusal("--checkpoint-every: " + short_number(steps, kDigits) + " steps take " + duration(g.run.step * steps) +
                  " and a checkpoint of " + to_text(g.checkpoint) + " is written in " + duration(g.writing) +
                  ", so the next would wait for it; at least " + duration(g.run.step * least) + ", " +
                  std::to_string(static_cast<std::int64_t>(least)) + " steps");
  return std::min(steps, g.run.steps);
}

void require_an_end(const Goodput& g, int ranks) {
  if (g.effective() >= kLeastEffective) return;
  const auto& d = g.disturbances;
  throw Refusal("a training of " + duration(g.run.undisturbed()) + " would not end within a hundred times that: one of " +
                std::to_string(ranks) + " devices fails every " + duration(d.between_failures) + " in the mean, a restart takes " +
                duration(d.restarting + d.waiting * d.waits) + ", and " + duration(g.run.step * g.run.every + d.copying + d.writing) +
                " pass from the start of a piece until its checkpoint is written; use fewer devices, or others (--failures, --restart, "
                "--storage, --checkpoint-every)");
}

costmodel::JobCost sum(const costmodel::JobCost& a, const costmodel::JobCost& b, double times) {
  return {a.energy + b.energy * times, a.money + b.money * times, a.carbon_kg + b.carbon_kg * times};
}

}  // namespace

std::optional<Goodput> goodput_of(const Assessment& a, const platforms::Platform& platform, const GoodputQuestion& q) {
  check(q, platform);
  if (q.steps <= 1) return std::nullopt;
  Circumstances circumstances(a, platform, q);
  if (!circumstances.known()) {
    if (asks(q)) circumstances.refuse();
    return std::nullopt;
  }
  auto g = circumstances.goodput();
  const auto& d = g.disturbances;
  g.run.every = steps_between(g, q.every);
  g.finished = expected_finish(g.run, d);
  require_an_end(g, a.ranks);
  g.failures = expected_failures(g.run, d);
  // A restart that a failure ends is shorter: min(T, R) is M (1 - exp(-R / M)) in the mean.
  const double rate = 1 / d.between_failures.value();
  const Seconds restart = rate > 0 ? Seconds(-std::expm1(-rate * d.restarting.value()) / rate) : d.restarting;
  const Seconds idle = (restart + d.waiting * d.waits) * g.failures;
  g.spares = static_cast<int>(q.spares);
  g.cost = sum(circumstances.idle(0, a.ranks, idle), a.cost, (g.finished - idle) / a.step);
  g.cost = sum(g.cost, circumstances.idle(a.ranks, a.ranks + g.spares, g.finished), 1);
  return g;
}

costmodel::Interval finished_seconds(const Assessment& a, const Goodput& g) {
  const auto chance = finish(g.run, g.disturbances);
  // Two causes that are independent of each other, as costmodel::Total adds them.
  const auto& step = a.step_seconds;
  const double low = std::hypot(std::log(chance.value / chance.low), std::log(step.value / step.low));
  const double high = std::hypot(std::log(chance.high / chance.value), std::log(step.high / step.value));
  return {chance.value, chance.value * std::exp(-low), chance.value * std::exp(high)};
}

}  // namespace rehearsal::predict
