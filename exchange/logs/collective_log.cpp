// nccl-tests: https://github.com/NVIDIA/nccl-tests (src/common.cu prints head and rows, doc/PERFORMANCE.md says what sizes are); rccl-tests
// prints the same. OSU: https://mvapich.cse.ohio-state.edu/benchmarks/; its sizes are of what one rank sends.
#include "exchange/logs/collective_log.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::exchange {
namespace {

using costmodel::CollectiveKind;

struct LogKind {
  std::string_view nccl, osu;  ///< nccl-tests' program, OSU's title
  CollectiveKind kind;
  bool size_of_part;  ///< OSU's size is of one rank's part of the vector
};
constexpr std::array kLogKinds{LogKind{"all_reduce_perf", "Allreduce", CollectiveKind::AllReduce, false},
                               LogKind{"all_gather_perf", "Allgather", CollectiveKind::AllGather, true},
                               LogKind{"reduce_scatter_perf", "Reduce_scatter", CollectiveKind::ReduceScatter, false},
                               LogKind{"alltoall_perf", "All-to-All Personalized Exchange", CollectiveKind::AllToAll, true},
                               LogKind{"broadcast_perf", "Broadcast", CollectiveKind::Broadcast, false},
                               LogKind{"reduce_perf", "Reduce", CollectiveKind::Reduce, false}};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Lines with their number, for errors.
class LogReader {
 public:
  LogReader(const std::string& text, const std::string& file) : in_(text), file_(file) {}
  bool next() {
    ++number_;
    if (!std::getline(in_, line_)) return false;
    words_ = words_of(line_);
    return true;
  }
  [[nodiscard]] const std::string& line() const { return line_; }
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  [[nodiscard]] bool begins(const std::string& text) const { return line_.starts_with(text); }
  [[noreturn]] void refuse(const std::string& what) const { throw BadInput(file_ + ":" + std::to_string(number_), what); }
  /// A number of a column of this line.
  [[nodiscard]] double number(std::size_t column, const char* name) const {
    const auto value = column < words_.size() ? parse_number<double>(words_[column]) : std::nullopt;
    if (!value || !(*value >= 0) || !(*value < 1e15))
      refuse("column " + std::to_string(column + 1) + " (" + name + ") must be a number from 0");
    return *value;
  }

