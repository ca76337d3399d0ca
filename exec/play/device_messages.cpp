#include "exec/play/device_messages.hpp"

#include <sched.h>

#include <algorithm>
#include <set>
#include <utility>

#include "exec/comm/one_sided.hpp"
#include "plan/collectives/meetings.hpp"

namespace rehearsal::exec {
namespace {

bool puts_parts(const plan::Role& role) { return std::ranges::any_of(role.collectives, plan::is_one_sided); }

/// The ranks that put parts into the memory of this one.
std::vector<int> senders_of_puts(const plan::Program& program, int rank) {
  std::set<int> senders;
  for (const auto& info : program.role(rank).collectives) {
    if (!plan::is_one_sided(info)) continue;
    const auto group = plan::group(program, rank, info.axis);
    const int ranks = static_cast<int>(group.size());
    const auto& row = plan::collective(info.kind, info.algorithm);
    const auto found = senders_in(row.steps(plan::coordinate(program, rank, info.axis), ranks, ranks, 1), group, rank);  // an element each
    senders.insert(found.begin(), found.end());
  }
  return {senders.begin(), senders.end()};
}

/// nullopt: the program has none. Vectors in the order in which the role names them.
std::optional<CenterLayout> center_of(const plan::Program& program, int rank) {
  if (!program.plan.meets_one_by_one()) return std::nullopt;
  const auto& role = program.role(rank);
  CenterLayout layout{{rank}, {}, {}, staleness_in_run(program.plan)};
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions) {
      if (i.kind != plan::InstructionKind::Collective) continue;
      const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
      if (info.algorithm != plan::kServers || info.kind != plan::CollectiveKind::Broadcast) continue;
      ensure(info.center == static_cast<std::int32_t>(layout.vectors.size()), "vectors of a center are numbered as they begin");
      layout.group = plan::group(program, rank, info.axis);
      layout.servers = program.plan.servers;
      const auto& vector = role.buffers[i.outputs.front()];
      layout.vectors.push_back({graph::element_count(vector.shapes.front()), vector.dtype});
    }
  return layout;
}

}  // namespace

std::int64_t staleness_in_run(const plan::Plan& plan) {
  constexpr std::int64_t kMostSteps = 16;
  const auto given = plan.staleness.value_or(0);
  return given == plan::kAnyStaleness ? std::max<std::int64_t>(1, kMostSteps / plan.local_steps) : given;
}

Messages::Messages(const plan::Program& program, Communicator& world, ComputeDevice& device, std::span<std::byte> beside)
    : world_(world),
      device_(device),
      transfers_(world, plan::kSegmentBytes, beside),
      groups_(program, world, device, [this] { transfers_.progress(); }) {
  if (auto layout = center_of(program, world.rank())) {
    if (!device.is_host())
      throw Refusal("plan: staleness: replicas meet in memory of the host, and this one computes on " + std::string(device.name()) +
                    "; use staleness=none, or --backend cpu");
    center_.emplace(world, std::move(*layout));
    center_bytes_ = plan::center_bytes(program, program.role(world.rank()));
  }
  if (std::ranges::any_of(program.roles, puts_parts)) transfers_.take_puts_of(senders_of_puts(program, world.rank()));
}

Messages::StagedMessage Messages::stage(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (auto at = unused_.find(size); at != unused_.end()) return {std::move(unused_.extract(at).mapped()), nullptr, bytes};
  return {std::make_unique<DeviceMemory>(device_, size, DeviceMemory::Where::Host), nullptr, bytes};
}

void Messages::finish(StagedMessage& staged) {
  if (staged.arrives != nullptr) device_.upload(staged.arrives, staged.memory->data(), staged.bytes);
  unused_.emplace(static_cast<std::int64_t>(staged.bytes), std::move(staged.memory));
}

MessageTicket Messages::start_send(int peer, const void* data, std::size_t bytes, int tag, std::string_view what) {
  if (device_.is_host()) return {transfers_.start_send(peer, data, bytes, tag, what)};
  auto staged = stage(bytes);
  device_.download(staged.memory->data(), data, bytes);
  const auto ticket = transfers_.start_send(peer, staged.memory->data(), bytes, tag, what);
  staged_.emplace(ticket, std::move(staged));
  return {ticket};
}

