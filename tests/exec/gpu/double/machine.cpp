#include "tests/exec/gpu/double/machine.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "exec/comm/communicator.hpp"
#include "exec/kernels/cuda/launch.hpp"

namespace rehearsal::exec::gpu_double {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

void join(Clock& clock, const Clock& other) {
  for (const auto& [thread, number] : other) clock[thread] = std::max(clock[thread], number);
}

std::uintptr_t begin_of(const Touch& touch) { return reinterpret_cast<std::uintptr_t>(touch.data); }

/// What our own kernels ask for where their bodies run on the host.
void defer(exec::DeviceStream stream, std::function<void()> run) {
  machine().ask(static_cast<Stream*>(stream.handle), {"kernel", {}, std::move(run)});
}

}  // namespace

Machine& machine() {
  static Machine machine;
  return machine;
}

Machine::Machine() : room_(std::size_t{1} << 30), eager_(setting("REHEARSAL_DOUBLE_ORDER") == "eager") {
  cuda::deferred = defer;
  if (const auto megabytes = setting("REHEARSAL_DOUBLE_MEGABYTES"); !megabytes.empty()) room_ = std::stoul(megabytes) << 20;
  std::istringstream failure(setting("REHEARSAL_DOUBLE_FAILURE"));
  std::string number, error;
  if (std::getline(failure, failing_, ':') && std::getline(failure, number, ':') && std::getline(failure, error)) {
    fails_at_ = std::stoi(number);
    failure_ = std::stoi(error);
  }
}
Machine::~Machine() { cuda::deferred = nullptr; }

int Machine::begin(const char* call) {
  constexpr int kOutOfMemory = 2;
  const int count = ++calls_[call];
  if (lost_ != 0) return lost_;
  if (failing_ != call || count != fails_at_) return 0;
  if (failure_ != kOutOfMemory) lost_ = failure_;
  return failure_;
}

void* Machine::allocate(std::size_t bytes, bool on_host) {
  const auto size = whole_pages(bytes);
  if (!on_host && size > free_bytes()) return nullptr;
  void* data = mmap(nullptr, size, on_host ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (!on_host) taken_ += size;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  memory_[begin] = {size, on_host};
  split_at(begin);
  split_at(begin + size);
  segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(begin + size));
  return data;
}

void Machine::release(void* data) {
  const auto at = memory_.find(reinterpret_cast<std::uintptr_t>(data));
  if (at == memory_.end()) return;
  for (auto& stream : streams_) run_to(*stream, stream->asked);
  if (!at->second.second) taken_ -= at->second.first;
  (void)munmap(data, at->second.first);
  memory_.erase(at);
}

bool Machine::is_device(const void* data) const {
  auto at = memory_.upper_bound(reinterpret_cast<std::uintptr_t>(data));
  if (at == memory_.begin()) return false;
  --at;
  return reinterpret_cast<std::uintptr_t>(data) < at->first + at->second.first && !at->second.second;
}
bool Machine::is_pinned(const void* data) const {
  auto at = memory_.upper_bound(reinterpret_cast<std::uintptr_t>(data));
  if (at == memory_.begin()) return false;
  --at;
  return reinterpret_cast<std::uintptr_t>(data) < at->first + at->second.first && at->second.second;
}

Stream* Machine::make_stream() {
  streams_.push_back(std::make_unique<Stream>());
  streams_.back()->thread = threads_++;
  return streams_.back().get();
}

void Machine::destroy(Stream* stream) {
  std::erase_if(streams_, [&](const auto& known) { return known.get() == stream; });
}

void Machine::ask(Stream* stream, Work work) {
  check_scope(work);
  noted_.push_back({work.call, scopes_.empty() ? "" : scopes_.back().name, stream->thread});
  join(stream->clock, host_clock_);
  stream->clock[stream->thread] = ++stream->asked;
  const auto& touches = work.touches.empty() && !scopes_.empty() ? scopes_.back().touches : work.touches;
  const auto what = work.call + (scopes_.empty() ? "" : " of " + scopes_.back().name);
  for (const auto& touch : touches) note({stream->thread, stream->asked, what}, stream->clock, touch);
  stream->waiting.emplace_back(stream->asked, std::move(work));
  if (eager_) (void)try_to(*stream, stream->asked);
}

void Machine::record(Event& event, Stream* stream) { event = {stream, stream->asked, stream->clock, event.time}; }

void Machine::wait_for(Stream* stream, const Event& event) {
  if (event.stream == nullptr) return;
  join(stream->clock, event.clock);
  // Late as the rest: the other stream's work is done when this one's is.
  stream->clock[stream->thread] = ++stream->asked;
  stream->waiting.emplace_back(stream->asked,
                               Work{"wait", {}, [this, other = event.stream, behind = event.behind] { run_to(*other, behind); }});
}

void Machine::finish(Stream* stream) {
  run_to(*stream, stream->asked);
  join(host_clock_, stream->clock);
}

