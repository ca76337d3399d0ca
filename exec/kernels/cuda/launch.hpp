#pragma once
// How the body of a kernel is run: by the threads of a GPU or, where a file is compiled for the host, by a loop. One body serves both, so
// that a machine without a GPU can hold every body against the reference kernels.
//   for_each      body(i) for i in [0, count): elements that know nothing of each other
//   for_each_row  body(team, row): the threads of a team share a row, take every team.size()-th of its elements and add up together
//   for_each_tile body(team, tile): kTileLanes lanes share a tile, each with registers of its own. A team of a GPU has as many threads;
//                 on the host one thread is all of them, one after another between two calls of wait()
//   store_table   brings a short table of the host into memory

#include <cstdint>

#include "exec/kernels/cuda/numbers.hpp"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "base/error.hpp"
#else
#include <functional>
#include <utility>
#endif

/// Before a loop that reads much: some of its rounds at once, so that a thread has several reads under way.
#ifdef __CUDACC__
#define REHEARSAL_UNROLL _Pragma("unroll 4")
#else
#define REHEARSAL_UNROLL
#endif
/// Of an array in a body that takes a team: all its threads see the same one.
#ifdef __CUDA_ARCH__
#define REHEARSAL_SHARED __shared__
#else
#define REHEARSAL_SHARED
#endif

namespace rehearsal::exec::cuda {

inline constexpr int kTileLanes = 256;
inline constexpr std::int64_t kMostThreads = 1024;  ///< of a team
/// Lanes of for_each_tile that one thread is.
#ifdef __CUDA_ARCH__
inline constexpr int kLanesOfThread = 1;
#else
inline constexpr int kLanesOfThread = kTileLanes;
#endif

struct SumOf {
  template <class T>
  REHEARSAL_BODY T operator()(T a, T b) const {
    return a + b;
  }
};
struct ProductOf {
  template <class T>
  REHEARSAL_BODY T operator()(T a, T b) const {
    return a * b;
  }
};
/// NaN wins, as everywhere.
struct LargerOf {
  template <class T>
  REHEARSAL_BODY T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct SmallerOf {
  template <class T>
  REHEARSAL_BODY T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

/// The threads of a block; on the host there is one.
struct Team {
#ifdef __CUDA_ARCH__
  REHEARSAL_BODY std::int64_t rank() const { return threadIdx.x; }
  REHEARSAL_BODY std::int64_t size() const { return blockDim.x; }
  REHEARSAL_BODY void wait() const { __syncthreads(); }
#else
  REHEARSAL_BODY std::int64_t rank() const { return 0; }
  REHEARSAL_BODY std::int64_t size() const { return 1; }
  REHEARSAL_BODY void wait() const {}
#endif
  /// One value of all threads' values, on every thread, in an order that does not change from run to run. All threads must call it.
  template <class T, class Op>
  REHEARSAL_BODY T reduce(T value, [[maybe_unused]] Op op) const {
#ifdef __CUDA_ARCH__
    constexpr int kWarp = 32;
    __shared__ alignas(16) unsigned char memory[kWarp * sizeof(T)];
    T* partial = reinterpret_cast<T*>(memory);
    for (int distance = kWarp / 2; distance > 0; distance /= 2) value = op(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    if (blockDim.x == kWarp) return value;
    __syncthreads();  // whoever still reads an earlier result
    if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = partial[0];
    for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) value = op(value, partial[warp]);
#endif
    return value;
  }
  template <class T>
  REHEARSAL_BODY T sum(T value) const {
    return reduce(value, SumOf{});
  }
  template <class T>
  REHEARSAL_BODY T max(T value) const {
    return reduce(value, LargerOf{});
  }
};

#ifdef __CUDACC__

template <class Body>
__global__ void __launch_bounds__(256) run_each(std::int64_t count, const Body body) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count; i += std::int64_t{gridDim.x} * blockDim.x) body(i);
}

template <class Body>
__global__ void __launch_bounds__(1024) run_rows(std::int64_t rows, const Body body) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(Team{}, row);
}

template <class Body>
__global__ void __launch_bounds__(kTileLanes, 2) run_tiles(std::int64_t tiles, const Body body) {
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) body(Team{}, tile);
}

inline void check_launch() {
  if (const auto status = cudaGetLastError(); status != cudaSuccess)
    throw EnvironmentFailure(std::string("GPU: a kernel could not be started: ") + cudaGetErrorString(status));
}

inline cudaStream_t stream_of(DeviceStream stream) { return static_cast<cudaStream_t>(stream.handle); }

