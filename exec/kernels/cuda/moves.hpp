#pragma once
// What the executor does with elements that is no operator's: copies and sums of blocks, other orders of images, a look for what is no
// number. Started on a stream, as everything on a GPU.

#include <cstdint>

#include "exec/kernels/compute_device.hpp"

namespace rehearsal::exec::cuda {

/// Consecutive elements, by position.
struct Consecutive {
  std::int64_t from = 0, to = 0, count = 0;
  std::int64_t before = 0;  ///< elements of the runs before it
};
struct Runs {
  const Consecutive* runs = nullptr;  ///< on the device
  std::int64_t count = 0, elements = 0;
};

/// Throws InternalError for elements of another size than 1, 2, 4 or 8 bytes.
void copy_runs(DeviceStream, const Runs&, std::size_t element_bytes, const void* from, void* to);
/// Throws Refusal for elements that are not floating-point numbers.
void add_runs(DeviceStream, const Runs&, const Addition&, const void* from, void* to);
/// A matrix whose rows begin at multiples of one number of elements, and of another in the copy.
struct RowsCopy {
  std::int64_t rows, columns, from_step, to_step;
};
/// What lies between the rows of the copy stays as it is.
void copy_rows(DeviceStream, const RowsCopy&, std::size_t element_bytes, const void* from, void* to);
/// [count, channels, pixels] and, with room for more channels behind each pixel's, [count, pixels, room].
struct ChannelsMove {
  std::int64_t count = 0, channels = 0, pixels = 0, room = 0;
};
/// The room behind is set to 0.
void put_channels_last(DeviceStream, const ChannelsMove&, std::size_t element_bytes, const void* from, void* to);
void put_channels_first(DeviceStream, const ChannelsMove&, std::size_t element_bytes, const void* from, void* to);
void reorder_image(DeviceStream, const ReorderTask&, const graph::TensorType&);
/// Sets *found to 1 when an element is none; types without such numbers are never looked at.
void find_non_finite(DeviceStream, DType, const void* data, std::int64_t elements, std::int32_t* found);

}  // namespace rehearsal::exec::cuda
