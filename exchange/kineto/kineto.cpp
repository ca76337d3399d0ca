#include "exchange/kineto/kineto.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <istream>
#include <limits>
#include <map>
#include <ranges>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace rehearsal::exchange {
namespace {

using nlohmann::json;

/// A member of an event, checked when it is asked for.
class EventReader {
 public:
  EventReader(const json& event, std::string where) : event_(event), where_(std::move(where)) {}

  [[nodiscard]] std::string text(const json& owner, const char* key) const {
    const auto found = owner.is_object() ? owner.find(key) : owner.end();
    return owner.is_object() && found != owner.end() && found->is_string() ? found->get<std::string>() : "";
  }
  [[nodiscard]] std::string text(const char* key) const { return text(event_, key); }
  [[nodiscard]] bool has(const char* key) const { return event_.contains(key); }
  [[nodiscard]] const json& arguments() const {
    static const json kNone = json::object();
    const auto found = event_.find("args");
    return found != event_.end() && found->is_object() ? *found : kNone;
  }
  /// Of a member that is a number, or a text of one (old profilers).
  [[nodiscard]] double number(const json& owner, const char* key) const {
    const auto found = owner.find(key);
    if (found != owner.end() && found->is_number()) {
      const double value = found->get<double>();
      if (std::abs(value) < 1e18) return value;
    }
    throw BadInput(where_ + ": " + key, "must be a number");
  }
  [[nodiscard]] double number(const char* key) const { return number(event_, key); }
  [[nodiscard]] std::int64_t argument(const char* key) const { return static_cast<std::int64_t>(number(arguments(), key)); }
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const { throw BadInput(where_ + ": " + key, what); }

