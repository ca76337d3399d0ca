#include "exec/kernels/cuda/moves.hpp"

#include "exec/kernels/cuda/cuda_kernel.hpp"

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

template <class T>
struct AddRuns {
  Runs all;
  const T* from;
  T* to;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const Consecutive run = run_of(all, i);
    T& sum = to[run.to + i - run.before];
    sum = static_cast<T>(real(sum) + real(from[run.from + i - run.before]));
  }
};

/// (outer, a, b) -> (outer, b, a): element i of the result.
template <class T>
struct Exchange {
  const T* from;
  T* to;
  std::int64_t a, b;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const std::int64_t outer = i / (a * b), rest = i % (a * b);
    to[i] = from[outer * a * b + rest % a * b + rest / a];
  }
};

template <class T>
struct FindNonFinite {
  const T* data;
  std::int32_t* found;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto x = real(data[i]);
    if (!(x - x == 0)) *found = 1;
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

void copy_runs(Stream stream, const Runs& runs, std::size_t element_bytes, const void* from, void* to) {
  with_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    for_each(stream, runs.elements, CopyRuns<T>{runs, static_cast<const T*>(from), static_cast<T*>(to)});
  });
}

void add_runs(Stream stream, const Runs& runs, DType type, const void* from, void* to) {
  const bool known = with_float(type, [&](auto element) {
    using T = decltype(element);
    for_each(stream, runs.elements, AddRuns<T>{runs, static_cast<const T*>(from), static_cast<T*>(to)});
  });
  if (!known) throw Refusal("gradients of type " + std::string(name(type)) + " cannot be summed");
}

void reorder_image(Stream stream, const ReorderTask& task, const graph::TensorType& type) {
  const auto count = graph::element_count(type.shape);
  const std::int64_t channels = type.shape[1], pixels = count == 0 ? 0 : count / (type.shape[0] * channels);
  const bool to_last = task.to_format == plan::Format::ChannelsLast;
  with_size(size_of(type.dtype), [&](auto element) {
    using T = decltype(element);
    const std::int64_t a = to_last ? channels : pixels, b = to_last ? pixels : channels;
    for_each(stream, count, Exchange<T>{static_cast<const T*>(task.from), static_cast<T*>(task.to), a, b});
  });
}

void find_non_finite(Stream stream, DType type, const void* data, std::int64_t elements, std::int32_t* found) {
  (void)with_float(type, [&](auto element) {
    using T = decltype(element);
    for_each(stream, elements, FindNonFinite<T>{static_cast<const T*>(data), found});
  });
}

}  // namespace rehearsal::exec::cuda
