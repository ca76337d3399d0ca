#pragma once
// Who runs when. A policy is a row (jobs/policies/policy_table.cpp) of a file of its own in jobs/policies/.

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "jobs/cluster.hpp"
#include "jobs/job.hpp"

namespace rehearsal::jobs {

enum class JobPhase : std::uint8_t { Coming, Waiting, Running, Done };

/// A job while a schedule is played.
struct JobState {
  const Job* job = nullptr;
  JobPhase phase = JobPhase::Coming;
  double left = 0;                     ///< steps
  Seconds alone;                       ///< that the whole job takes on what it asks for, without waiting and sharing
  Devices devices;                     ///< that it holds
  Seconds step;                        ///< now, what it shares included
  Seconds trains_from;                 ///< until then it starts again
  bool begun = false;                  ///< has trained before
  Seconds first_start, since, finish;  ///< since: it holds these devices
  Seconds served;                      ///< times its devices: device-seconds
  double contenders = 0;               ///< integral over its life of how many jobs there are, itself included (seconds)
  int restarts = 0;
};

/// What policies see and do.
class Schedule {
 public:
  virtual ~Schedule() = default;
  [[nodiscard]] virtual Seconds now() const = 0;
  [[nodiscard]] virtual const Cluster& cluster() const = 0;
  [[nodiscard]] virtual std::span<const JobState> jobs() const = 0;
  /// When a running job ends: by its user's estimate where there is one, else as it goes on now.
  [[nodiscard]] virtual Seconds expected_end(std::size_t job) const = 0;
  virtual void start(std::size_t job, const Devices&) = 0;
  /// It waits again, and starts from where it was.
  virtual void stop(std::size_t job) = 0;

  /// In order of arrival.
  [[nodiscard]] std::vector<std::size_t> waiting() const { return in_phase(JobPhase::Waiting); }
  [[nodiscard]] std::vector<std::size_t> running() const { return in_phase(JobPhase::Running); }
  /// Starts a job on as many devices as it asks for where there is room; says whether there was.
  bool start_where_room(std::size_t job, const Devices& reserved = {});

 private:
  [[nodiscard]] std::vector<std::size_t> in_phase(JobPhase) const;
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// After every arrival and end, and at wake().
  virtual void decide(Schedule&) = 0;
  /// When it wants to be asked although nothing happens.
  [[nodiscard]] virtual std::optional<Seconds> wake(const Schedule&) const { return std::nullopt; }
};

struct PolicySettings {
  Seconds slice{3600};  ///< after which devices are given anew, by policies that take them away
};

struct PolicyRow {
  std::string_view name;
  std::string_view description;  ///< with its source
  bool work_conserving = false;  ///< no device is idle on which a waiting job would have room
  bool resizes = false;
  bool slices = false;  ///< gives devices anew after every PolicySettings::slice
  std::unique_ptr<Policy> (*make)(const PolicySettings&);
};
[[nodiscard]] std::span<const PolicyRow> policy_table();

/// Finish-time fairness (Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020): the time that a job takes over
/// the time it would take alone on its share of the cluster, an n-th of it where n jobs are there in the mean of its life. `taken` so far
/// or in the end. At most 1: sharing costs the job nothing.
[[nodiscard]] double finish_time_fairness(const JobState&, Seconds taken, double contenders, int cluster_devices);

}  // namespace rehearsal::jobs
