#include "exec/host/stashes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "base/error.hpp"
#include "exec/kernels/narrow.hpp"
#include "plan/recompute/sparse.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::int64_t kBits = 8;

template <class T>
void pack_signs(const T* from, std::uint8_t* to, std::int64_t count) {
  for (std::int64_t byte = 0; byte * kBits < count; ++byte) {
    unsigned bits = 0;
    for (std::int64_t e = byte * kBits; e < std::min(count, (byte + 1) * kBits); ++e) bits |= (from[e] > 0 ? 1U : 0U) << (e % kBits);
    to[byte] = static_cast<std::uint8_t>(bits);
  }
}

template <class T>
void unpack_signs(const std::uint8_t* from, T* to, std::int64_t count) {
  for (std::int64_t e = 0; e < count; ++e) to[e] = (static_cast<unsigned>(from[e / kBits]) >> (e % kBits)) & 1U ? T(1) : T(0);
}

/// 16-bit numbers are positive when their sign bit is clear and another is set; 1 is 0x3C00 in f16 and 0x3F80 in bf16.
void pack_narrow_signs(const std::uint16_t* from, std::uint8_t* to, std::int64_t count) {
  for (std::int64_t byte = 0; byte * kBits < count; ++byte) {
    unsigned bits = 0;
    for (std::int64_t e = byte * kBits; e < std::min(count, (byte + 1) * kBits); ++e)
      bits |= (from[e] != 0 && from[e] < 0x8000U ? 1U : 0U) << (e % kBits);
    to[byte] = static_cast<std::uint8_t>(bits);
  }
}

void unpack_narrow_signs(const std::uint8_t* from, std::uint16_t* to, std::int64_t count, std::uint16_t one) {
  for (std::int64_t e = 0; e < count; ++e) to[e] = (static_cast<unsigned>(from[e / kBits]) >> (e % kBits)) & 1U ? one : std::uint16_t{0};
}

void pack(DType type, const void* from, std::uint8_t* to, std::int64_t count) {
  if (type == DType::F32) return pack_signs(static_cast<const float*>(from), to, count);
  if (type == DType::F64) return pack_signs(static_cast<const double*>(from), to, count);
  ensure(is_narrow(type), "signs of floating-point numbers");
  pack_narrow_signs(static_cast<const std::uint16_t*>(from), to, count);
}

void unpack(const std::uint8_t* from, DType type, void* to, std::int64_t count) {
  if (type == DType::F32) return unpack_signs(from, static_cast<float*>(to), count);
  if (type == DType::F64) return unpack_signs(from, static_cast<double*>(to), count);
  ensure(is_narrow(type), "signs of floating-point numbers");
  unpack_narrow_signs(from, static_cast<std::uint16_t*>(to), count, type == DType::F16 ? 0x3C00 : 0x3F80);
}

/// In blocks through f32, which has every number of the 16-bit types.
template <class Block>
void in_blocks(std::int64_t count, const Block& block) {
  constexpr std::int64_t kBlock = 1024;
  float buffer[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) block(first, std::min(kBlock, count - first), buffer);
}

void round_to_narrow(DType from_type, const void* from, DType to_type, void* to, std::int64_t count) {
  if (from_type == DType::F32) return narrow(static_cast<const float*>(from), to_type, to, count);
  const auto* wide = static_cast<const double*>(from);
  auto* result = static_cast<std::uint16_t*>(to);
  in_blocks(count, [&](std::int64_t first, std::int64_t n, float* buffer) {
    for (std::int64_t e = 0; e < n; ++e) buffer[e] = static_cast<float>(wide[first + e]);
    narrow(buffer, to_type, result + first, n);
  });
}

void widen_from_narrow(DType from_type, const void* from, DType to_type, void* to, std::int64_t count) {
  if (to_type == DType::F32) return widen(from, from_type, static_cast<float*>(to), count);
  const auto* bits = static_cast<const std::uint16_t*>(from);
  auto* wide = static_cast<double*>(to);
  in_blocks(count, [&](std::int64_t first, std::int64_t n, float* buffer) {
    widen(bits + first, from_type, buffer, n);
    std::copy(buffer, buffer + n, wide + first);
  });
}

// ---- sparse, on the elements' bits: zero is what has none, so that -0 comes back as -0

