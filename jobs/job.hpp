#pragma once
// Trainings that share a cluster, before anybody decides who runs when.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/units.hpp"

namespace rehearsal::jobs {

/// That files may ask for.
inline constexpr int kMostJobs = 10'000, kMostDevicesOfJob = 1'000'000;

/// How a job goes on so many devices, with nobody beside it, while it writes no checkpoint (Contention::step_alone() adds those).
struct Pace {
  Seconds step;
  Seconds on_network;          ///< of the step: it waits for messages between nodes
  std::optional<Watts> power;  ///< that its devices draw together; nothing: their sustained maximum
  std::string plan;            ///< empty where the step was given
  std::string framework = {};  ///< that runs the plan; the same
};

/// A job as its file says it; `paces` are filled in by whoever can predict.
struct Job {
  std::string name, user;
  Seconds arrival;
  double steps = 1;
  int devices = 1;                  ///< that it asks for
  int least = 1, most = 1;          ///< that an elastic policy may give it; both `devices` where it cannot be resized
  double weight = 1;                ///< of its user's share
  std::optional<Seconds> estimate;  ///< of its duration, by its user; nothing: as predicted
  std::map<int, Pace> paces;        ///< by devices; at least that of `devices`
  // What is kept so that it can go on elsewhere, and how often.
  Bytes checkpoint;
  std::optional<Seconds> checkpoint_every;
  std::optional<Seconds> restart;  ///< from the moment it is given devices again until it trains; nothing: platforms::restart_time_of()

  [[nodiscard]] const Pace& pace(int on) const { return paces.at(on); }
};

/// How a job is trained that says no step: what is to be predicted.
struct TrainingOfJob {
  std::string model, dtype = "f32", optimizer = "sgd", framework, plan;
  std::optional<std::int64_t> batch;
  std::optional<double> tokens;
};

struct JobEntry {
  Job job;
  std::optional<TrainingOfJob> training;
};

}  // namespace rehearsal::jobs
