#include "predict/simulation.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <type_traits>

#include "base/error.hpp"
#include "base/module.hpp"

namespace rehearsal::predict {
namespace {

constexpr ModuleNames kSimulator{"librehearsal_sim.so", "REHEARSAL_SIM_MODULE", "the simulator",
                                 "It is built where SimGrid 3.32 or later is (libsimgrid-dev on Debian); the closed form needs none of "
                                 "this: --fidelity closed",
                                 "rehearsal_make_simulator"};
using Factory = StepEvaluator* (*)(const char* fidelity);

std::unique_ptr<StepEvaluator> load(const std::string& fidelity) {
  const auto module = open_module(kSimulator);
  std::unique_ptr<StepEvaluator> evaluator(reinterpret_cast<Factory>(module.factory)(fidelity.c_str()));
  if (!evaluator)
    throw EnvironmentFailure(module.file.string() + " has no fidelity '" + fidelity + "': it belongs to another version of this program");
  return evaluator;
}

// ---- a cost as bytes

template <class T>
void put(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
void put(std::string& bytes, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  put(bytes, values.size());
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  void take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    copy(&value, sizeof value);
  }

  template <class T>
  void take(std::vector<T>& values) {
    std::size_t count = 0;
    take(count);
    if (count > bytes_.size() / sizeof(T)) throw EnvironmentFailure(kCut);
    values.resize(count);
    copy(values.data(), count * sizeof(T));
  }

 private:
  static constexpr const char* kCut = "the simulator ended before it had answered";

  void copy(void* to, std::size_t size) {
    if (size > bytes_.size()) throw EnvironmentFailure(kCut);
    if (size > 0) std::memcpy(to, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }

  std::string_view bytes_;
};

std::string bytes_of(const StepCost& cost) {
  std::string bytes;
  put(bytes, cost.total);
  put(bytes, cost.step);
  put(bytes, cost.breakdown);
  put(bytes, cost.limiting_rank);
  put(bytes, cost.imbalance);
  put(bytes, cost.devices_energy);
  put(bytes, cost.links_energy);
  put(bytes, cost.busy_seconds);
  put(bytes, cost.events);
  put(bytes, cost.timeline.size());
  for (const auto& rank : cost.timeline) put(bytes, rank);
  return bytes;
}

StepCost cost_of(std::string_view bytes) {
  StepCost cost;
  Reader reader(bytes);
  reader.take(cost.total);
  reader.take(cost.step);
  reader.take(cost.breakdown);
  reader.take(cost.limiting_rank);
  reader.take(cost.imbalance);
  reader.take(cost.devices_energy);
  reader.take(cost.links_energy);
  reader.take(cost.busy_seconds);
  reader.take(cost.events);
  std::size_t ranks = 0;
  reader.take(ranks);
  for (std::size_t r = 0; r < ranks; ++r) reader.take(cost.timeline.emplace_back());
  return cost;
}

// ---- the worker

/// First byte of an answer: an exit status, Done for a cost.
std::string answer(const EvaluationRequest& request, const std::string& fidelity) {
  const auto failed = [](ExitStatus status, const char* what) { return std::string(1, static_cast<char>(status)) + what; };
  try {
    return std::string(1, static_cast<char>(ExitStatus::Done)) + bytes_of(load(fidelity)->evaluate(request));
  } catch (const Error& error) {
    return failed(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(ExitStatus::Environment, "memory ran out during the simulation; --fidelity folded and closed need less");
  } catch (const std::exception& error) {
    return failed(ExitStatus::Internal, error.what());
  }
}

[[noreturn]] void serve(const EvaluationRequest& request, const std::string& fidelity, int result, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGINT, SIGTERM, SIGABRT}) std::signal(number, SIG_DFL);
  dup2(errors, STDERR_FILENO);
  const auto bytes = answer(request, fidelity);
  for (std::size_t done = 0; done < bytes.size();) {
    const auto written = write(result, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR) _exit(1);
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  _exit(0);
}

class Pipe {
 public:
  Pipe() {
    if (pipe(ends_.data()) != 0) throw EnvironmentFailure(std::string("no pipe to the simulator: ") + std::strerror(errno));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_reader();
    close_writer();
  }
  [[nodiscard]] int reader() const { return ends_[0]; }
  [[nodiscard]] int writer() const { return ends_[1]; }
  void close_reader() { close_end(0); }
  void close_writer() { close_end(1); }

 private:
  void close_end(std::size_t end) {
    if (ends_[end] >= 0) close(ends_[end]);
    ends_[end] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

/// A forked process; killed and collected when this goes.
class Worker {
 public:
  Worker(const EvaluationRequest& request, const std::string& fidelity) {
    process_ = fork();
    if (process_ < 0) throw EnvironmentFailure(std::string("no process for the simulation: ") + std::strerror(errno));
    if (process_ == 0) serve(request, fidelity, result_.writer(), errors_.writer());
    result_.close_writer();
    errors_.close_writer();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  /// Everything it answers until it closes its end.
  std::string read_answer(Seconds limit) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.value()));
    std::string bytes;
    std::array<pollfd, 2> open{pollfd{result_.reader(), POLLIN, 0}, pollfd{errors_.reader(), POLLIN, 0}};
    while (open[0].fd >= 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) throw EnvironmentFailure("the simulation did not end within " + to_text(limit));
      if (poll(open.data(), open.size(), static_cast<int>(std::min<long long>(left, 1'000'000))) <= 0) continue;
      receive(open[0], bytes);
      receive(open[1], said_);
    }
    for (open[1].revents = POLLIN; open[1].fd >= 0;) receive(open[1], said_);
    return bytes;
  }

  /// How it died, and its last words.
  [[nodiscard]] std::string obituary() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    std::string text = "the simulator's process ended early";
    if (WIFSIGNALED(status)) text += std::string(" (") + strsignal(WTERMSIG(status)) + ")";
    while (!said_.empty() && said_.back() == '\n') said_.pop_back();
    if (!said_.empty()) text += "; its last line: " + said_.substr(said_.rfind('\n') + 1);
    return text;
  }