void Machine::finish(const Event& event) {
  if (event.stream == nullptr) return;
  run_to(*event.stream, event.behind);
  join(host_clock_, event.clock);
}

bool Machine::has_happened(const Event& event) {
  if (event.stream != nullptr && !try_to(*event.stream, event.behind)) return false;
  join(host_clock_, event.clock);
  return true;
}

void Machine::run_to(Stream& stream, std::int64_t number) {
  constexpr double kLongest = 60;  // seconds: a rank that waits longer waits for ever
  for (const double since = now_seconds(); !try_to(stream, number); ::sched_yield()) {
    if (now_seconds() - since < kLongest) continue;
    std::fputs("the double of a GPU waits for other ranks while its host waits for it\n", stderr);
    std::abort();
  }
}

bool Machine::may_run(Work& work) {
  if (work.offer) {
    open(true);
    work.offer();
    open(false);
    work.offer = {};
  }
  return !work.ready || work.ready();
}

bool Machine::try_to(Stream& stream, std::int64_t number) {
  while (!stream.waiting.empty() && stream.waiting.front().first <= number) {
    if (!may_run(stream.waiting.front().second)) return false;
    auto work = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    const bool waits = work.second.call == "wait";
    if (!waits) open(true);
    work.second.run();
    if (!waits) open(false);
    stream.done = work.first;
  }
  return true;
}

void Machine::open(bool is_open) {
  for (const auto& [begin, about] : memory_)
    if (!about.second) (void)mprotect(reinterpret_cast<void*>(begin), about.first, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void Machine::host_touches(const Touch& touch, const char* doing) {
  host_clock_[0] = ++host_;
  note({0, host_, std::string("the host ") + doing}, host_clock_, touch);
}

Machine::Scope::Scope(Machine& machine, std::string name, std::vector<Touch> touches) : machine_(machine) {
  machine_.scopes_.push_back({std::move(name), std::move(touches)});
}
Machine::Scope::~Scope() { machine_.scopes_.pop_back(); }

void Machine::split_at(std::uintptr_t place) {
  auto at = segments_.upper_bound(place);
  if (at == segments_.begin()) return;
  --at;
  if (at->first == place || at->second.end <= place) return;
  auto tail = at->second;
  at->second.end = place;
  segments_.emplace(place, std::move(tail));
}

void Machine::note(const Access& access, const Clock& clock, const Touch& touch) {
  if (touch.data == nullptr || touch.bytes == 0) return;
  const auto begin = begin_of(touch), end = begin + touch.bytes;
  split_at(begin);
  split_at(end);
  auto place = begin;
  for (auto at = segments_.lower_bound(begin); place < end;) {
    if (at == segments_.end() || at->first > place)
      at = segments_.emplace(place, Segment{at == segments_.end() ? end : std::min(end, at->first), {}, {}}).first;
    auto& segment = at->second;
    compare(segment.written, access, clock, touch);
    if (touch.writes) {
      for (const auto& reading : segment.read) compare(reading, access, clock, touch);
      segment.written = access;
      segment.read.clear();
    } else {
      std::erase_if(segment.read, [&](const Access& known) { return known.thread == access.thread; });
      segment.read.push_back(access);
    }
    place = segment.end;
    ++at;
  }
}

void Machine::compare(const Access& earlier, const Access& now, const Clock& clock, const Touch& touch) {
  if (earlier.number == 0 || earlier.thread == now.thread) return;
  const auto known = clock.find(earlier.thread);
  if (known != clock.end() && known->second >= earlier.number) return;
  const auto text =
      now.what + (touch.writes ? " writes " : " reads ") + place_of(touch.data) + " while " + earlier.what + " may still be under way";
  if (std::ranges::find(faults_, text) == faults_.end()) faults_.push_back(text);
}

void Machine::check_scope(const Work& work) {
  if (scopes_.empty() || !work.call.starts_with("cu") || work.call.starts_with("cuda")) return;
  for (const auto& touch : work.touches) {
    if (!is_device(touch.data)) continue;
    const bool inside = std::ranges::any_of(scopes_.back().touches, [&](const Touch& given) {
      return begin_of(touch) >= begin_of(given) && begin_of(touch) + touch.bytes <= begin_of(given) + given.bytes &&
             (given.writes || !touch.writes);
    });
    if (!inside)
      faults_.push_back(work.call + (touch.writes ? " writes " : " reads ") + place_of(touch.data) + ", which " + scopes_.back().name +
                        " was not given");
  }
}

std::string Machine::place_of(const void* data) const {
  auto at = memory_.upper_bound(reinterpret_cast<std::uintptr_t>(data));
  if (at == memory_.begin()) return "memory of the host";
  --at;
  const auto offset = reinterpret_cast<std::uintptr_t>(data) - at->first;
  if (offset >= at->second.first) return "memory of the host";
  return "byte " + std::to_string(offset) + " of " + std::to_string(at->second.first) + (at->second.second ? " (pinned)" : " (device)");
}

}  // namespace rehearsal::exec::gpu_double