template <class Body>
void for_each(DeviceStream stream, std::int64_t count, const Body& body) {
  constexpr std::int64_t kThreads = 256, kMostBlocks = 1 << 16;
  if (count <= 0) return;
  run_each<<<static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads)), kThreads, 0, stream_of(stream)>>>(count,
                                                                                                                                body);
  check_launch();
}

/// `columns`: elements of a row, about: rows that are short get small teams, none larger than `most` threads.
template <class Body>
void for_each_row(DeviceStream stream, std::int64_t rows, std::int64_t columns, const Body& body, std::int64_t most = kMostThreads) {
  constexpr std::int64_t kWarp = 32, kMostBlocks = 1 << 20, kEach = 4;
  if (rows <= 0) return;
  std::int64_t threads = kWarp;
  while (threads < most && threads * kEach < columns) threads *= 2;
  run_rows<<<static_cast<unsigned>(std::min(kMostBlocks, rows)), static_cast<unsigned>(threads), 0, stream_of(stream)>>>(rows, body);
  check_launch();
}

template <class Body>
void for_each_tile(DeviceStream stream, std::int64_t tiles, const Body& body) {
  constexpr std::int64_t kMostBlocks = 1 << 20;
  if (tiles <= 0) return;
  run_tiles<<<static_cast<unsigned>(std::min(kMostBlocks, tiles)), kTileLanes, 0, stream_of(stream)>>>(tiles, body);
  check_launch();
}

inline void clear(DeviceStream stream, void* to, std::int64_t bytes) {
  if (bytes > 0 && cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream_of(stream)) != cudaSuccess) check_launch();
}

inline void copy(DeviceStream stream, void* to, const void* from, std::int64_t bytes) {
  if (to == from) return;
  if (bytes > 0 && cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_of(stream)) != cudaSuccess)
    check_launch();
}

/// *sum += value, by many threads at once: in no certain order.
template <class T>
__device__ inline void add_atomically(T* sum, T value) {
  atomicAdd(sum, value);
}

#else

/// Takes what is asked for on a stream, where there are streams: in tests, with doubles of the runtime that do it later
/// (tests/exec/gpu/double).
inline void (*deferred)(DeviceStream, std::function<void()>) = nullptr;

template <class Work>
void run_on(DeviceStream stream, Work work) {
  if (stream.handle == nullptr) return work();
  deferred(stream, std::move(work));
}

template <class Body>
void for_each(DeviceStream stream, std::int64_t count, const Body& body) {
  run_on(stream, [count, body] {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  });
}

template <class Body>
void for_each_row(DeviceStream stream, std::int64_t rows, std::int64_t, const Body& body, std::int64_t = 1) {
  run_on(stream, [rows, body] {
    for (std::int64_t row = 0; row < rows; ++row) body(Team{}, row);
  });
}

template <class Body>
void for_each_tile(DeviceStream stream, std::int64_t tiles, const Body& body) {
  run_on(stream, [tiles, body] {
    for (std::int64_t tile = 0; tile < tiles; ++tile) body(Team{}, tile);
  });
}

inline void clear(DeviceStream stream, void* to, std::int64_t bytes) {
  if (bytes > 0) run_on(stream, [to, bytes] { memset(to, 0, static_cast<std::size_t>(bytes)); });
}

inline void copy(DeviceStream stream, void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) run_on(stream, [to, from, bytes] { memcpy(to, from, static_cast<std::size_t>(bytes)); });
}

template <class T>
void add_atomically(T* sum, T value) {
  *sum += value;
}

#endif

struct StorePiece {
  static constexpr int kBytes = 3072;  ///< as much as the arguments of a kernel have room for
  unsigned char* to;
  unsigned char bytes[kBytes];
  REHEARSAL_BODY void operator()(std::int64_t i) const { to[i] = bytes[i]; }
};

/// The host's table is free again when this returns.
template <class T>
void store_table(DeviceStream stream, T* to, const T* table, std::int64_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* from = reinterpret_cast<const unsigned char*>(table);
  const std::int64_t all = count * static_cast<std::int64_t>(sizeof(T));
  StorePiece piece{};
  for (std::int64_t first = 0; first < all; first += StorePiece::kBytes) {
    const std::int64_t bytes = all - first < StorePiece::kBytes ? all - first : StorePiece::kBytes;
    piece.to = reinterpret_cast<unsigned char*>(to) + first;
    memcpy(piece.bytes, from + first, static_cast<std::size_t>(bytes));
    for_each(stream, bytes, piece);
  }
}

/// An index that lies outside its dimension: noted where the host finds it when the step ends.
REHEARSAL_BODY void raise(Fault* fault, std::int64_t index, std::int64_t size) {
  if (fault == nullptr) return;
  fault->index = index;
  fault->size = size;
  fault->raised = 1;
}

}  // namespace rehearsal::exec::cuda