 private:
  static void receive(pollfd& from, std::string& into) {
    if (from.fd < 0) return;
    std::array<char, 65536> block;
    if (from.revents == 0) return;
    const auto got = read(from.fd, block.data(), block.size());
    if (got > 0) into.append(block.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) from.fd = -1;
  }

  Pipe result_, errors_;
  pid_t process_ = -1;
  std::string said_;
};

[[noreturn]] void rethrow(ExitStatus status, const std::string& message) {
  switch (status) {
    case ExitStatus::BadInput:
      throw BadInput(message);
    case ExitStatus::Refused:
      throw Refusal(message);
    case ExitStatus::Environment:
      throw EnvironmentFailure(message);
    default:
      throw InternalError(message);
  }
}

class Simulator final : public StepEvaluator {
 public:
  Simulator(std::string_view fidelity, Seconds limit) : fidelity_(fidelity), limit_(limit) {}
  [[nodiscard]] std::string_view name() const override { return fidelity_; }

  [[nodiscard]] StepCost evaluate(const EvaluationRequest& request) override {
    Worker worker(request, fidelity_);
    const auto bytes = worker.read_answer(limit_);
    if (bytes.empty()) throw EnvironmentFailure(worker.obituary());
    const auto status = static_cast<ExitStatus>(bytes.front());
    if (status != ExitStatus::Done) rethrow(status, bytes.substr(1));
    return cost_of(std::string_view(bytes).substr(1));
  }

 private:
  std::string fidelity_;
  Seconds limit_;
};

}  // namespace

std::unique_ptr<StepEvaluator> open_simulator(std::string_view fidelity, Seconds limit) {
  if (fidelity != "full" && fidelity != "folded")
    throw BadInput("fidelity '" + std::string(fidelity) + "'", "the simulator knows full and folded");
  return std::make_unique<Simulator>(fidelity, limit);
}

}  // namespace rehearsal::predict
