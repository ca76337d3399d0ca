#include "exec/comm/running_collective.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kTag = 0;  // order alone pairs the messages of collectives

using graph::LabelKind;

template <class T, class Combine>
void combine(void* own, const void* other, std::int64_t count, const Combine& both) {
  auto* to = static_cast<T*>(own);
  const auto* from = static_cast<const T*>(other);
  for (std::int64_t i = 0; i < count; ++i) to[i] = both(to[i], from[i]);
}

double log_sum_exp(double a, double b) {
  const double larger = std::max(a, b);
  return std::isinf(larger) ? larger : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

template <class T>
void combine(LabelKind reduction, void* own, const void* other, std::int64_t count) {
  if (reduction == LabelKind::Sum) return combine<T>(own, other, count, std::plus<T>());
  if (reduction == LabelKind::Max) return combine<T>(own, other, count, [](T a, T b) { return std::max(a, b); });
  if (reduction == LabelKind::Min) return combine<T>(own, other, count, [](T a, T b) { return std::min(a, b); });
  combine<T>(own, other, count, [](T a, T b) { return static_cast<T>(log_sum_exp(static_cast<double>(a), static_cast<double>(b))); });
}

using Combine = void (*)(LabelKind, void*, const void*, std::int64_t);
struct CombineRow {
  DType dtype;
  Combine combine;
};
constexpr CombineRow kCombine[] = {
    {DType::F32, combine<float>}, {DType::F64, combine<double>}, {DType::I32, combine<std::int32_t>}, {DType::I64, combine<std::int64_t>}};

const CombineRow* combine_row(DType dtype) {
  const auto* row = std::ranges::find(kCombine, dtype, &CombineRow::dtype);
  return row == std::end(kCombine) ? nullptr : row;
}

void add_arrived(const CollectiveCall& call, void* own, const void* other, std::int64_t count) {
  if (const auto* row = combine_row(call.dtype))
    row->combine(call.reduction, own, other, count);
  else
    add_narrow(own, other, call.dtype, count);
}

}  // namespace

RunningCollective::RunningCollective(const CollectiveCall& call)
    : call_(call), group_(call.group.begin(), call.group.end()), element_bytes_(size_of(call.dtype)) {
  const bool reduces = std::ranges::any_of(*call.steps, &plan::CollectiveStep::reduce);
  const bool adds_narrow = is_narrow(call.dtype) && call.reduction == LabelKind::Sum;
  ensure(!reduces || combine_row(call.dtype) != nullptr || adds_narrow, "numbers of this type are not reduced between ranks");
}

void RunningCollective::begin(CollectiveWorkspace& workspace) {
  ensure(!call_.one_sided || workspace.one_sided != nullptr, "a one-sided collective has memory to put parts into");
  me_ = static_cast<int>(std::ranges::find(group_, workspace.world->rank()) - group_.begin());
  const auto beside = plan::beside_vector(*call_.steps, call_.count, {element_bytes_, workspace.segment_bytes});
  const auto needed = static_cast<std::size_t>(beside.scratch + beside.arrivals);
  const bool fits = needed <= workspace.planned.size();
  if (!fits && workspace.allocated.size() < needed) workspace.allocated.resize(needed);
  workspace.scratch = fits ? workspace.planned.data() : workspace.allocated.data();
  workspace.received = workspace.scratch + beside.scratch;
  make_copies(workspace);
  if (!done()) post(workspace);
}

std::span<const plan::CollectiveStep> RunningCollective::under_way() const { return plan::together(std::span(*call_.steps).subspan(at_)); }

std::byte* RunningCollective::address(CollectiveWorkspace& workspace, std::int64_t element) const {
  const bool in_data = element < call_.count;
  auto* region = in_data ? static_cast<std::byte*>(call_.data) : workspace.scratch;
  return region + static_cast<std::size_t>(in_data ? element : element - call_.count) * element_bytes_;
}

void RunningCollective::make_copies(CollectiveWorkspace& workspace) {
  for (; !done() && (*call_.steps)[at_].send_to == me_; ++at_) {
    const auto& s = (*call_.steps)[at_];
    std::memcpy(address(workspace, s.receive_first), address(workspace, s.send_first),
                static_cast<std::size_t>(s.send_count) * element_bytes_);
  }
}

std::vector<RunningCollective::Piece> RunningCollective::pieces(const Piece& whole, std::size_t segment_bytes) const {
  const auto length = plan::piece_elements(whole.count, {element_bytes_, segment_bytes});
  std::vector<Piece> result;
  for (std::int64_t begin = 0; begin < whole.count; begin += length) {
    auto& piece = result.emplace_back(whole);
    piece.first += begin;
    piece.count = std::min(length, whole.count - begin);
  }
  return result;
}

