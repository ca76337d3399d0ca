#include "cli/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ostream>
#include <span>

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/printable.hpp"

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

class Bar final : public Progress {
 public:
  Bar(std::ostream& err, std::string label, bool shown) : err_(err), label_(std::move(label)), shown_(shown) {}
  ~Bar() override {
    if (shown_ && drawn_) err_ << "\r\033[K" << std::flush;
  }
  void advance(std::string_view what, double done, double total) override {
    if (!shown_ || total <= 0 || (done < total && !redraw_.due())) return;
    const auto filled = static_cast<int>(30 * done / total);
    err_ << '\r' << label_ << " [" << std::string(static_cast<std::size_t>(filled), '#')
         << std::string(static_cast<std::size_t>(30 - filled), '.') << "] " << done << " of " << total << ' ' << what << "\033[K"
         << std::flush;
    drawn_ = true;
  }
  [[nodiscard]] bool stop_requested() const override { return interrupted(); }

 private:
  std::ostream& err_;
  std::string label_;
  bool shown_, drawn_ = false;
  Throttle redraw_{kRedrawSeconds};
};

std::string number_text(double value) {
  if (!std::isfinite(value)) return "not finite";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer,
                value == static_cast<double>(static_cast<long long>(value)) && value < 1e15 && value > -1e15 ? "%.0f" : "%.4g", value);
  return buffer;
}

/// From this on, a unit is what people say; `name` follows the number.
struct PeoplesUnit {
  double from, factor;
  std::string_view name;
};

/// Below the first unit: empty.
std::string in_peoples_units(double value, std::span<const PeoplesUnit> units) {
  std::string text;
  for (const auto& unit : units)
    if (std::isfinite(value) && value >= unit.from) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "%.4g ", value / unit.factor);
      text = buffer + std::string(unit.name);
    }
  return text;
}

constexpr double kSecondsOfMinute = 60, kSecondsOfHour = 3600, kSecondsOfDay = 86400, kKilowattHour = 3.6e6;
constexpr PeoplesUnit kDurations[] = {{10 * kSecondsOfMinute, kSecondsOfMinute, "min"},
                                      {2 * kSecondsOfHour, kSecondsOfHour, "h"},
                                      {2 * kSecondsOfDay, kSecondsOfDay, "days"}};
constexpr PeoplesUnit kEnergies[] = {{0.1 * kKilowattHour, kKilowattHour, "kWh"},
                                     {1e3 * kKilowattHour, 1e3 * kKilowattHour, "MWh"},
                                     {1e6 * kKilowattHour, 1e6 * kKilowattHour, "GWh"}};
constexpr PeoplesUnit kDeviceTimes[] = {{0, 1, "device-seconds"}, {10 * kSecondsOfMinute, kSecondsOfHour, "device-hours"}};
constexpr PeoplesUnit kMasses[] = {{0, 1, "kg"}, {1e4, 1e3, "t"}};

std::string rate_text(double value, const char* what) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, value >= 100 && value < 1e9 ? "%.0f %s" : "%.3g %s", value, what);
  return buffer;
}

/// A number under a key such as "step_seconds" with the unit that the key's end names.
std::string with_unit(const std::string& key, double value) {
  if (key == "device_seconds") return in_peoples_units(value, kDeviceTimes);
  if (key.ends_with("seconds")) {
    const auto text = in_peoples_units(value, kDurations);
    return text.empty() ? rehearsal::to_text(Seconds(value)) : text;
  }
  if (key.ends_with("bytes_per_second")) return rehearsal::to_text(BytesPerSecond(value));
  if (key.ends_with("bytes")) return rehearsal::to_text(Bytes(value));
  if (key.ends_with("joules")) {
    const auto text = in_peoples_units(value, kEnergies);
    return text.empty() ? rehearsal::to_text(Joules(value)) : text;
  }
  if (key == "tokens_per_second_per_device") return rate_text(value, "tokens/s/device");
  if (key == "tokens_per_second") return rate_text(value, "tokens/s");
  if (key == "samples_per_second") return rate_text(value, "samples/s");
  if (key.ends_with("dollars")) return rehearsal::to_text(Dollars(value));
  if (key.ends_with("flops")) return rehearsal::to_text(Flops(value));
  if (key.ends_with("_kg")) return in_peoples_units(value, kMasses);
  return number_text(value);
}

