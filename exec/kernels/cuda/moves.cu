#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/moves.hpp"
#include "exec/kernels/cuda/strided_copies.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// The run that element i of all runs lies in: the last that begins at or before it.
REHEARSAL_BODY Consecutive run_of(const Runs& all, std::int64_t i) {
  std::int64_t low = 0, high = all.count - 1;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (all.runs[middle].before <= i)
      low = middle;
    else
      high = middle - 1;
  }
  return all.runs[low];
}

template <class T>
struct CopyRuns {
  Runs all;
  const T* from;
  T* to;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const Consecutive run = run_of(all, i);
    to[run.to + i - run.before] = from[run.from + i - run.before];
  }
};

/// 16 bits are added up in f32 (plan::sum_type()).
template <class T>
struct AddRuns {
  Runs all;
  const T* from;
  Real<T>* to;
  bool first;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const Consecutive run = run_of(all, i);
    Real<T>& sum = to[run.to + i - run.before];
    const Real<T> addend = real(from[run.from + i - run.before]);
    sum = first ? addend : sum + addend;
  }
};

/// A pixel of each image: few channels, and room for more.
template <class T>
struct PutPixel {
  ChannelsMove move;
  const T* from;
  T* to;
  REHEARSAL_BODY void operator()(std::int64_t pixel) const {
    const Division at = divide(pixel, move.pixels);
    const T* source = from + at.quotient * move.channels * move.pixels + at.remainder;
    T* target = to + pixel * move.room;
    for (std::int64_t c = 0; c < move.room; ++c) target[c] = c < move.channels ? source[c * move.pixels] : T{};
  }
};

/// Elements of a move in the order [count, pixels, channels], where they are plain and where they are channels-last.
graph::StridedView plain_view(const ChannelsMove& m) { return {{m.count, m.pixels, m.channels}, {m.channels * m.pixels, 1, m.pixels}}; }
graph::StridedView channels_last_view(const ChannelsMove& m) { return {{m.count, m.pixels, m.channels}, {m.pixels * m.room, m.room, 1}}; }

template <class T>
struct FindNonFinite {
  const T* data;
  std::int32_t* found;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto x = real(data[i]);
    if (!(x - x == 0)) *found = 1;
  }
};

/// Threads read and write side by side, some elements before the first is there.
template <class T>
struct CopyRow {
  static constexpr int kAtOnce = 8;
  RowsCopy copy;
  const T* from;
  T* to;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const T* source = from + row * copy.from_step;
    T* target = to + row * copy.to_step;
    std::int64_t i = team.rank();
    for (; i + (kAtOnce - 1) * team.size() < copy.columns; i += kAtOnce * team.size()) {
      T held[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) held[k] = source[i + k * team.size()];
      for (int k = 0; k < kAtOnce; ++k) target[i + k * team.size()] = held[k];
    }
    for (; i < copy.columns; i += team.size()) target[i] = source[i];
  }
};

/// Calls with a value of an unsigned integer type of that size.
template <class Call>
void with_size(std::size_t bytes, const Call& call) {
  if (bytes == 1) return call(std::uint8_t{});
  if (bytes == 2) return call(std::uint16_t{});
  if (bytes == 4) return call(std::uint32_t{});
  if (bytes == 8) return call(std::uint64_t{});
  throw InternalError("elements of " + std::to_string(bytes) + " bytes");
}

/// Calls with a value of a floating-point type; false when it is none.
template <class Call>
bool with_float(DType type, const Call& call) {
  if (type == DType::F32) return call(float{}), true;
  if (type == DType::F64) return call(double{}), true;
  if (type == DType::F16) return call(Half{}), true;
  if (type == DType::BF16) return call(BFloat16{}), true;
  return false;
}

}  // namespace

void copy_runs(DeviceStream stream, const Runs& runs, std::size_t element_bytes, const void* from, void* to) {
  with_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    for_each(stream, runs.elements, CopyRuns<T>{runs, static_cast<const T*>(from), static_cast<T*>(to)});
  });
}

void add_runs(DeviceStream stream, const Runs& runs, const Addition& addition, const void* from, void* to) {
  const bool known = with_float(addition.dtype, [&](auto element) {
    using T = decltype(element);
    for_each(stream, runs.elements, AddRuns<T>{runs, static_cast<const T*>(from), static_cast<Real<T>*>(to), addition.first});
  });
  if (!known) throw Refusal("gradients of type " + std::string(name(addition.dtype)) + " cannot be summed");
}

void copy_rows(DeviceStream stream, const RowsCopy& copy, std::size_t element_bytes, const void* from, void* to) {
  constexpr std::int64_t kMostOfTeam = 256;
  with_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    for_each_row(stream, copy.rows, copy.columns, CopyRow<T>{copy, static_cast<const T*>(from), static_cast<T*>(to)}, kMostOfTeam);
  });
}

void put_channels_last(DeviceStream stream, const ChannelsMove& move, std::size_t element_bytes, const void* from, void* to) {
  with_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    const auto* source = static_cast<const T*>(from);
    if (move.room != move.channels) return for_each(stream, move.count * move.pixels, PutPixel<T>{move, source, static_cast<T*>(to)});
    copy_strided(stream, source, plain_view(move), static_cast<T*>(to), channels_last_view(move));
  });
}

void put_channels_first(DeviceStream stream, const ChannelsMove& move, std::size_t element_bytes, const void* from, void* to) {
  with_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    copy_strided(stream, static_cast<const T*>(from), channels_last_view(move), static_cast<T*>(to), plain_view(move));
  });
}

void reorder_image(DeviceStream stream, const ReorderTask& task, const graph::TensorType& type) {
  const auto count = graph::element_count(type.shape);
  const std::int64_t channels = type.shape[1], pixels = count == 0 ? 0 : count / (type.shape[0] * channels);
  const ChannelsMove move{type.shape[0], channels, pixels, channels};
  (task.to_format == plan::Format::ChannelsLast ? put_channels_last : put_channels_first)(stream, move, size_of(type.dtype), task.from,
                                                                                          task.to);
}

void find_non_finite(DeviceStream stream, DType type, const void* data, std::int64_t elements, std::int32_t* found) {
  (void)with_float(type, [&](auto element) {
    using T = decltype(element);
    for_each(stream, elements, FindNonFinite<T>{static_cast<const T*>(data), found});
  });
}

}  // namespace rehearsal::exec::cuda