void RunningCollective::post(CollectiveWorkspace& workspace) {
  sends_.clear();
  receives_.clear();
  sent_ = taken_ = posted_ = 0;
  overlap_ = plan::overlap_of(under_way());
  const auto add = [&](std::vector<Piece>& list, const Piece& whole) {
    for (const auto& piece : pieces(whole, workspace.segment_bytes)) list.push_back(piece);
  };
  for (const auto& s : under_way()) {
    if (s.send_to >= 0) add(sends_, {{}, s.send_to, s.send_first, s.send_count});
    if (s.receive_from >= 0) add(receives_, {{}, s.receive_from, s.receive_first, s.receive_count, 0, s.reduce});
  }
  place_pieces();
  post_receives(workspace);
  for (auto& piece : sends_) piece.request = sent(workspace, piece);
}

void RunningCollective::place_pieces() {
  const bool by_turns = plan::arrive_by_turns(under_way());
  places_ = by_turns ? plan::kArrivalPlaces : receives_.size();
  std::size_t place = 0, largest = 0;
  for (const auto& piece : receives_) largest = std::max(largest, bytes_of(piece));
  for (std::size_t n = 0; n < receives_.size(); ++n) {
    auto& piece = receives_[n];
    if (!piece.reduce) continue;
    piece.staged = by_turns ? n % plan::kArrivalPlaces * largest : place;
    place += bytes_of(piece);
  }
}

void RunningCollective::post_receives(CollectiveWorkspace& workspace) {
  for (; posted_ < receives_.size() && (!receives_[posted_].reduce || posted_ < taken_ + places_); ++posted_) {
    receives_[posted_].request = received(workspace, receives_[posted_]);
  }
}

Request RunningCollective::sent(CollectiveWorkspace& workspace, const Piece& piece) const {
  const auto* from = address(workspace, piece.first);
  return call_.one_sided ? workspace.one_sided->put(rank_of(piece), from, bytes_of(piece))
                         : workspace.world->send(rank_of(piece), from, bytes_of(piece), Channel::Collective, kTag);
}

Request RunningCollective::received(CollectiveWorkspace& workspace, Piece& piece) const {
  auto* own = address(workspace, piece.first);
  auto* to = piece.reduce ? workspace.received + piece.staged : own;
  if (!call_.one_sided) return workspace.world->receive(rank_of(piece), to, bytes_of(piece), Channel::Collective, kTag);
  const bool by_turns = !overlap_.any && under_way().size() == 1;
  if (!piece.reduce || !by_turns)
    return workspace.one_sided->receive(rank_of(piece), bytes_of(piece), [to](const std::byte* arrived, std::size_t first, std::size_t n) {
      std::memcpy(to + first, arrived, n);
    });
  piece.reduce = false;  // added from where it has arrived
  return workspace.one_sided->receive(
      rank_of(piece), bytes_of(piece),
      [own, call = call_, size = element_bytes_](const std::byte* arrived, std::size_t first, std::size_t n) {
        add_arrived(call, own + first, arrived, static_cast<std::int64_t>(n / size));
      });
}

bool RunningCollective::ended(CollectiveWorkspace& workspace, Piece& piece) const {
  return call_.one_sided ? workspace.one_sided->done(piece.request) : workspace.world->done(piece.request);
}

bool RunningCollective::may_be_taken(std::size_t piece) const {
  if (!overlap_.any) return true;
  return overlap_.same ? sent_ > piece : sent_ == sends_.size();
}

void RunningCollective::take(CollectiveWorkspace& workspace, const Piece& piece) {
  if (!piece.reduce) return;
  auto* own = address(workspace, piece.first);
  const auto* other = workspace.received + piece.staged;
  add_arrived(call_, own, other, piece.count);
}

bool RunningCollective::advance(CollectiveWorkspace& workspace) {
  bool moved = false;
  while (!done()) {
    while (sent_ < sends_.size() && ended(workspace, sends_[sent_])) ++sent_, moved = true;
    while (taken_ < posted_ && ended(workspace, receives_[taken_]) && may_be_taken(taken_)) {
      take(workspace, receives_[taken_++]);
      post_receives(workspace);
      moved = true;
    }
    if (sent_ < sends_.size() || taken_ < receives_.size()) return moved;
    at_ += under_way().size();
    make_copies(workspace);
    if (!done()) post(workspace);
  }
  return moved;
}

std::string RunningCollective::awaited() const {
  if (done()) return "nothing";
  const bool receiving = taken_ < receives_.size();
  const int peer = receiving ? receives_[taken_].peer : sends_[sent_].peer;
  return "rank " + std::to_string(group_[static_cast<std::size_t>(peer)]) + (receiving ? " to send" : " to take") +
         " a part of a collective (step " + std::to_string(at_ + 1) + " of " + std::to_string(call_.steps->size()) + ", " +
         std::to_string(group_.size()) + " ranks)";
}

}  // namespace rehearsal::exec