bool is_interval(const Json& v) { return v.is_object() && v.contains("value") && v.contains("low") && v.contains("high"); }

std::string scalar_text(const std::string& key, const Json& v) {
  if (is_interval(v)) {
    std::string text = with_unit(key, v["value"].get<double>()) + "  (90 %: " + with_unit(key, v["low"].get<double>()) + " to " +
                       with_unit(key, v["high"].get<double>()) + ")";
    if (v.contains("capacity")) text += " of " + with_unit(key, v["capacity"].get<double>());
    return text;
  }
  if (v.is_number()) return with_unit(key, v.get<double>());
  if (v.is_string()) return printable(v.get<std::string>(), true);
  if (v.is_boolean()) return v.get<bool>() ? "yes" : "no";
  if (v.is_array()) {
    std::string text;
    for (const auto& item : v) text += (text.empty() ? "" : ", ") + scalar_text(key, item);
    return text.empty() ? "none" : text;
  }
  return v.is_null() ? "unknown" : v.dump();
}

std::string title(std::string key) {
  if (key == "device_seconds") return "device time";
  if (key.ends_with("_per_device")) return "per device";
  for (const char* unit : {"_seconds", "_bytes", "_joules", "_dollars", "_kg"})
    if (key.ends_with(unit)) key.resize(key.size() - std::string_view(unit).size());
  std::replace(key.begin(), key.end(), '_', ' ');
  return printable(key, false);
}

bool is_table(const Json& v) { return v.is_array() && !v.empty() && v.front().is_object(); }

void append_table(std::string& text, const Json& rows, const std::string& indent) {
  std::vector<std::string> keys;
  for (const auto& row : rows)
    for (const auto& [key, value] : row.items())
      if ((!value.is_object() || is_interval(value)) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  std::vector<std::vector<std::string>> cells(1);
  for (const auto& key : keys) cells[0].push_back(title(key));
  for (const auto& row : rows) {
    auto& line = cells.emplace_back();
    for (const auto& key : keys)
      line.push_back(
          row.contains(key) ? (is_interval(row[key]) ? with_unit(key, row[key]["value"].get<double>()) : scalar_text(key, row[key])) : "");
  }
  std::vector<std::size_t> widths(keys.size());
  for (const auto& line : cells)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  for (const auto& line : cells) {
    text += indent;
    for (std::size_t c = 0; c < line.size(); ++c)
      text += line[c] + (c + 1 < line.size() ? std::string(widths[c] - line[c].size() + 2, ' ') : "");
    text += '\n';
  }
}

void append(std::string& text, const Json& object, const std::string& indent) {
  std::size_t width = 0;
  for (const auto& [key, value] : object.items())
    if (!value.is_object() || is_interval(value)) width = std::max(width, title(key).size());
  for (const auto& [key, value] : object.items()) {
    if (key == "schema") continue;
    if (is_table(value)) {
      text += indent + title(key) + ":\n";
      append_table(text, value, indent + "  ");
    } else if (value.is_object() && !is_interval(value)) {
      text += indent + title(key) + ":\n";
      append(text, value, indent + "  ");
    } else {
      text += indent + title(key) + std::string(width - title(key).size() + 2, ' ') + scalar_text(key, value) + '\n';
    }
  }
}

}  // namespace

std::string to_text(const Json& result) {
  std::string text;
  append(text, result, "");
  return text;
}

std::string Terminal::text_of(const Json& result) const {
  return json_ ? result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : to_text(result);
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