 private:
  const json& event_;
  std::string where_;
};

bool begins_with_one_of(const std::string& name, std::initializer_list<const char*> beginnings) {
  return std::ranges::any_of(beginnings, [&](const char* b) { return name.starts_with(b); });
}
bool holds_one_of(const std::string& name, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(parts, [&](const char* part) { return name.find(part) != std::string::npos; });
}

GpuWork work_of(const std::string& name) {
  if (begins_with_one_of(name, {"Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"})) return GpuWork::Memory;
  if (begins_with_one_of(name, {"nccl", "hip", "hccl"}) || holds_one_of(name, {"ncclKernel"})) return GpuWork::Communication;
  const bool waits = holds_one_of(name, {"Memcpy", "Memset", "dma", "Sync"}) || begins_with_one_of(name, {"Stream Wait Event"});
  return waits ? GpuWork::Other : GpuWork::Compute;
}

struct ElementBytes {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array kElementBytes{ElementBytes{"Float", 4},  ElementBytes{"BFloat16", 2},      ElementBytes{"Half", 2},
                                   ElementBytes{"Double", 8}, ElementBytes{"Int", 4},           ElementBytes{"Long", 8},
                                   ElementBytes{"Byte", 1},   ElementBytes{"Char", 1},          ElementBytes{"Short", 2},
                                   ElementBytes{"Bool", 1},   ElementBytes{"Float8_e4m3fn", 1}, ElementBytes{"Float8_e5m2", 1}};

/// Throws BadInput where the profiler wrote it in a way that is not known.
void read_message_or_refuse(const EventReader& in, GpuEvent& event) {
  const auto type = in.text(in.arguments(), "dtype");
  const auto* row = std::ranges::find(kElementBytes, type, &ElementBytes::name);
  if (row == kElementBytes.end()) in.refuse("args.dtype", "'" + type + "' is no type of elements that is known");
  const auto taken = in.argument("In msg nelems"), given = in.argument("Out msg nelems"), elements = std::max(taken, given);
  if (elements < 0 || elements > std::numeric_limits<std::int64_t>::max() / row->bytes)
    in.refuse("args.In msg nelems", "must be 0 or more");
  event.bytes = elements * row->bytes;
  event.group = static_cast<int>(std::clamp<std::int64_t>(in.argument("Group size"), 0, std::numeric_limits<int>::max()));
  event.collective = in.text(in.arguments(), "Collective name");
}

/// Time divides without it, so what is wrong with it is kept for who asks for collectives.
void read_message(const EventReader& in, GpuEvent& event) {
  if (in.text(in.arguments(), "Collective name").empty()) return;
  try {
    read_message_or_refuse(in, event);
  } catch (const BadInput& error) {
    event.unreadable = error.what();
  }
}

constexpr std::int64_t kNobody = -1;  // correlation of what no call started

struct LaunchedKernel {
  GpuEvent event;
  std::int64_t correlation = kNobody;
};
struct HostCall {
  double begin;
  std::int64_t correlation;
};
struct Step {
  double begin, end;
};

/// Everything of a file that the choice of steps needs.
struct Parts {
  std::vector<LaunchedKernel> launched;
  std::vector<HostCall> calls;
  std::map<std::string, Step> steps;
};

/// Categories of what a GPU did; releases of PyTorch up to 1.11 wrote them with a capital.
bool on_gpu(const std::string& category) {
  constexpr std::array<std::string_view, 7> kCategories{"kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "Kernel", "Memcpy", "Memset"};
  return std::ranges::find(kCategories, category) != kCategories.end();
}

/// cuda_sync has also what the host waits for, which has no stream.
bool has_stream(const EventReader& in) {
  const auto found = in.arguments().find("stream");
  return found != in.arguments().end() && found->is_number() && found->get<double>() >= 0;
}

void read_event(const EventReader& in, Parts& parts) {
  const auto category = in.text("cat");
  if (category.empty() || !in.has("dur") || category == "gpu_user_annotation") return;
  const double begin = in.number("ts");
  const auto name = in.text("name");
  const auto correlation = in.arguments().contains("correlation") ? in.argument("correlation") : kNobody;
  if (on_gpu(category)) {
    if (category == "cuda_sync" && !has_stream(in)) return;
    GpuEvent event{name, work_of(name), static_cast<std::int64_t>(std::ceil(begin)), 0, {}, {}, 0, 0};
    event.end = static_cast<std::int64_t>(std::floor(begin + std::max(0.0, in.number("dur"))));
    if (event.work == GpuWork::Communication) read_message(in, event);
    parts.launched.push_back({std::move(event), correlation});
  } else if (name.starts_with("ProfilerStep")) {
    parts.steps.try_emplace(name, Step{begin, begin + std::max(0.0, in.number("dur"))});
  } else if (correlation != kNobody) {
    parts.calls.push_back({begin, correlation});
  }
}

/// What calls before the last step started, where several steps are marked.
void keep_whole_steps(Parts& parts) {
  if (parts.steps.size() < 2) return;
  const auto begin_of = [](const auto& step) { return step.second.begin; };
  const double last = std::ranges::max(parts.steps | std::views::transform(begin_of));
  std::set<std::int64_t> started;
  for (const auto& call : parts.calls)
    if (std::ceil(call.begin) < std::ceil(last)) started.insert(call.correlation);
  std::erase_if(parts.launched, [&](const LaunchedKernel& l) { return !started.contains(l.correlation); });
}

std::vector<double> step_seconds(const Parts& parts) {
  constexpr double kMicro = 1e-6;
  if (parts.steps.size() == 1) return {(parts.steps.begin()->second.end - parts.steps.begin()->second.begin) * kMicro};
  std::vector<double> begins, seconds;
  for (const auto& [name, step] : parts.steps) begins.push_back(step.begin);
  std::ranges::sort(begins);
  for (std::size_t i = 1; i < begins.size(); ++i) seconds.push_back((begins[i] - begins[i - 1]) * kMicro);
  return seconds;
}

/// Reads a file member by member: events go to `parts` and are forgotten.
class TraceReader {
 public:
  TraceReader(std::string file, Parts& parts) : file_(std::move(file)), parts_(parts) {}

  /// Everything of the document but the events.
  json read(std::istream& in) {
    try {
      return json::parse(in, [this](int depth, json::parse_event_t event, json& value) { return keep(depth, event, value); });
    } catch (const json::parse_error& error) {
      if (in.eof()) throw BadInput(file_, "ends in the middle (byte " + std::to_string(error.byte) + "); was the profile cut off?");
      throw BadInput(file_, "is no JSON at byte " + std::to_string(error.byte) + ", as the PyTorch profiler writes it");
    } catch (const json::exception&) {
      throw BadInput(file_ + ": traceEvents[" + std::to_string(number_) + "]", "has a number that is too large");
    }
  }

 private:
  bool keep(int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1) in_events_ = value == "traceEvents";
    if (event != json::parse_event_t::object_end || depth != 2 || !in_events_) return true;
    read_event(EventReader(value, file_ + ": traceEvents[" + std::to_string(number_++) + "]"), parts_);
    return false;
  }

  std::string file_;
  Parts& parts_;
  bool in_events_ = false;
  std::size_t number_ = 0;
};

void read_ranks(const json& document, const std::string& file, GpuProfile& trace) {
  const auto about = document.find("distributedInfo");
  if (about == document.end() || !about->is_object()) return;
  const EventReader in(*about, file + ": distributedInfo");
  const auto whole = [&](const char* key) { return static_cast<int>(std::clamp(in.number(key), 0.0, 1e8)); };
  if (in.has("rank")) trace.rank = whole("rank");
  if (in.has("world_size")) trace.ranks = whole("world_size");
}

}  // namespace

bool is_kineto(const std::string& beginning) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto first = beginning.find_first_not_of(kBlanks);
  if (first == std::string::npos) return false;
  if (beginning[first] == '{') return true;
  const auto next = beginning.find_first_not_of(kBlanks, first + 1);  // "[job]" begins a file of another kind
  return beginning[first] == '[' && next != std::string::npos && std::string_view("{[]").find(beginning[next]) != std::string_view::npos;
}

GpuProfile read_kineto(std::istream& in, const std::string& file) {
  Parts parts;
  const json document = TraceReader(file, parts).read(in);
  if (!document.is_object()) throw BadInput(file, "is no JSON object, as the PyTorch profiler writes it");
  const auto events = document.find("traceEvents");
  if (events == document.end() || !events->is_array()) throw BadInput(file + ": traceEvents", "must be a list of events");
  GpuProfile trace;
  read_ranks(document, file, trace);
  const bool any = !parts.launched.empty();
  keep_whole_steps(parts);
  for (auto& launched : parts.launched) trace.events.push_back(std::move(launched.event));
  if (trace.events.empty())
    throw BadInput(file, any ? "has work of a GPU in its last step alone; profile at least two steps (schedule(active=2))"
                             : "has no work of a GPU (events of category kernel, gpu_memcpy or gpu_memset); profile with "
                               "ProfilerActivity.CUDA");
  trace.step_seconds = step_seconds(parts);
  return trace;
}

}  // namespace rehearsal::exchange