MessageTicket Messages::start_receive(int peer, void* data, std::size_t bytes, int tag, std::string_view what) {
  if (device_.is_host()) return {transfers_.start_receive(peer, data, bytes, tag, what)};
  auto staged = stage(bytes);
  staged.arrives = data;
  const auto ticket = transfers_.start_receive(peer, staged.memory->data(), bytes, tag, what);
  staged_.emplace(ticket, std::move(staged));
  return {ticket};
}

MessageTicket Messages::start_collective(const CollectiveCall& call, std::string_view what) {
  if (device_.is_host()) return {transfers_.start_collective(call, what)};
  auto staged = stage(static_cast<std::size_t>(call.count) * size_of(call.dtype));
  staged.arrives = call.data;
  device_.download(staged.memory->data(), call.data, staged.bytes);
  auto on_host = call;
  on_host.data = staged.memory->data();
  const auto ticket = transfers_.start_collective(on_host, what);
  staged_.emplace(ticket, std::move(staged));
  return {ticket};
}

MessageTicket Messages::start_collective(const DeviceCollective& collective, std::string_view what) {
  const auto number = groups_.collectives()->start(collective);
  if (by_device_.empty()) waiting_.restart();
  by_device_.push_back({number, what});
  return {{}, number};
}

MessageTicket Messages::start_at_center(SharedCenter::Call call, void* data, std::string_view what) {
  ensure(center_.has_value(), "a program whose replicas meet one by one has a center");
  if (!center_->busy()) waiting_.restart();
  call.data = data;
  return {{}, {}, center_->start(call, what)};
}

void Messages::meet_at_once(bool yes) {
  if (!center_) return;
  if (!yes) world_.barrier("a meeting of all replicas");  // nobody adds to what another has yet to read
  center_->meet_at_once(yes);
}

std::int64_t Messages::take_staleness() { return center_ ? center_->take_staleness() : 0; }

bool Messages::done(const MessageTicket& ticket) {
  if (ticket.at_center) return center_->done(*ticket.at_center);
  if (ticket.by_device) return groups_.collectives()->done(*ticket.by_device);
  if (!transfers_.done(ticket.by_host)) return false;
  if (const auto at = staged_.find(ticket.by_host); at != staged_.end()) {
    finish(at->second);
    staged_.erase(at);
  }
  return true;
}

void Messages::progress() {
  if (transfers_.progress()) waiting_.restart();
  if (center_ && center_->progress()) waiting_.restart();
  while (!by_device_.empty() && groups_.collectives()->done(by_device_.front().number)) {
    by_device_.erase(by_device_.begin());
    waiting_.restart();
  }
}

void Messages::idle() {
  if (by_device_.empty() && !waits_at_center()) return transfers_.idle();
  progress();
  if (by_device_.empty() && !waits_at_center()) return;
  world_.require_neighbours();
  waiting_.look(now_seconds());
  if (waiting_.seconds() > world_.stall_seconds())
    throw world_.stalled(waits_at_center() ? center_->awaited()
                                           : "the devices of other ranks to take part in a collective for '" +
                                                 std::string(by_device_.front().what) + "'");
  ::sched_yield();
}

void Messages::wait_all() {
  while (!by_device_.empty() || waits_at_center()) idle();
  transfers_.wait_all();
  for (auto& [ticket, staged] : staged_) finish(staged);
  staged_.clear();
}

TransferTimes Messages::times(const MessageTicket& ticket) const {
  if (ticket.at_center) return center_->times(*ticket.at_center);
  if (!ticket.by_device) return transfers_.times(ticket.by_host);
  const auto times = groups_.collectives()->times(*ticket.by_device);
  return {times.begin, times.end};
}

void Messages::forget() {
  transfers_.forget();
  by_device_.clear();
  if (center_) center_->forget();
  if (groups_.collectives() != nullptr) groups_.collectives()->forget();
}

}  // namespace rehearsal::exec
