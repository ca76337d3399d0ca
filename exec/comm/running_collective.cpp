#include "exec/comm/running_collective.hpp"

#include <algorithm>

#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kTag = 0;                  // order alone pairs the messages of collectives
constexpr std::size_t kMostPieces = 64;  // of one message: more of them cost more than they overlap
constexpr std::size_t kLargestPiece = std::size_t{1} << 30;

template <class T>
void add(void* own, const void* other, std::int64_t count) {
  auto* to = static_cast<T*>(own);
  const auto* from = static_cast<const T*>(other);
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

RunningCollective::RunningCollective(const CollectiveCall& call)
    : call_(call), group_(call.group.begin(), call.group.end()), element_bytes_(size_of(call.dtype)) {
  const bool adds = std::ranges::any_of(*call.steps, &plan::CollectiveStep::reduce);
  ensure(!adds || call.dtype == DType::F32 || call.dtype == DType::F64 || is_narrow(call.dtype),
         "only real numbers are added between ranks");
}

void RunningCollective::begin(CollectiveWorkspace& workspace) {
  if (!done()) post(workspace);
}

std::vector<RunningCollective::Piece> RunningCollective::pieces(std::int64_t first, std::int64_t count, std::size_t segment_bytes) const {
  const std::size_t bytes = static_cast<std::size_t>(count) * element_bytes_;
  const std::size_t wanted = std::min(std::max(segment_bytes, bytes / kMostPieces + 1), kLargestPiece);
  const auto length = static_cast<std::int64_t>(std::max<std::size_t>(wanted / element_bytes_, 1));
  std::vector<Piece> result;
  for (std::int64_t begin = 0; begin < count; begin += length) result.push_back({{}, first + begin, std::min(length, count - begin)});
  return result;
}

void RunningCollective::post(CollectiveWorkspace& workspace) {
  const auto& s = step();
  auto* data = static_cast<std::byte*>(call_.data);
  sends_ = s.send_to < 0 ? std::vector<Piece>{} : pieces(s.send_first, s.send_count, workspace.segment_bytes);
  receives_ = s.receive_from < 0 ? std::vector<Piece>{} : pieces(s.receive_first, s.receive_count, workspace.segment_bytes);
  sent_ = taken_ = 0;
  overlap_.any = !sends_.empty() && !receives_.empty() && s.send_first < s.receive_first + s.receive_count &&
                 s.receive_first < s.send_first + s.send_count;
  overlap_.same = s.send_first == s.receive_first && s.send_count == s.receive_count;
  if (s.reduce) workspace.received.resize(std::max(workspace.received.size(), static_cast<std::size_t>(s.receive_count) * element_bytes_));
  for (auto& piece : receives_) {
    auto* to = s.reduce ? workspace.received.data() + static_cast<std::size_t>(piece.first - s.receive_first) * element_bytes_
                        : data + static_cast<std::size_t>(piece.first) * element_bytes_;
    const int peer = group_[static_cast<std::size_t>(s.receive_from)];
    piece.request = workspace.world->receive(peer, to, static_cast<std::size_t>(piece.count) * element_bytes_, Channel::Collective, kTag);
  }
  for (auto& piece : sends_) {
    const auto* from = data + static_cast<std::size_t>(piece.first) * element_bytes_;
    const int peer = group_[static_cast<std::size_t>(s.send_to)];
    piece.request = workspace.world->send(peer, from, static_cast<std::size_t>(piece.count) * element_bytes_, Channel::Collective, kTag);
  }
}

bool RunningCollective::may_be_taken(std::size_t piece) const {
  if (!overlap_.any) return true;
  return overlap_.same ? sent_ > piece : sent_ == sends_.size();
}

void RunningCollective::take(const CollectiveWorkspace& workspace, const Piece& piece) {
  if (!step().reduce) return;
  auto* own = static_cast<std::byte*>(call_.data) + static_cast<std::size_t>(piece.first) * element_bytes_;
  const auto* other = workspace.received.data() + static_cast<std::size_t>(piece.first - step().receive_first) * element_bytes_;
  if (call_.dtype == DType::F32)
    add<float>(own, other, piece.count);
  else if (is_narrow(call_.dtype))
    add_narrow(own, other, call_.dtype, piece.count);
  else
    add<double>(own, other, piece.count);
}

bool RunningCollective::advance(CollectiveWorkspace& workspace) {
  bool moved = false;
  while (!done()) {
    while (sent_ < sends_.size() && workspace.world->done(sends_[sent_].request)) ++sent_, moved = true;
    while (taken_ < receives_.size() && workspace.world->done(receives_[taken_].request) && may_be_taken(taken_)) {
      take(workspace, receives_[taken_++]);
      moved = true;
    }
    if (sent_ < sends_.size() || taken_ < receives_.size()) return moved;
    ++at_;
    if (!done()) post(workspace);
  }
  return moved;
}

std::string RunningCollective::awaited() const {
  if (done()) return "nothing";
  const bool receiving = taken_ < receives_.size();
  const int peer = receiving ? step().receive_from : step().send_to;
  return "rank " + std::to_string(group_[static_cast<std::size_t>(peer)]) + (receiving ? " to send" : " to take") +
         " a part of a collective (step " + std::to_string(at_ + 1) + " of " + std::to_string(call_.steps->size()) + ", " +
         std::to_string(group_.size()) + " ranks)";
}

}  // namespace rehearsal::exec
