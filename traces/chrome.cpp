#include "traces/chrome.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/join.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicroseconds = 1e6;
constexpr int kProcessesPerTrace = 1000;

Json metadata(const char* what, int process, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json event_of(const RankTrace& rank, const Event& e, int process) {
  const auto& kind = rank.kinds[e.kind];
  Json args{{"name", kind.name}, {"step", e.step}, {"micro_batch", e.micro_batch}, {"busy_seconds", e.busy}};
  if (communicates(kind))
    args.update({{"bytes", kind.message_bytes}, {"ranks", kind.message_ranks}});
  else
    args.update({{"implementation", kind.kernel.implementation},
                 {"signature", kind.kernel.signature},
                 {"flops", kind.kernel.work.flops.value()},
                 {"bytes", kind.kernel.work.bytes.value()}});
  return {{"name", kind.kernel.op},
          {"cat", plan::name(kind.identity.body)},
          {"ph", "X"},
          {"pid", process},
          {"tid", static_cast<int>(e.stream)},
          {"ts", e.begin * kMicroseconds},
          {"dur", (e.end - e.begin) * kMicroseconds},
          {"args", args}};
}

/// What a message is, apart from who sends it: both ends have the same.
using Message = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // tensor, micro-batch, step

struct End {
  int process = 0;
  const Event* event = nullptr;
};

/// Ends of messages by what they carry, in order of ranks.
std::map<Message, std::vector<End>> ends_of(const Trace& trace, int first_process, plan::InstructionKind wanted) {
  std::map<Message, std::vector<End>> ends;
  for (const auto& rank : trace.ranks)
    for (const auto& e : rank.events)
      if (const auto& id = rank.kinds[e.kind].identity; id.kind == wanted && id.tensor >= 0 && e.end > e.begin)
        ends[{id.tensor, e.micro_batch, e.step}].push_back({first_process + rank.rank, &e});
  return ends;
}

/// An arrow from every send to its receive. Where several ranks send the same to as many, each sends to the one that stands where it
/// stands.
void append_arrows(Json& events, const Trace& trace, int first_process, int& number) {
  const auto sends = ends_of(trace, first_process, plan::InstructionKind::Send);
  auto receives = ends_of(trace, first_process, plan::InstructionKind::Receive);
  for (const auto& [message, from] : sends) {
    const auto& to = receives[message];
    for (std::size_t n = 0; n < std::min(from.size(), to.size()); ++n) {
      const auto arrow = [&](const char* phase, const End& end, double at) {
        return Json{{"name", "message"},
                    {"cat", "message"},
                    {"ph", phase},
                    {"id", number},
                    {"pid", end.process},
                    {"tid", static_cast<int>(end.event->stream)},
                    {"ts", at * kMicroseconds}};
      };
      events.push_back(arrow("s", from[n], from[n].event->begin));
      auto head = arrow("f", to[n], std::max(to[n].event->begin, (to[n].event->begin + to[n].event->end) / 2));
      head["bp"] = "e";  // to the event that it lies in
      events.push_back(std::move(head));
      ++number;
    }
  }
}

/// Bytes a second that a rank sends and receives, as they change.
void append_rates(Json& events, const RankTrace& rank, int process) {
  std::map<double, double> changes;
  for (const auto& e : rank.events) {
    const auto& kind = rank.kinds[e.kind];
    if (!communicates(kind) || kind.message_bytes <= 0 || e.end <= e.begin) continue;
    const double rate = static_cast<double>(kind.message_bytes) / (e.end - e.begin);
    changes[e.begin] += rate;
    changes[e.end] -= rate;
  }
  double now = 0;
  constexpr double kNothing = 1;  // byte a second: what rounding leaves of a sum that is 0
  for (const auto& [at, change] : changes) {
    now += change;
    events.push_back({{"name", "messages, bytes/s"},
                      {"ph", "C"},
                      {"pid", process},
                      {"ts", at * kMicroseconds},
                      {"args", {{"bytes/s", now < kNothing ? 0 : now}}}});
  }
}

/// Bytes of the device's memory that hold something, as they change.
void append_memory(Json& events, const RankTrace& rank, int process) {
  std::int64_t last = 0;
  for (const auto& e : rank.events) {
    if (e.in_use <= 0 || e.in_use == last) continue;
    last = e.in_use;
    events.push_back({{"name", "memory in use, bytes"},
                      {"ph", "C"},
                      {"pid", process},
                      {"ts", e.begin * kMicroseconds},
                      {"args", {{"bytes", e.in_use}}}});
  }
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string line_of(std::size_t trace, const RankTrace& rank, const Event& e) {
  const auto& kind = rank.kinds[e.kind];
  const std::string fields[] = {std::to_string(trace),
                                std::to_string(rank.rank),
                                std::to_string(e.step),
                                std::to_string(e.micro_batch),
                                std::string(plan::name(e.stream)),
                                std::string(plan::name(kind.identity.body)),
                                quoted(kind.kernel.op),
                                quoted(kind.name),
                                number(e.begin),
                                number(e.end),
                                number(e.busy),
                                std::to_string(kind.message_bytes)};
  return joined(fields, ",") + "\n";
}

}  // namespace

std::string to_chrome_json(std::span<const Trace> traces) {
  Json events = Json::array();
  int arrows = 0;
  for (std::size_t n = 0; n < traces.size(); ++n)
    for (const auto& rank : traces[n].ranks) {
      const int process = kProcessesPerTrace * static_cast<int>(n) + rank.rank;
      events.push_back(
          metadata("process_name", process, 0, named(traces[n]) + " " + traces[n].model + ", rank " + std::to_string(rank.rank)));
      for (int stream = 0; stream < static_cast<int>(plan::Stream::Count); ++stream)
        events.push_back(metadata("thread_name", process, stream, std::string(plan::name(static_cast<plan::Stream>(stream)))));
      for (const auto& e : rank.events) events.push_back(event_of(rank, e, process));
      append_rates(events, rank, process);
      append_memory(events, rank, process);
    }
  for (std::size_t n = 0; n < traces.size(); ++n) append_arrows(events, traces[n], kProcessesPerTrace * static_cast<int>(n), arrows);
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_csv(std::span<const Trace> traces) {
  std::string text = "trace,rank,step,micro_batch,stream,phase,op,name,begin_seconds,end_seconds,busy_seconds,message_bytes\n";
  for (std::size_t n = 0; n < traces.size(); ++n)
    for (const auto& rank : traces[n].ranks)
      for (const auto& e : rank.events) text += line_of(n, rank, e);
  return text;
}

}  // namespace rehearsal::traces
