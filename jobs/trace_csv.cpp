#include "jobs/trace_csv.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "base/csv.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::jobs {
namespace {

constexpr int kWholeDevice = 1000;  // in thousandths
constexpr double kLongest = 1e10;

struct Means {
  enum Column : std::uint8_t { Devices, Arrival, Length, From, Until, Name, User, Share, Count };
};

constexpr std::array<std::array<std::string_view, 5>, Means::Count> kNames{{
    {"devices", "num_gpu", "num_gpus", "gpu_num", "gpus"},
    {"arrival", "submit_time", "creation_time", "submitted"},
    {"duration", "seconds", "runtime", "run_time"},
    {"scheduled_time", "start_time"},
    {"deletion_time", "end_time", "finish_time"},
    {"name", "job_id", "jobid"},
    {"user", "user_id", "vc"},
    {"gpu_milli"},
}};

std::string names_of(Means::Column meaning) {
  std::vector<std::string> names;
  for (const auto name : kNames[meaning])
    if (!name.empty()) names.emplace_back(name);
  return joined(names, ", ");
}

/// Seconds east of Greenwich of what follows the seconds of a date: nothing, a fraction, which is left out, Z, or +02:00.
std::optional<int> offset_of(std::string_view text) {
  if (text.starts_with('.')) text.remove_prefix(std::min(text.find_first_not_of("0123456789", 1), text.size()));
  if (text.empty() || text == "Z" || text == "UTC" || text == " UTC") return 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  const auto hours = parse_number<int>(text.substr(1, 2)), minutes = parse_number<int>(text.substr(4, 2));
  if (!hours || !minutes || *hours < 0 || *hours > 14 || *minutes < 0 || *minutes > 59) return std::nullopt;
  return (text[0] == '-' ? -60 : 60) * (60 * *hours + *minutes);
}

/// "2023-05-17 11:00:58", with T between, as seconds since 1970.
std::optional<double> time_of_date(const std::string& text) {
  constexpr std::size_t kDate = 19;
  if (text.size() < kDate || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') return std::nullopt;
  const auto part = [&](std::size_t at, std::size_t digits) { return parse_number<int>(text.substr(at, digits)).value_or(-1); };
  using namespace std::chrono;
  const int month = part(5, 2), day = part(8, 2), hour = part(11, 2), minute = part(14, 2), second = part(17, 2);
  const auto offset = offset_of(std::string_view(text).substr(kDate));
  if (!offset || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0 || hour > 23 || minute > 59 || second > 60)
    return std::nullopt;
  const year_month_day date{year{part(0, 4)}, std::chrono::month{static_cast<unsigned>(month)},
                            std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return std::nullopt;
  return duration<double>(sys_days{date}.time_since_epoch() + hours{hour} + minutes{minute} + seconds{second - *offset}).count();
}

class TraceReader {
 public:
  TraceReader(std::istream& in, const std::string& name) : table_(in, name), name_(name) {}

  JobTrace read() {
    std::vector<std::string> cells;
    if (!table_.next(cells)) throw BadInput(name_, "is empty; its first line names columns, such as job_id,num_gpu,submit_time,duration");
    find_columns(cells);
    for (int row = 0; table_.next(cells); ++row) read_row(cells, row);
    if (trace_.jobs.empty())
      throw BadInput(name_, "has no job that ran on whole devices; rows left out: " + std::to_string(trace_.without_devices) +
                                " without a device of their own, " + std::to_string(trace_.without_length) + " without a length");
    std::ranges::stable_sort(trace_.jobs, {}, [](const JobEntry& e) { return e.job.arrival; });
    const auto first = trace_.jobs.front().job.arrival;
    for (auto& entry : trace_.jobs) entry.job.arrival -= first;
    return std::move(trace_);
  }

 private:
  void find_columns(std::vector<std::string> names) {
    for (auto& name : names) name = lower_case(name);
    for (int m = 0; m < Means::Count; ++m)
      for (const auto wanted : kNames[static_cast<std::size_t>(m)])
        if (const auto at = std::ranges::find(names, wanted); !wanted.empty() && at != names.end() && !at_[static_cast<std::size_t>(m)])
          at_[static_cast<std::size_t>(m)] = static_cast<std::size_t>(at - names.begin());
    for (const auto needed : {Means::Devices, Means::Arrival})
      if (!at_[needed]) table_.refuse("none of the columns is called " + names_of(needed));
    if (!at_[Means::Length] && !(at_[Means::From] && at_[Means::Until]))
      table_.refuse("no column says how long jobs took: " + names_of(Means::Length) +
                    "; or when they began and ended: " + names_of(Means::From) + "; " + names_of(Means::Until));
  }

  [[nodiscard]] const std::string& cell(const std::vector<std::string>& cells, Means::Column m) const {
    static const std::string none;
    return at_[m] ? cells[*at_[m]] : none;
  }

  /// Nothing where the cell is empty.
  [[nodiscard]] std::optional<double> time(const std::vector<std::string>& cells, Means::Column m) const {
    const auto& text = cell(cells, m);
    if (text.empty() || text == "None" || text == "nan") return std::nullopt;
    auto number = parse_number<double>(text);
    if (!number) number = time_of_date(text);
    if (!number || !(*number >= 0 && *number <= kLongest))
      table_.refuse("\"" + text + "\" is no time; write seconds, or a date such as 2023-05-17 11:00:58");
    return number;
  }

  [[nodiscard]] std::optional<double> length(const std::vector<std::string>& cells) const {
    if (at_[Means::Length]) return time(cells, Means::Length);
    const auto from = time(cells, Means::From), until = time(cells, Means::Until);
    return from && until ? std::optional(*until - *from) : std::nullopt;
  }

  [[nodiscard]] double devices(const std::vector<std::string>& cells) const {
    const auto& text = cell(cells, Means::Devices);
    const auto number = text.empty() ? 0 : parse_number<double>(text);
    if (!number || !(*number >= 0 && *number <= kMostDevicesOfJob))
      table_.refuse("\"" + text + "\" is no number of devices from 0 to " + std::to_string(kMostDevicesOfJob));
    return *number;
  }

  /// Thousandths of a device.
  [[nodiscard]] int share(const std::vector<std::string>& cells) const {
    if (!at_[Means::Share]) return kWholeDevice;
    const auto& text = cell(cells, Means::Share);
    const auto number = text.empty() ? 0 : parse_number<int>(text);
    if (!number || *number < 0 || *number > kWholeDevice) table_.refuse("\"" + text + "\" is no share of a device from 0 to 1000");
    return *number;
  }

  void read_row(const std::vector<std::string>& cells, int row) {
    const double devices = this->devices(cells);
    const int share = this->share(cells);
    const auto arrival = time(cells, Means::Arrival);
    const auto length = this->length(cells);
    if (devices < 1 || devices != static_cast<int>(devices) || share < kWholeDevice) return void(++trace_.without_devices);
    if (!arrival || !length || *length <= 0) return void(++trace_.without_length);
    if (trace_.jobs.size() == kMostJobs) table_.refuse("is one job more than the " + std::to_string(kMostJobs) + " that are played");
    add(cells, row, *arrival, *length, static_cast<int>(devices));
  }

  void add(const std::vector<std::string>& cells, int row, double arrival, double length, int devices) {
    Job job;
    job.name = at_[Means::Name] ? cell(cells, Means::Name) : "row " + std::to_string(row + 1);
    if (!names_.insert(job.name).second) table_.refuse("a second job is called '" + job.name + "'");
    job.user = at_[Means::User] ? cell(cells, Means::User) : job.name;
    job.arrival = Seconds(arrival);
    job.steps = length;
    job.devices = job.least = job.most = devices;
    job.paces[devices] = {.step = Seconds(1), .on_network = Seconds(0), .power = std::nullopt, .plan = {}};
    trace_.jobs.push_back({std::move(job), std::nullopt});
  }

  CsvReader table_;
  std::string name_;
  std::array<std::optional<std::size_t>, Means::Count> at_;
  std::set<std::string> names_;
  JobTrace trace_;
};

}  // namespace

JobTrace read_job_trace(std::istream& in, const std::string& name) { return TraceReader(in, name).read(); }

JobTrace read_job_trace_file(const std::string& path) {
  auto in = open_text(path);
  return read_job_trace(in, path);
}

bool is_job_trace_file(const std::string& path) { return lower_case(path).ends_with(".csv"); }

}  // namespace rehearsal::jobs
