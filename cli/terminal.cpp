#include "cli/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ostream>

#include <nlohmann/json.hpp>

#include "cli/text/printable.hpp"
#include "cli/text/result_text.hpp"
#include "cli/text/wrap.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

volatile std::sig_atomic_t interrupts = 0, terminations = 0;

void on_interrupt(int) {
  interrupts = interrupts + 1;
  if (interrupts > 1) _exit(130);
}

void on_termination(int) { terminations = 1; }

constexpr double kRedrawSeconds = 0.1;

/// "3.2 s", "1:05", "2:03:04"
std::string clock_text(double seconds) {
  constexpr int kMinute = 60;
  const auto whole = static_cast<long long>(seconds + 0.5);
  char text[32];
  if (whole >= kMinute * kMinute)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / (kMinute * kMinute), whole / kMinute % kMinute, whole % kMinute);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / kMinute, whole % kMinute);
  return text;
}

class Bar final : public Progress {
 public:
  Bar(std::ostream& err, std::string label, bool shown) : err_(err), label_(std::move(label)), shown_(shown) {}
  ~Bar() override {
    if (shown_ && drawn_) err_ << "\r\033[K" << std::flush;
  }
  void advance(std::string_view what, double done, double total) override {
    constexpr int kLength = 30;
    if (!shown_ || total <= 0 || (done < total && !redraw_.due())) return;
    const auto filled = static_cast<std::size_t>(kLength * std::clamp(done / total, 0.0, 1.0));
    err_ << '\r' << label_ << " [" << std::string(filled, '#') << std::string(kLength - filled, '.') << "] " << done << " of " << total
         << ' ' << what << pace(what, done, total) << "\033[K" << std::flush;
    drawn_ = true;
  }
  [[nodiscard]] bool stop_requested() const override { return interrupted(); }

 private:
  /// Rate and time left, once there is something to tell them from.
  [[nodiscard]] std::string pace(std::string_view what, double done, double total) const {
    constexpr double kEnough = 0.5;  // seconds
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds < kEnough || done <= 0 || done >= total) return {};
    char rate[32];
    std::snprintf(rate, sizeof rate, "  %.3g ", done / seconds);
    const bool is_time = what == "s";  // a rate of seconds a second says nothing
    return (is_time ? std::string() : rate + std::string(what) + "/s") + "  ETA " + clock_text((total - done) * seconds / done);
  }

  std::ostream& err_;
  std::string label_;
  bool shown_, drawn_ = false;
  Throttle redraw_{kRedrawSeconds};
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

std::string Terminal::text_of(const Json& result) const {
  return json_ ? result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : result_text(result, window_columns());
}

void Terminal::print(const Json& result) const { out_ << text_of(result) << std::flush; }

void Terminal::print_within(const Json& result, double seconds) const {
  out_ << std::flush;
  write_within(STDOUT_FILENO, text_of(result), seconds);
}

bool write_within(int file, std::string_view text, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const int flags = fcntl(file, F_GETFL);
  fcntl(file, F_SETFL, flags | O_NONBLOCK);
  for (auto now = Clock::now(); !text.empty() && now < end; now = Clock::now()) {
    const auto written = write(file, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno != EAGAIN && errno != EINTR) break;
    pollfd room{file, POLLOUT, 0};
    poll(&room, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(end - now).count()));
  }
  fcntl(file, F_SETFL, flags);
  return text.empty();
}

bool Terminal::draws() const { return isatty(STDERR_FILENO) != 0; }
void Terminal::say(const std::string& sentence) const { err_ << "rehearse: " << printable(sentence, true) << '\n' << std::flush; }
void Terminal::warn(const std::string& sentence) const { err_ << "rehearse: warning: " << printable(sentence, true) << '\n' << std::flush; }
void Terminal::error(const std::string& sentence) const { err_ << "rehearse: error: " << printable(sentence, true) << '\n' << std::flush; }
std::unique_ptr<Progress> Terminal::progress(const std::string& label) const { return std::make_unique<Bar>(err_, label, draws()); }

void install_interrupt_handler() { std::signal(SIGINT, on_interrupt); }
void install_termination_handler() {
  for (const int signal : {SIGTERM, SIGUSR1}) std::signal(signal, on_termination);
}
bool interrupted() { return interrupts > 0 || terminations > 0; }

bool Throttle::due() {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (now < next_) return false;
  next_ = now + seconds_;
  return true;
}

}  // namespace rehearsal::cli
