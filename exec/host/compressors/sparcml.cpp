// SparCML (Renggli et al., SC 2019): of every block of elements the largest are sent with their places, and the sum over the ranks, in
// which the places of all of them are, travels as pairs, too, or whole once that is fewer bytes (there: SSAR and DSAR split allgather).
// Of elements as large as the smallest that is sent the first are taken.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "exec/host/compressors/block_code.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec {
namespace {

using Position16 = std::uint16_t;
constexpr Position16 kNowhere = std::numeric_limits<Position16>::max();
static_assert(plan::kCompressedBlock < kNowhere);

/// Pairs of a place and a value: all places first.
template <class T>
class PairsIn {
 public:
  PairsIn(std::byte* at, std::int64_t room) : at_(at), room_(room) {}
  void put(std::int64_t place, T value) {
    const auto p = static_cast<Position16>(place);
    std::memcpy(at_ + count_ * kPlaceBytes, &p, sizeof p);
    std::memcpy(at_ + room_ * kPlaceBytes + count_ * kValueBytes, &value, sizeof value);
    ++count_;
  }
  /// What is left over is nowhere.
  void finish() {
    while (count_ < room_) put(kNowhere, T(0));
  }

 private:
  static constexpr auto kPlaceBytes = static_cast<std::int64_t>(sizeof(Position16)), kValueBytes = static_cast<std::int64_t>(sizeof(T));
  std::byte* at_;
  std::int64_t room_, count_ = 0;
};

template <class T>
void add_pairs(const std::byte* from, std::int64_t room, std::int64_t elements, T* sum) {
  for (std::int64_t n = 0; n < room; ++n) {
    Position16 place = 0;
    T value;
    std::memcpy(&place, from + n * static_cast<std::int64_t>(sizeof place), sizeof place);
    if (place >= elements) return;
    std::memcpy(&value, from + room * static_cast<std::int64_t>(sizeof place) + n * static_cast<std::int64_t>(sizeof value), sizeof value);
    sum[place] += value;
  }
}

std::int64_t pairs_of_rank(const BlockTask& task) { return plan::sent_elements(plan::kCompressedBlock, task.setting); }

/// By which elements are compared: what is not a number is larger than all others, and sent.
template <class T>
T size_of_element(T x) {
  return std::isnan(x) ? std::numeric_limits<T>::infinity() : std::abs(x);
}

template <class T>
void write_largest(const BlockTask& task, const T* block, std::int64_t elements, std::byte* to) {
  const auto room = pairs_of_rank(task), k = std::min(room, elements);
  std::array<T, plan::kCompressedBlock> sizes;
  std::transform(block, block + elements, sizes.begin(), size_of_element<T>);
  const auto kth = sizes.begin() + (k - 1);
  std::nth_element(sizes.begin(), kth, sizes.begin() + elements, std::greater());
  const T least = *kth;
  auto equal = k - std::count_if(sizes.begin(), kth, [&](T x) { return x > least; });
  PairsIn<T> pairs(to, room);
  for (std::int64_t e = 0; e < elements; ++e) {
    const T size = size_of_element(block[e]);
    if (size > least || (size == least && equal-- > 0)) pairs.put(e, block[e]);
  }
  pairs.finish();
}

template <class T>
void add_largest_of_block(const BlockTask& task, const std::byte* from, std::int64_t elements, T* sum) {
  add_pairs(from, pairs_of_rank(task), elements, sum);
}

/// Places that all ranks together may have sent; 0: the sum is sent whole.
template <class T>
std::int64_t pairs_of_sum(const BlockTask& task) {
  constexpr auto kPair = static_cast<std::int64_t>(sizeof(Position16) + sizeof(T)),
                 kWhole = plan::kCompressedBlock * static_cast<std::int64_t>(sizeof(T));
  const auto pairs = task.ranks * pairs_of_rank(task);
  return pairs * kPair < kWhole ? pairs : 0;
}

template <class T>
void write_sum(const BlockTask& task, const T* block, std::int64_t elements, std::byte* to) {
  const auto room = pairs_of_sum<T>(task);
  if (room == 0) {
    std::memset(to, 0, sizeof(T) * plan::kCompressedBlock);
    std::memcpy(to, block, sizeof(T) * static_cast<std::size_t>(elements));
    return;
  }
  PairsIn<T> pairs(to, room);
  for (std::int64_t e = 0; e < elements; ++e)
    if (block[e] != 0) pairs.put(e, block[e]);
  pairs.finish();
}

template <class T>
void add_sum(const BlockTask& task, const std::byte* from, std::int64_t elements, T* sum) {
  if (const auto room = pairs_of_sum<T>(task); room > 0) return add_pairs(from, room, elements, sum);
  for (std::int64_t e = 0; e < elements; ++e) {
    T value;
    std::memcpy(&value, from + e * static_cast<std::int64_t>(sizeof value), sizeof value);
    sum[e] += value;
  }
}

template <class T>
constexpr BlockCodePair<T> kSparse{{write_largest<T>, add_largest_of_block<T>}, {write_sum<T>, add_sum<T>}};

}  // namespace

BlockCodes sparcml_code() { return {plan::CompressionRule::SparCml, kSparse<float>, kSparse<double>}; }

}  // namespace rehearsal::exec
