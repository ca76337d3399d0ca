#pragma once
// Neighbouring elements that some threads share: each takes a few of them at a time, as many as 16 or 8 bytes hold where all addresses
// allow it, so that threads side by side read memory side by side.

#include <cstdint>
#include <type_traits>

#include "exec/kernels/cuda/numbers.hpp"

namespace rehearsal::exec::cuda {

/// So many elements, read or written at once.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Few {
  T at[kCount];
};
template <int kCount, class T>
REHEARSAL_BODY Few<T, kCount> load_few(const T* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Few<T, kCount>*>(from);
#else
  Few<T, kCount> few;
  memcpy(static_cast<void*>(&few), static_cast<const void*>(from), sizeof(few));
  return few;
#endif
}
template <class T, int kCount>
REHEARSAL_BODY void store_few(T* to, const Few<T, kCount>& few) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Few<T, kCount>*>(to) = few;
#else
  memcpy(static_cast<void*>(to), static_cast<const void*>(&few), sizeof(few));
#endif
}

/// How many elements of at most 4 bytes 16 bytes hold; larger ones are read one by one, of which two take more registers than they save.
template <class T>
inline constexpr int few_of = sizeof(T) <= 4 ? static_cast<int>(16 / sizeof(T)) : 1;

/// True where so many elements can be read at once from the first on.
template <class T>
[[nodiscard]] bool begins_whole(const T* array, int count) {
  return reinterpret_cast<std::uintptr_t>(array) % (static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

/// Elements [first, last), of which this is thread `lane` of `lanes`.
struct Share {
  std::int64_t first, last, lane, lanes;
};

/// The smallest power of two of threads of which each has at most kEach of so many elements, at most `most`.
REHEARSAL_BODY std::int64_t lanes_for(std::int64_t elements, std::int64_t most) {
  constexpr std::int64_t kEach = 32;
  std::int64_t lanes = 1;
  while (lanes < most && lanes * kEach < elements) lanes *= 2;
  return lanes;
}

namespace detail {

template <int kBytes, class T>
REHEARSAL_BODY bool take_whole(const Share& share, const T* array) {
  constexpr std::int64_t kCount = kBytes / static_cast<std::int64_t>(sizeof(T));
  return (share.last - share.first) % kCount == 0 && reinterpret_cast<std::uintptr_t>(array + share.first) % kBytes == 0;
}

template <int kCount, class Visit>
REHEARSAL_BODY void visit_by(const Share& share, const Visit& visit) {
  const std::integral_constant<int, kCount> count{};
  for (std::int64_t i = share.first + share.lane * kCount; i < share.last; i += share.lanes * kCount) visit(count, i);
}

/// Elements before the first of an array that begins a group of kBytes.
template <int kBytes, class T>
REHEARSAL_BODY std::int64_t elements_before_group(const T* array) {
  const auto over = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(array) % kBytes);
  return over == 0 ? 0 : (kBytes - over) / static_cast<std::int64_t>(sizeof(T));
}

/// Rows of any length: groups from the first address that begins one, single elements before and behind. False where the arrays begin
/// groups at different elements, or there are few.
template <int kBytes, class Visit, class T, class... More>
REHEARSAL_BODY bool visit_groups(const Share& share, const Visit& visit, const T* array, const More*... more) {
  constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  if constexpr (((sizeof(More) == sizeof(T)) && ...)) {
    const std::int64_t before = elements_before_group<kBytes>(array + share.first), length = share.last - share.first;
    if (length < 2 * kCount * share.lanes || !((elements_before_group<kBytes>(more + share.first) == before) && ...)) return false;
    const std::int64_t first = share.first + before, last = first + (length - before) / kCount * kCount;
    visit_by<1>({share.first, first, share.lane, share.lanes}, visit);
    visit_by<kCount>({first, last, share.lane, share.lanes}, visit);
    visit_by<1>({last, share.last, share.lane, share.lanes}, visit);
    return true;
  }
  return false;
}

}  // namespace detail

/// visit(count, i) for every group of `count` elements from i on, of all arrays, that is this thread's; count is an integral_constant.
template <class Visit, class T, class... More>
REHEARSAL_BODY void visit_share(const Share& share, const Visit& visit, const T* array, const More*... more) {
  constexpr int kLarge = 16, kSmall = 8, kSize = static_cast<int>(sizeof(T));
  if constexpr (kSize < kLarge)
    if (detail::take_whole<kLarge>(share, array) && (detail::take_whole<kLarge>(share, more) && ...))
      return detail::visit_by<kLarge / kSize>(share, visit);
  if constexpr (kSize < kSmall)
    if (detail::take_whole<kSmall>(share, array) && (detail::take_whole<kSmall>(share, more) && ...))
      return detail::visit_by<kSmall / kSize>(share, visit);
  if constexpr (kSize < kSmall)
    if (detail::visit_groups<kLarge>(share, visit, array, more...)) return;
  detail::visit_by<1>(share, visit);
}

}  // namespace rehearsal::exec::cuda