 private:
  std::istringstream in_;
  std::string file_, line_;
  std::vector<std::string> words_;
  int number_ = 0;
};

[[noreturn]] void refuse_log(const std::string& file, const std::string& what) { throw BadInput(file, what); }

/// The head of a log of nccl-tests, as far as it has been read.
struct NcclHead {
  std::set<std::string> hosts, devices;
  std::set<int> ranks;
  std::size_t time_column = 0, wrong_column = 0;
};

void read_rank(const LogReader& in, NcclHead& head) {
  const auto& words = in.words();  // "#  Rank  0 Group  0 Pid  1320 on HOST device  0 ..."
  const auto rank = parse_number<int>(words[2]);
  const auto on = std::ranges::find(words, "on");
  if (!rank || words.end() - on < 2) in.refuse("must be `#  Rank N ... on HOST device N ...`");
  if (!head.ranks.insert(*rank).second)
    in.refuse("rank " + words[2] + " is there twice: every process measured by itself; nccl-tests must be built with MPI=1");
  head.hosts.insert(*(on + 1));
  // "[0x01] NVIDIA H100 PCIe", since 2.14 "[0000:01:00] NVIDIA H100 PCIe"
  const auto bus = std::ranges::find_if(words, [](const auto& word) { return word.starts_with('[') && word.ends_with(']'); });
  if (bus != words.end() && bus + 1 != words.end()) head.devices.insert(joined(std::span(bus + 1, words.end()), " "));
}

void read_nccl_comment(const LogReader& in, NcclHead& head, CollectiveLog& log) {
  const auto& words = in.words();
  if (words.size() > 2 && words[1] == "Rank") return read_rank(in, head);
  if (words.size() > 2 && words[1] == "size" && words[2] == "count") {
    const auto time = std::ranges::find(words, "time");
    head.time_column = static_cast<std::size_t>(time - words.begin()) - 1;  // the row has no '#'
    head.wrong_column = head.time_column + 3;
  }
  if (in.begins("# Collective test starting:")) {
    const auto* row = std::ranges::find(kLogKinds, words.back(), &LogKind::nccl);
    if (row == kLogKinds.end()) in.refuse("'" + words.back() + "' is none of " + joined(kLogKinds, ", ", &LogKind::nccl));
    log.kind = row->kind;
  }
}

void read_nccl_row(const LogReader& in, const NcclHead& head, CollectiveLog& log) {
  if (head.time_column == 0) in.refuse("a row stands before the line that names its columns (# size count type ...)");
  const double bytes = in.number(0, "size"), time = in.number(head.time_column, "time in us");
  if (head.wrong_column < in.words().size() && in.words()[head.wrong_column] != "N/A" && in.number(head.wrong_column, "#wrong") != 0)
    in.refuse("results were wrong (" + in.words()[head.wrong_column] + "); such times say nothing");
  constexpr double kMicro = 1e-6;
  if (bytes > 0 && time > 0) log.samples.push_back({Bytes(bytes), Seconds(time * kMicro)});
}

CollectiveLog read_nccl(const std::string& text, const std::string& file, const LogHints& hints) {
  CollectiveLog log{"nccl-tests", std::nullopt, 0, 0, {}};
  NcclHead head;
  LogReader in(text, file);
  while (in.next()) {
    if (in.begins("#"))
      read_nccl_comment(in, head, log);
    else if (!in.words().empty() && parse_number<double>(in.words()[0]))
      read_nccl_row(in, head, log);
  }
  if (!log.kind) log.kind = hints.kind;
  if (!log.kind) refuse_log(file, "does not name its collective, as releases before 2.15 do not; give --kind");
  log.ranks = head.ranks.empty() ? hints.ranks.value_or(0) : static_cast<int>(head.ranks.size());
  log.nodes = static_cast<int>(head.hosts.size());
  log.devices = head.devices;
  return log;
}

/// "# OSU MPI-CUDA Allreduce Latency Test v7.3" is "Allreduce".
std::string osu_title(const LogReader& in) {
  const auto end = in.line().find(" Latency Test");
  if (end == std::string::npos)
    in.refuse(
        "only latency tests are read; those of bandwidth keep many messages on their way (large messages of osu_latency say the same)");
  const auto begin = in.line().find(' ', std::string("# OSU ").size());  // behind MPI, or MPI-CUDA
  return begin >= end ? "" : in.line().substr(begin + 1, end - begin - 1);
}

CollectiveLog read_osu(const std::string& text, const std::string& file, const LogHints& hints) {
  CollectiveLog log{"OSU", std::nullopt, hints.ranks.value_or(0), 0, {}};
  LogReader in(text, file);
  bool titled = false, part = false;
  while (in.next()) {
    if (in.begins("# OSU")) {
      const auto title = osu_title(in);
      const auto* row = std::ranges::find(kLogKinds, title, &LogKind::osu);
      if (!title.empty() && row == kLogKinds.end()) in.refuse("'" + title + "' is none of " + joined(kLogKinds, ", ", &LogKind::osu));
      titled = true;
      if (title.empty()) continue;
      log.kind = row->kind;
      part = row->size_of_part;
    } else if (titled && !in.begins("#") && !in.words().empty()) {
      const double bytes = in.number(0, "size") * (part ? std::max(1, log.ranks) : 1), time = in.number(1, "latency in us");
      if (bytes > 0 && time > 0) log.samples.push_back({Bytes(bytes), Seconds(time * 1e-6)});
    }
  }
  if (!log.kind) log.ranks = 2;
  return log;
}

}  // namespace

bool is_collective_log(const std::string& text) {
  return text.find("# OSU ") != text.npos || (text.find("out-of-place") != text.npos && text.find("algbw") != text.npos);
}

CollectiveLog read_collective_log(const std::string& text, const std::string& file, const LogHints& hints) {
  auto log = text.find("# OSU ") != text.npos ? read_osu(text, file, hints) : read_nccl(text, file, hints);
  if (log.samples.empty()) refuse_log(file, "has no row of a message of more than 0 bytes with its time");
  if (log.ranks < 2) refuse_log(file, "does not say between how many ranks; give --ranks (2 or more)");
  if (hints.kind && hints.kind != log.kind)
    refuse_log(file, "is of " + std::string(log.kind ? costmodel::name(*log.kind) : "messages") + ", not of " +
                         std::string(costmodel::name(*hints.kind)) + "; leave --kind out");
  if (hints.ranks && *hints.ranks != log.ranks)
    refuse_log(file, "is of " + std::to_string(log.ranks) + " ranks, not of " + std::to_string(*hints.ranks) + "; leave --ranks out");
  return log;
}

}  // namespace rehearsal::exchange
