#pragma once
// Where several steps in a row end that ranks play without waiting for each other: at its last step, or sooner when one of them wants it
// to.

#include <cstdint>
#include <deque>
#include <memory>

#include "exec/play/executor.hpp"

namespace rehearsal::exec {

/// Rank 0 says before each of its steps where the row ends. What it says before step s ends the row behind step s + `notice` - 1 at the
/// earliest, and every rank has heard it before it begins step s + `lag`: no rank is so far ahead of rank 0 that it waits for that.
class RowEnd {
 public:
  /// One row, on every rank.
  RowEnd(Executor&, const Training&, const StepRow&);
  ~RowEnd();
  RowEnd(const RowEnd&) = delete;
  RowEnd& operator=(const RowEnd&) = delete;

  /// Called before every step of the row, in order; returns the row's end. `stop`: this rank wants one.
  [[nodiscard]] std::int64_t before(std::int64_t step, bool stop);
  /// Called behind the last step: nothing that was said is under way afterwards.
  void close();

 private:
  struct RowMessage {
    Request request;
    std::int64_t value = 0;
  };
  using RowMessages = std::deque<RowMessage>;
  struct OpenMessages {
    RowMessages sent;
    RowMessages wishes;  ///< on rank 0: one of every other rank, 1 to stop
    RowMessages verdict;
  };
  void say(std::int64_t step, bool stop);
  void hear_until(std::int64_t step);
  void wish(bool stop);
  void send(int peer, int tag, std::int64_t value);
  void expect(RowMessages&, int peer, int tag);
  void wait(RowMessage&, const char* what);

  Executor& executor_;
  Communicator& world_;
  std::int64_t end_, lag_ = 1, notice_ = 1;
  std::int64_t heard_;  ///< all that rank 0 said before its steps up to this one
  bool wished_ = false;
  std::unique_ptr<OpenMessages> under_way_;
};

}  // namespace rehearsal::exec
