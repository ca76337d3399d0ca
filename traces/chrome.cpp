#include "traces/chrome.hpp"

#include <cstdio>

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
  for (std::size_t n = 0; n < traces.size(); ++n)
    for (const auto& rank : traces[n].ranks) {
      const int process = kProcessesPerTrace * static_cast<int>(n) + rank.rank;
      events.push_back(
          metadata("process_name", process, 0, traces[n].kind + " " + traces[n].model + ", rank " + std::to_string(rank.rank)));
      for (int stream = 0; stream < static_cast<int>(plan::Stream::Count); ++stream)
        events.push_back(metadata("thread_name", process, stream, std::string(plan::name(static_cast<plan::Stream>(stream)))));
      for (const auto& e : rank.events) events.push_back(event_of(rank, e, process));
    }
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
