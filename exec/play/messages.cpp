#include "exec/play/messages.hpp"

#include <utility>

namespace rehearsal::exec {

Messages::Staged Messages::stage(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (auto at = unused_.find(size); at != unused_.end()) return {std::move(unused_.extract(at).mapped()), nullptr, bytes};
  return {std::make_unique<DeviceMemory>(device_, size, DeviceMemory::Where::Host), nullptr, bytes};
}

void Messages::finish(Staged& staged) {
  if (staged.arrives != nullptr) device_.upload(staged.arrives, staged.memory->data(), staged.bytes);
  unused_.emplace(static_cast<std::int64_t>(staged.bytes), std::move(staged.memory));
}

Ticket Messages::start_send(int peer, const void* data, std::size_t bytes, int tag, std::string_view what) {
  if (device_.is_host()) return transfers_.start_send(peer, data, bytes, tag, what);
  auto staged = stage(bytes);
  device_.download(staged.memory->data(), data, bytes);
  const auto ticket = transfers_.start_send(peer, staged.memory->data(), bytes, tag, what);
  staged_.emplace(ticket, std::move(staged));
  return ticket;
}

Ticket Messages::start_receive(int peer, void* data, std::size_t bytes, int tag, std::string_view what) {
  if (device_.is_host()) return transfers_.start_receive(peer, data, bytes, tag, what);
  auto staged = stage(bytes);
  staged.arrives = data;
  const auto ticket = transfers_.start_receive(peer, staged.memory->data(), bytes, tag, what);
  staged_.emplace(ticket, std::move(staged));
  return ticket;
}

Ticket Messages::start_collective(const CollectiveCall& call, std::string_view what) {
  if (device_.is_host()) return transfers_.start_collective(call, what);
  auto staged = stage(static_cast<std::size_t>(call.count) * size_of(call.dtype));
  staged.arrives = call.data;
  device_.download(staged.memory->data(), call.data, staged.bytes);
  auto on_host = call;
  on_host.data = staged.memory->data();
  const auto ticket = transfers_.start_collective(on_host, what);
  staged_.emplace(ticket, std::move(staged));
  return ticket;
}

bool Messages::done(Ticket ticket) {
  if (!transfers_.done(ticket)) return false;
  if (const auto at = staged_.find(ticket); at != staged_.end()) {
    finish(at->second);
    staged_.erase(at);
  }
  return true;
}

void Messages::wait_all() {
  transfers_.wait_all();
  for (auto& [ticket, staged] : staged_) finish(staged);
  staged_.clear();
}

}  // namespace rehearsal::exec
