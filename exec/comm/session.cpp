#include <mpi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <ostream>
#include <thread>

#include "base/parse_number.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/comm/mpi_error.hpp"
#include "exec/comm/start_watch.hpp"

namespace rehearsal::exec {
namespace {

/// A container may forbid reading another process's memory, which Open MPI's shared-memory transport finds out only by failing messages.
bool memory_of_processes_is_readable() {
  int from = 1, to = 0;
  const iovec local{&to, sizeof to}, remote{&from, sizeof from};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof from);
}

/// Whether this node has a card that writes into memory by itself, as InfiniBand's do.
bool has_rdma_card() {
  std::error_code none;
  const auto cards = std::filesystem::directory_iterator("/sys/class/infiniband", none);
  return !none && cards != std::filesystem::directory_iterator();
}

/// Settings of Open MPI that the user has not made. Other implementations ignore them.
void prefer_settings() {
  constexpr int kKeep = 0;
  // Over TCP a receiver that asks for the rest of a message (put) asks behind its own bulk data, and a pair becomes half duplex.
  ::setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", kKeep);
  ::setenv("OMPI_MCA_btl_tcp_links", "2", kKeep);  // the same of other control messages
  // A longer message waits for a round trip before it leaves, which no latency and bandwidth of a link says: only where it hardly counts.
  ::setenv("OMPI_MCA_btl_tcp_eager_limit", "1052672", kKeep);                            // 1 MiB and its header
  if (!MpiSession::launched()) ::setenv("OMPI_MCA_ess_singleton_isolated", "1", kKeep);  // needs no daemon, which may refuse root
  // Debian leaves out what carries one-sided communication over TCP, and there is nothing else where no card does it.
  if (!has_rdma_card()) ::setenv("OMPI_MCA_osc", "^ucx", kKeep);
  if (!memory_of_processes_is_readable()) ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", kKeep);
}

/// While MPI starts in a process by itself: without a session folder. Such processes share one, which the first that ends may remove while
/// another begins, and alone there is no use for it. An mpirun that this process starts later needs its own.
class NoSessionFolder {
 public:
  NoSessionFolder() : set_(!MpiSession::launched() && std::getenv(kVariable) == nullptr) {
    if (set_) ::setenv(kVariable, "0", 1);
  }
  ~NoSessionFolder() {
    if (set_) ::unsetenv(kVariable);
  }
  NoSessionFolder(const NoSessionFolder&) = delete;
  NoSessionFolder& operator=(const NoSessionFolder&) = delete;

 private:
  static constexpr const char* kVariable = "OMPI_MCA_orte_create_session_dirs";
  bool set_;
};

std::optional<double> stall_seconds_of_environment() {
  const char* text = std::getenv("REHEARSAL_STALL_SECONDS");
  if (text == nullptr) return std::nullopt;
  const auto seconds = parse_number<double>(text);
  if (!seconds || !std::isfinite(*seconds) || *seconds <= 0.0)
    throw BadInput("REHEARSAL_STALL_SECONDS=" + std::string(text), "must be a positive number of seconds");
  return seconds;
}

}  // namespace

void check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw EnvironmentFailure("MPI failed while " + std::string(what) + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

bool MpiSession::launched() {
  static constexpr std::array kSetByLaunchers{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  return std::ranges::any_of(kSetByLaunchers, [](const char* variable) { return std::getenv(variable) != nullptr; });
}

void MpiSession::end_within(double seconds, int status) {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    ::_exit(status);
  }).detach();
}

namespace {

void refuse_several_alone() {
  for (const char* variable : {"SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS"}) {
    const char* text = std::getenv(variable);
    const auto tasks = text == nullptr ? std::nullopt : parse_number<int>(text);
    if (tasks && *tasks > 1)
      throw Error(ExitStatus::Usage,
                  std::string(variable) + "=" + text + ", but this process is alone: " + text +
                      " processes would each train by themselves. Start them so that MPI finds them all (srun --mpi=pmix, or "
                      "mpirun of the MPI that rehearse was built with), or unset " +
                      variable + " to train in one process");
  }
}

}  // namespace

MpiSession::MpiSession(std::ostream* told)
    : world_(nullptr, [](Communicator* c) { delete c; }), exceptions_at_start_(std::uncaught_exceptions()) {
  const auto stall_seconds = stall_seconds_of_environment();
  int initialized = 0;
  MPI_Initialized(&initialized);
  ensure(initialized == 0, "one MpiSession per process");
  prefer_settings();
  std::optional<StartWatch> watch;
  if (told != nullptr && !launched() && std::getenv("SLURM_STEP_ID") != nullptr) refuse_several_alone();  // Open MPI ends such a process
  if (told != nullptr && launched()) watch.emplace(start_seconds(stall_seconds, launched_ranks().value_or(1)), *told);
  const NoSessionFolder alone;
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "starting MPI");
  world_.reset(new Communicator());
  world_->stall_is_given_ = stall_seconds.has_value();
  if (stall_seconds) world_->set_stall_seconds(*stall_seconds);
}

MpiSession::~MpiSession() {
  const bool failed = std::uncaught_exceptions() > exceptions_at_start_;
  if (failed && world_ && world_->size() > 1) {
    static_cast<void>(world_.release());  // finishing MPI would wait for ranks that wait for this one
    return;
  }
  world_.reset();
  MPI_Finalize();
}

void refuse_lone_rank(const Communicator& world) {
  if (world.size() == 1) refuse_several_alone();
}

int run_as_rank(MpiSession& session, const std::function<int(Communicator&)>& body, const Tell& tell) {
  auto& world = session.world();
  if (world.size() == 1) return body(world);  // nobody else to end: the caller hears of failures as usual
  world.end_by([&](const Error& error) { world.end_all(error.what(), error.status(), tell); });
  try {
    const int status = body(world);
    world.describe_notes_by({});  // the job that it describes is gone
    world.barrier("the end");
    MpiSession::end_within(world.stall_seconds(), status);  // all is done, and finishing MPI would wait for a rank that stands still
    return status;
  } catch (const Error& error) {
    world.end_all(error.what(), error.status(), tell);
  } catch (const std::bad_alloc&) {
    world.end_all("out of memory", ExitStatus::Environment, tell);
  } catch (const std::exception& error) {
    world.end_all(error.what(), ExitStatus::Internal, tell);
  }
}

}  // namespace rehearsal::exec
