#pragma once
// Ranks and messages. The only folder that knows MPI, and only in its .cpp files.
// Every wait in here ends: a rank that awaits a peer for longer than the stall time throws EnvironmentFailure naming the peer.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "exec/comm/board.hpp"
#include "exec/comm/stall.hpp"

namespace rehearsal::exec {

/// Messages of one channel never match those of another, whatever their tags.
enum class Channel : std::uint8_t { Pipeline, Collective, Service };

/// A message under way. Moves as plain data; must be asked for with Communicator::done until it is.
struct Request {
  std::uint64_t handle = 0;
  int peer = -1;
  std::size_t bytes = 0;
  bool receives = false;
  bool active = false;
  bool held = false;  ///< not posted yet: see Communicator::slow_down
};

/// What one clock reading of this rank is on rank 0's clock: rank 0's = own + offset, give or take `uncertainty`.
struct ClockOffset {
  double offset_seconds = 0.0;
  double uncertainty_seconds = 0.0;  ///< half of the shortest round trip
};

/// Seconds of the steady clock that every time in this room is given in.
[[nodiscard]] inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class SlowMessages;

/// Where a rank says why a job ends: one sentence.
using Tell = std::function<void(const std::string& sentence)>;

/// The ranks that were started together. Made by MpiSession; used from one thread at a time.
class Communicator {
 public:
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(node_of_.size()); }
  [[nodiscard]] int local_rank() const { return local_rank_; }  ///< among the ranks of this node
  [[nodiscard]] int local_size() const { return local_size_; }  ///< ranks on this node
  [[nodiscard]] int cores() const { return cores_; }            ///< that this rank may compute on: its part of those that ranks share
  /// Nodes are numbered in the order of their lowest rank.
  [[nodiscard]] int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int nodes() const;
  /// Size of the largest runs of one length that `group` (world ranks) falls into by node: what the collectives' tables call
  /// ranks_per_node. 1 when the runs differ in length.
  [[nodiscard]] int ranks_per_node(std::span<const int> group) const;

  // Nonblocking messages. The memory must stay (and, when sending, stay unchanged) until done. 0 <= tag < 32768; messages of equal
  // peer, channel and tag arrive in the order in which they were sent. At most 2^31-1 bytes each.
  [[nodiscard]] Request send(int peer, const void* data, std::size_t bytes, Channel, int tag);
  [[nodiscard]] Request receive(int peer, void* data, std::size_t bytes, Channel, int tag);
  /// Lets messages advance. Throws EnvironmentFailure when the transport failed, InternalError when the sizes do not match.
  [[nodiscard]] bool done(Request&);
  /// Waits, yielding the core. `what` says what is awaited, for the message of a stall; `meanwhile` is called to move other things on.
  void wait(Request&, std::string_view what, const std::function<void()>& meanwhile = {});

  // For all ranks together. Small and rare: set-up, reports, agreement.
  void barrier(std::string_view what = "a barrier");
  /// Waits until `done` says true on every rank, however long it takes: meanwhile the ranks tell each other that they are there, so that
  /// one that stands still is found as in every other wait.
  void wait_for_all(const std::function<bool()>& done, std::string_view what);
  /// The same for `work` of rank 0, which sends no messages: a thread does it. Throws on rank 0 what it threw. A rank that is lost
  /// meanwhile ends the job without waiting for the work.
  void wait_for_rank_0(const std::function<void()>& work, std::string_view what);
  /// Every rank's values, in order of rank, the same number of each: what is computed from them has the same bits everywhere.
  [[nodiscard]] std::vector<double> exchange(std::span<const double> own, std::string_view what,
                                             const std::function<void()>& meanwhile = {});
  [[nodiscard]] double sum(double value);
  [[nodiscard]] double min(double value);
  [[nodiscard]] double max(double value);
  /// Rank 0 gets every rank's bytes in order of rank; the others an empty vector.
  [[nodiscard]] std::vector<std::string> gather(std::string_view bytes);
  /// Every rank gets rank 0's bytes.
  [[nodiscard]] std::string broadcast(std::string_view bytes);
  /// Against rank 0, from `rounds` round trips; collective.
  [[nodiscard]] ClockOffset clock_offset(int rounds = 32);

  /// What a wait that gives up throws: nothing came of `awaited` ("rank 3 to send fc1.weight") for the stall time.
  [[nodiscard]] EnvironmentFailure stalled(std::string_view awaited) const;
  /// Seconds without progress after which a wait gives up.
  [[nodiscard]] double stall_seconds() const { return stall_seconds_; }
  void set_stall_seconds(double seconds) { stall_seconds_ = seconds; }
  /// The same, unless REHEARSAL_STALL_SECONDS says otherwise.
  void adopt(const StallTime&);