template <class Bits>
std::int64_t pack_sparsely(const void* from, const graph::TensorType& stash, void* to, std::int64_t count) {
  const plan::SparseStash form{count, sizeof(Bits)};
  const std::int64_t room = form.capacity(graph::element_count(stash.shape));
  const auto* values = static_cast<const Bits*>(from);
  auto* mask = static_cast<std::uint8_t*>(to);
  auto* kept = reinterpret_cast<Bits*>(mask + form.mask_bytes());
  std::int64_t found = 0;
  for (std::int64_t byte = 0; byte * kBits < count; ++byte) {
    unsigned bits = 0;
    for (std::int64_t e = byte * kBits; e < std::min(count, (byte + 1) * kBits); ++e) {
      if (values[e] == 0) continue;
      bits |= 1U << (e % kBits);
      if (found < room) kept[found] = values[e];
      ++found;
    }
    mask[byte] = static_cast<std::uint8_t>(bits);
  }
  return found > room ? found : 0;
}

template <class Bits>
void unpack_sparsely(const void* from, void* to, std::int64_t count) {
  const auto* mask = static_cast<const std::uint8_t*>(from);
  const auto* kept = reinterpret_cast<const Bits*>(mask + plan::SparseStash{count, sizeof(Bits)}.mask_bytes());
  auto* values = static_cast<Bits*>(to);
  for (std::int64_t e = 0; e < count; ++e) values[e] = (static_cast<unsigned>(mask[e / kBits]) >> (e % kBits)) & 1U ? *kept++ : Bits{0};
}

/// Calls with a number of the size of the type's elements.
template <class Call>
std::int64_t with_bits(DType type, const Call& call) {
  switch (size_of(type)) {
    case sizeof(std::uint64_t):
      return call(std::uint64_t{});
    case sizeof(std::uint32_t):
      return call(std::uint32_t{});
    case sizeof(std::uint16_t):
      return call(std::uint16_t{});
    default:
      throw InternalError("a type that is not stored sparsely");
  }
}

bool is_sparse(const graph::TensorType& whole, const graph::TensorType& stash) {
  return stash.dtype == DType::U8 && whole.dtype != DType::U8 &&
         graph::element_count(stash.shape) > (graph::element_count(whole.shape) + kBits - 1) / kBits;
}

}  // namespace

std::int64_t copy_stash(const StashTypes& types, const void* from, void* to) {
  const auto& [source, target] = types;
  if (is_sparse(source, target))
    return with_bits(source.dtype,
                     [&](auto bits) { return pack_sparsely<decltype(bits)>(from, target, to, graph::element_count(source.shape)); });
  if (is_sparse(target, source))
    return with_bits(target.dtype, [&](auto bits) {
      unpack_sparsely<decltype(bits)>(from, to, graph::element_count(target.shape));
      return std::int64_t{0};
    });
  if (source.dtype == target.dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(graph::size_of(source).value()));
  } else if (target.dtype == DType::U8) {
    pack(source.dtype, from, static_cast<std::uint8_t*>(to), graph::element_count(source.shape));
  } else if (source.dtype == DType::U8) {
    unpack(static_cast<const std::uint8_t*>(from), target.dtype, to, graph::element_count(target.shape));
  } else if (is_narrow(target.dtype)) {
    round_to_narrow(source.dtype, from, target.dtype, to, graph::element_count(source.shape));
  } else {
    widen_from_narrow(source.dtype, from, target.dtype, to, graph::element_count(target.shape));
  }
  return 0;
}

void refuse_dense(const DenseResult& result, const plan::Plan& plan) {
  const double density = static_cast<double>(result.found) / static_cast<double>(result.elements);
  const auto percent = [](double share) { return std::to_string(static_cast<int>(std::ceil(100 * share))) + " %"; };
  const double wanted = std::min(1.0, std::ceil(20 * density + 1) / 20);  // the next twentieth but one
  std::ostringstream remedy;
  remedy << plan::name(plan::CompressionRule::GistSparse) << ":" << wanted;
  throw Refusal("tensor '" + result.tensor + "': " + percent(density) + " of its elements are not zero (rank " +
                std::to_string(result.rank) + ", step " + std::to_string(result.step + 1) +
                "), but compression=" + to_text(plan.compression) + " keeps room for " + percent(plan.compression.density) +
                "; use compression=" + remedy.str() + ", or compression=gist, which needs none");
}

}  // namespace rehearsal::exec
