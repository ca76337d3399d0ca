#pragma once
// What every rank of a node says of itself, in memory that all of them see: it is still there when the rank is not.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace rehearsal::exec {

/// What a rank does.
enum class Doing : std::uint8_t {
  GettingReady,
  Playing,   ///< an instruction
  Awaiting,  ///< what an instruction began
  Meeting,   ///< the other ranks, at the end of a step
  Saving,
  Evaluating,
  Ending,   ///< training is over, results are made of it
  Leaving,  ///< all is done
};

/// One note; the instruction is of the rank's Program, where it plays or awaits one.
struct BoardNote {
  Doing doing = Doing::GettingReady;
  std::uint16_t body = 0;
  std::uint32_t instruction = 0;
  std::int32_t micro_batch = 0;
  std::int64_t step = 0;  ///< counted from 0
  double since = 0;       ///< of now_seconds()
};

/// The place of one rank. Written by that rank alone, read by the others at any time.
class BoardPlace {
 public:
  static constexpr std::size_t kNotes = 64;
  /// Of this process.
  BoardPlace();
  void write(const BoardNote&);
  /// The last ones, oldest first. One that is being overwritten is left out.
  [[nodiscard]] std::vector<BoardNote> last() const;
  [[nodiscard]] std::int64_t process() const { return process_; }

  /// What its rank does from now on is no longer written down, or is again.
  void hold(bool held) { held_ = held; }
  /// Of a rank that has said why the job fails.
  void speak() { spoken_ = true; }
  [[nodiscard]] bool has_spoken() const { return spoken_; }
  enum class State : std::uint8_t { Running, Stopped, Ended };
  /// True for the first who asks.
  [[nodiscard]] bool claim() { return !claimed_.exchange(true); }
  /// Of the process, as this node's kernel sees it. One that cannot be seen from here counts as running.
  [[nodiscard]] State state() const;

 private:
  std::int64_t process_, started_;
  bool visible_to_itself_;
  std::atomic<bool> claimed_{false}, spoken_{false}, held_{false};
  std::atomic<std::uint64_t> written_{0};
  BoardNote notes_[kNotes];
};

/// "process 4711", and that it is stopped or has ended.
[[nodiscard]] std::string to_text(const BoardPlace&);

}  // namespace rehearsal::exec
