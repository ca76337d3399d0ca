#include "traces/trace.hpp"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/text_lines.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::traces {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMark = "rehearsal-trace";

Json json_of(const costmodel::KernelCase& k) {
  return {k.op,
          k.implementation,
          k.signature,
          static_cast<int>(k.family),
          k.work.flops.value(),
          k.work.bytes.value(),
          std::string(name(k.dtype)),
          k.threads};
}

costmodel::KernelCase kernel_of(const Json& j) {
  costmodel::KernelCase k;
  k.op = j.at(0).get<std::string>();
  k.implementation = j.at(1).get<std::string>();
  k.signature = j.at(2).get<std::string>();
  const int family = j.at(3).get<int>();
  if (family < 0 || family >= static_cast<int>(graph::CostFamily::Count))
    throw BadInput("kernel family " + std::to_string(family) + " is unknown");
  k.family = static_cast<graph::CostFamily>(family);
  k.work = {Flops(j.at(4).get<double>()), Bytes(j.at(5).get<double>())};
  const auto dtype = dtype_from_name(j.at(6).get<std::string>());
  if (!dtype) throw BadInput("element type " + j.at(6).get<std::string>() + " is unknown");
  k.dtype = *dtype;
  k.threads = j.at(7).get<int>();
  return k;
}

Json json_of(const EventKind& k) {
  const auto& i = k.identity;
  return {{"id", {static_cast<int>(i.kind), static_cast<int>(i.phase), static_cast<int>(i.body), i.node, i.tensor, i.ordinal}},
          {"name", k.name},
          {"kernel", json_of(k.kernel)},
          {"message", {k.message_bytes, k.message_ranks}},
          {"predicted",
           {k.predicted.seconds.value(), static_cast<int>(k.predicted.mechanism), k.predicted.log_error,
            static_cast<int>(k.predicted.evidence)}}};
}

template <class Enum>
Enum checked(int value, int count, const char* what) {
  if (value < 0 || value >= count) throw BadInput(std::string(what) + " " + std::to_string(value) + " is unknown");
  return static_cast<Enum>(value);
}

EventKind kind_of(const Json& j) {
  EventKind k;
  const auto& id = j.at("id");
  k.identity.kind = checked<plan::InstructionKind>(id.at(0).get<int>(), plan::kInstructionKinds, "instruction kind");
  k.identity.phase = checked<graph::Phase>(id.at(1).get<int>(), 3, "phase");
  k.identity.body = checked<plan::BodyKind>(id.at(2).get<int>(), 4, "body");
  k.identity.node = id.at(3).get<std::int32_t>();
  k.identity.tensor = id.at(4).get<std::int32_t>();
  k.identity.ordinal = id.at(5).get<std::uint32_t>();
  k.name = j.at("name").get<std::string>();
  k.kernel = kernel_of(j.at("kernel"));
  k.message_bytes = j.at("message").at(0).get<std::int64_t>();
  k.message_ranks = j.at("message").at(1).get<int>();
  const auto& p = j.at("predicted");
  k.predicted = {Seconds(p.at(0).get<double>()),
                 checked<costmodel::Mechanism>(p.at(1).get<int>(), static_cast<int>(costmodel::kMechanisms), "mechanism"),
                 p.at(2).get<double>(), checked<costmodel::Evidence>(p.at(3).get<int>(), 3, "evidence")};
  return k;
}

/// Bytes in use of every event, in their order; empty where none is known.
Json in_use_json(const RankTrace& r) {
  Json bytes = Json::array();
  if (std::ranges::any_of(r.events, [](const Event& e) { return e.in_use > 0; }))
    for (const auto& e : r.events) bytes.push_back(e.in_use);
  return bytes;
}

Json json_of(const RankTrace& r) {
  Json kinds = Json::array(), events = Json::array();
  for (const auto& k : r.kinds) kinds.push_back(json_of(k));
  for (const auto& e : r.events) events.push_back({e.kind, e.micro_batch, e.step, static_cast<int>(e.stream), e.begin, e.end, e.busy});
  return {{"rank", r.rank},
          {"kinds", kinds},
          {"event_keys", {"kind", "micro_batch", "step", "stream", "begin_seconds", "end_seconds", "busy_seconds"}},
          {"events", events},
          {"in_use_bytes", in_use_json(r)}};
}