  // What the ranks of this node are at; every wait looks at it, so that the end of a rank ends the others at once.
  void note(const BoardNote& note) { own_place().write(note); }
  struct Neighbour {
    int rank = 0;
    const BoardPlace* place = nullptr;
  };
  [[nodiscard]] std::vector<Neighbour> neighbours() const;  ///< ranks of this node, this one included
  /// How a note reads: "the forward pass of step 12: MatMul 'fc1'".
  using Describe = std::function<std::string(int rank, const BoardNote&)>;
  /// How a job ends whose ranks cannot unwind: end_all(), which tells as run_as_rank() does.
  void end_by(std::function<void(const Error&)> end) { end_ = std::move(end); }
  void describe_notes_by(Describe describe) { describe_ = std::move(describe); }
  [[nodiscard]] std::string described(int rank, const BoardNote& note) const;
  /// True on one rank of this node, the first that asks: who has failed writes down for all what they were at.
  [[nodiscard]] bool first_to_fail() { return places_.front()->claim(); }
  /// Throws EnvironmentFailure naming a rank of this node whose process has ended, and what it was at. Cheap: looks every 0.1 s.
  void require_neighbours();

  /// For tests: from now on what is sent leaves up to so many seconds later, at random, while its sender polls.
  void slow_down(std::uint64_t seed, double longest_seconds);

  /// Ends every rank with this status, after the sentence was told ("rank 3: …" unless rank 0). When several ranks fail of
  /// one cause, the lowest speaks; on its node nobody speaks behind it.
  [[noreturn]] void end_all(const std::string& sentence, ExitStatus, const Tell& tell);

 private:
  friend class MpiSession;
  struct Mpi;
  Communicator();
  ~Communicator();
  void send_text(int peer, std::string_view bytes, std::string_view what);
  std::string receive_text(int peer, std::string_view what);
  double ask_clock(int peer);
  void answer_clock(int peer);
  void poll_until(const std::function<bool()>& finished, std::string_view what, const std::function<void()>& meanwhile = {});
  [[nodiscard]] Request post(int peer, const void* data, std::size_t bytes, Channel, int tag);
  [[nodiscard]] bool held_back(Request&);

  /// Memory that the ranks of a node share.
  void make_board();
  void share_cores();
  [[nodiscard]] BoardPlace& own_place() { return *places_[static_cast<std::size_t>(local_rank_)]; }
  [[nodiscard]] std::string at_what(const Neighbour&) const;

  std::unique_ptr<Mpi> mpi_;
  std::unique_ptr<SlowMessages> slow_;
  std::vector<BoardPlace*> places_;  ///< by local rank
  std::vector<int> neighbours_;      ///< the same, by rank
  Describe describe_;
  std::function<void(const Error&)> end_;
  double next_look_ = 0;
  bool stall_is_given_ = false;  ///< by REHEARSAL_STALL_SECONDS
  int rank_ = 0, local_rank_ = 0, local_size_ = 1, cores_ = 1;
  std::vector<int> node_of_{0};
  double stall_seconds_ = StallTime().seconds();
};

/// MPI from construction to destruction; one per process. Works under mpirun and, as one rank, without it.
/// Destroyed while an exception is under way, one of several ranks leaves MPI unfinished, so that mpirun ends the others.
class MpiSession {
 public:
  /// Throws EnvironmentFailure when MPI cannot start, BadInput when REHEARSAL_STALL_SECONDS is not a positive number, and
  /// what refuse_lone_rank() does where srun has started several processes and told MPI nothing. Where a launcher's
  /// ranks do not find each other in time (start_watch.hpp), `told` hears why and the process ends; without it they are waited for.
  explicit MpiSession(std::ostream* told = nullptr);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  [[nodiscard]] Communicator& world() { return *world_; }
  /// Ends this process with `status` after so many seconds if it has not ended by itself: a launcher that was told to end answers nobody
  /// who finishes MPI, and kills what is still there. To be called when all is said and written.
  static void end_within(double seconds, int status);
  /// True when this process was started as one of several by a launcher.
  [[nodiscard]] static bool launched();

 private:
  std::unique_ptr<Communicator, void (*)(Communicator*)> world_;
  int exceptions_at_start_;
};

/// Throws (exit status 2) when a launcher has started several ranks that do not know each other: each would train alone.
void refuse_lone_rank(const Communicator& world);

/// Runs `body` as one rank and returns its exit status. What it throws is told once and ends every rank; a rank that is alone
/// passes it on to the caller.
int run_as_rank(MpiSession&, const std::function<int(Communicator&)>& body, const Tell& tell);

/// What OMP_NUM_THREADS says, otherwise the rank's cores.
[[nodiscard]] int threads_per_rank(const Communicator& world);

}  // namespace rehearsal::exec
