#pragma once
// Elements in groups of 16 bytes, the most that one thread of a GPU moves at a time, and division by numbers known beforehand.

#include <cstdint>
#include <initializer_list>

#include "exec/kernels/cuda/neighbours.hpp"
#include "exec/kernels/cuda/numbers.hpp"

namespace rehearsal::exec::cuda {

inline constexpr std::int64_t kPackBytes = 16;

template <class T>
struct alignas(kPackBytes) Pack {
  static constexpr int kSize = static_cast<int>(kPackBytes / sizeof(T));
  T at[kSize];
};

template <class T>
REHEARSAL_BODY Pack<T> load_pack(const T* from) {
#ifdef __CUDA_ARCH__
  return bits_as<Pack<T>>(*reinterpret_cast<const uint4*>(from));
#else
  Pack<T> pack;
  memcpy(static_cast<void*>(&pack), static_cast<const void*>(from), sizeof(pack));
  return pack;
#endif
}

template <class T>
REHEARSAL_BODY void store_pack(T* to, const Pack<T>& pack) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<uint4*>(to) = bits_as<uint4>(pack);
#else
  memcpy(static_cast<void*>(to), static_cast<const void*>(&pack), sizeof(pack));
#endif
}

/// True when packs may be read and written at all of these addresses.
inline bool are_aligned(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses)
    if (reinterpret_cast<std::uintptr_t>(address) % kPackBytes != 0) return false;
  return true;
}

/// `count` elements that lie one after another, in packs; the last may be short. Where addresses are not aligned, packs are moved element
/// by element.
template <class T>
struct Packs {
  std::int64_t count;
  bool aligned;

  REHEARSAL_BODY std::int64_t packs() const { return (count + Pack<T>::kSize - 1) / Pack<T>::kSize; }
  REHEARSAL_BODY bool is_whole(std::int64_t pack) const { return aligned && (pack + 1) * Pack<T>::kSize <= count; }
  REHEARSAL_BODY Pack<T> load(const T* from, std::int64_t pack) const {
    const std::int64_t first = pack * Pack<T>::kSize;
    if (is_whole(pack)) return load_pack(from + first);
    Pack<T> loaded{};
    for (int k = 0; k < Pack<T>::kSize; ++k)
      if (first + k < count) loaded.at[k] = from[first + k];
    return loaded;
  }
  /// The elements of another type that lie beside those of a pack, in a tensor of as many.
  template <class Other>
  REHEARSAL_BODY Few<Other, Pack<T>::kSize> load_beside(const Other* from, std::int64_t pack) const {
    const std::int64_t first = pack * Pack<T>::kSize;
    if (is_whole(pack)) return load_few<Pack<T>::kSize>(from + first);
    Few<Other, Pack<T>::kSize> loaded{};
    for (int k = 0; k < Pack<T>::kSize; ++k)
      if (first + k < count) loaded.at[k] = from[first + k];
    return loaded;
  }
  template <class Other>
  REHEARSAL_BODY void store_beside(Other* to, std::int64_t pack, const Few<Other, Pack<T>::kSize>& stored) const {
    const std::int64_t first = pack * Pack<T>::kSize;
    if (is_whole(pack)) return store_few(to + first, stored);
    for (int k = 0; k < Pack<T>::kSize; ++k)
      if (first + k < count) to[first + k] = stored.at[k];
  }
  REHEARSAL_BODY void store(T* to, std::int64_t pack, const Pack<T>& stored) const {
    const std::int64_t first = pack * Pack<T>::kSize;
    if (is_whole(pack)) return store_pack(to + first, stored);
    for (int k = 0; k < Pack<T>::kSize; ++k)
      if (first + k < count) to[first + k] = stored.at[k];
  }
};

/// Division by a positive number without dividing, for numbers below 2^31 (Granlund and Montgomery, "Division by invariant integers using
/// multiplication", PLDI 1994, figure 4.1); others are divided.
struct Divider {
  std::int64_t size = 1;
  std::uint32_t factor = 1, shift = 0;

  Divider() = default;
  explicit Divider(std::int64_t by) : size(by > 0 ? by : 1) {
    constexpr std::int64_t kSmall = std::int64_t{1} << 31;
    if (size >= kSmall) return;
    while ((std::int64_t{1} << shift) < size) ++shift;
    const std::uint64_t above = (std::uint64_t{1} << shift) - static_cast<std::uint64_t>(size);
    factor = static_cast<std::uint32_t>((above << 32) / static_cast<std::uint64_t>(size) + 1);
  }
  /// i / size for i >= 0.
  REHEARSAL_BODY std::int64_t quotient(std::int64_t i) const {
    if (((i | size) >> 31) != 0) return i / size;
    const auto small = static_cast<std::uint32_t>(i);
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(factor) * small) >> 32);
    return static_cast<std::int64_t>((high + small) >> shift);
  }
  /// Replaces i by the quotient and returns the remainder.
  REHEARSAL_BODY std::int64_t split(std::int64_t& i) const {
    const std::int64_t whole = quotient(i), rest = i - whole * size;
    i = whole;
    return rest;
  }
};

}  // namespace rehearsal::exec::cuda