RankTrace rank_of(const Json& j) {
  RankTrace r;
  r.rank = j.at("rank").get<int>();
  for (const auto& k : j.at("kinds")) r.kinds.push_back(kind_of(k));
  for (const auto& e : j.at("events")) {
    Event event{e.at(0).get<std::uint32_t>(), e.at(1).get<std::int32_t>(),
                e.at(2).get<std::int32_t>(),  checked<plan::Stream>(e.at(3).get<int>(), static_cast<int>(plan::Stream::Count), "stream"),
                e.at(4).get<double>(),        e.at(5).get<double>(),
                e.at(6).get<double>()};
    if (event.kind >= r.kinds.size())
      throw BadInput("an event refers to kind " + std::to_string(event.kind) + " of " + std::to_string(r.kinds.size()));
    r.events.push_back(event);
  }
  const auto in_use = j.value("in_use_bytes", Json::array());
  if (!in_use.empty() && in_use.size() != r.events.size())
    throw BadInput("in_use_bytes has " + std::to_string(in_use.size()) + " numbers for " + std::to_string(r.events.size()) + " events");
  for (std::size_t n = 0; n < in_use.size(); ++n) r.events[n].in_use = in_use[n].get<std::int64_t>();
  return r;
}

Json json_of(const Trace& t) {
  Json j{{"trace", kMark},
         {"schema", t.schema},
         {"kind", t.kind},
         {"framework", t.framework},
         {"model", t.model},
         {"model_hash", t.model_hash},
         {"plan", t.plan},
         {"batch", t.batch},
         {"dtype", t.dtype},
         {"threads", t.threads},
         {"arena_bytes", t.arena_bytes},
         {"platform", t.platform},
         {"calibration", t.calibration}};
  j["context"] = Json::object();
  for (const auto& [key, value] : t.context) j["context"][key] = value;
  j["steps"] = Json::array();
  for (const auto& s : t.steps) {
    j["steps"].push_back({{"step", s.step}, {"begin_seconds", s.begin}, {"end_seconds", s.end}, {"loss", s.loss}, {"warm_up", s.warm_up}});
    if (s.staleness) j["steps"].back()["staleness"] = *s.staleness;
  }
  j["ranks"] = Json::array();
  for (const auto& r : t.ranks) j["ranks"].push_back(json_of(r));
  return j;
}

Trace trace_of(const Json& j) {
  Trace t;
  t.schema = j.at("schema").get<int>();
  if (t.schema != 1) throw BadInput("schema version " + std::to_string(t.schema) + "; this program reads version 1");
  t.kind = j.at("kind").get<std::string>();
  t.framework = j.value("framework", "");
  t.model = j.at("model").get<std::string>();
  t.model_hash = j.at("model_hash").get<std::string>();
  t.plan = j.at("plan").get<std::string>();
  t.batch = j.at("batch").get<std::int64_t>();
  t.dtype = j.at("dtype").get<std::string>();
  t.threads = j.at("threads").get<int>();
  t.arena_bytes = j.at("arena_bytes").get<std::int64_t>();
  t.platform = j.at("platform").get<std::string>();
  t.calibration = j.at("calibration").get<std::string>();
  for (const auto& [key, value] : j.at("context").items()) t.context.emplace_back(key, value.get<std::string>());
  for (const auto& s : j.at("steps"))
    t.steps.push_back({s.at("step").get<std::int32_t>(), s.at("begin_seconds").get<double>(), s.at("end_seconds").get<double>(),
                       s.at("loss").is_null() ? 0.0 : s.at("loss").get<double>(), s.at("warm_up").get<bool>(),
                       s.contains("staleness") ? std::optional(s.at("staleness").get<std::int64_t>()) : std::nullopt});
  for (const auto& r : j.at("ranks")) t.ranks.push_back(rank_of(r));
  return t;
}

Json parse_file(const std::string& path) {
  auto in = open_text(path);
  try {
    return Json::parse(in);
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(path, std::string("is no trace: ") + platforms::reason_of(error));
  }
}

}  // namespace

Trace read_trace(const std::string& path) {
  const auto json = parse_file(path);
  if (!json.is_object() || json.value("trace", "") != kMark)
    throw BadInput(path, "is no trace; `rehearse run --trace` and `rehearse simulate --trace` write traces");
  try {
    return trace_of(json);
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(path, std::string("is a damaged trace: ") + platforms::reason_of(error));
  } catch (const BadInput& error) {
    throw BadInput(path, std::string("is a damaged trace: ") + error.what());
  }
}

void write_trace(const std::string& path, const Trace& trace) { write_file_atomically(path, json_of(trace).dump() + "\n"); }

bool is_trace_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string head(64, '\0');
  in.read(head.data(), 64);
  return head.find(kMark) != std::string::npos;
}

bool of_one_framework(const Trace& one, const Trace& other) {
  return one.framework.empty() || other.framework.empty() || one.framework == other.framework;
}

std::string named(const Trace& t) { return t.kind + (t.kind == "simulated" && !t.framework.empty() ? " as " + t.framework : ""); }

}  // namespace rehearsal::traces
