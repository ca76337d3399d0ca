#include "exec/comm/board.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace rehearsal::exec {
namespace {

/// State and start time of a process (proc(5), fields 3 and 22); a start of 0 when there is none.
struct Seen {
  char state = 'X';
  std::int64_t started = 0;
};

Seen look(std::int64_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  Seen seen;
  std::string skipped;
  constexpr int kBetween = 18;
  fields >> seen.state;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  fields >> seen.started;
  return seen;
}

}  // namespace

BoardPlace::BoardPlace() : process_(::getpid()), started_(look(process_).started), visible_to_itself_(started_ != 0) {}

void BoardPlace::write(const BoardNote& note) {
  if (held_) return;
  const auto n = written_.load(std::memory_order_relaxed);
  notes_[n % kNotes] = note;
  written_.store(n + 1, std::memory_order_release);
}

std::vector<BoardNote> BoardPlace::last() const {
  const auto end = written_.load(std::memory_order_acquire);
  const auto begin = end > kNotes - 1 ? end - (kNotes - 1) : 0;
  std::vector<BoardNote> notes;
  for (auto n = begin; n < end; ++n) notes.push_back(notes_[n % kNotes]);
  const auto now = written_.load(std::memory_order_acquire);  // its writer went on meanwhile
  const auto lost = std::min<std::uint64_t>(notes.size(), now > begin + kNotes - 1 ? now - (begin + kNotes - 1) : 0);
  notes.erase(notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(lost));
  return notes;
}

BoardPlace::State BoardPlace::state() const {
  if (!visible_to_itself_) return State::Running;
  const auto seen = look(process_);
  if (seen.started != started_ || seen.state == 'Z' || seen.state == 'X') return State::Ended;
  return seen.state == 'T' || seen.state == 't' ? State::Stopped : State::Running;
}

std::string to_text(const BoardPlace& place) {
  const auto state = place.state();
  return "process " + std::to_string(place.process()) +
         (state == BoardPlace::State::Ended     ? ", which has ended"
          : state == BoardPlace::State::Stopped ? ", which a signal has stopped"
                                                : "");
}

}  // namespace rehearsal::exec
