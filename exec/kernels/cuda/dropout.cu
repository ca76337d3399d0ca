// Random numbers depend on seed, step, stream and the index in the unsplit tensor alone: these are the reference kernels' numbers.

#include <cmath>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/keeping.hpp"

namespace rehearsal::exec::cuda {
namespace {

std::int64_t stream_number(const Call& call) { return call.attributes().integer("stream", 0); }

/// Index in the unsplit tensor of every element of a block: view 1 of the walk.
Walk<2> walk_of_block(const TensorView& view, const graph::Shape& local, const graph::Shape& global) {
  graph::StridedView in_global{local, graph::row_major_strides(global), 0};
  for (std::size_t d = 0; d < local.size(); ++d) in_global.offset += (view.origin ? (*view.origin)[d] : 0) * in_global.strides[d];
  return walk_of<2>({graph::whole_view(local), in_global});
}

template <class T>
struct Drop {
  static constexpr int kEach = Pack<T>::kSize;
  Packs<T> packs;
  const T* x;
  T* y;
  Walk<2> walk;
  Keeping keeping;
  Real<T> scale;
  bool whole;  ///< an element's index is its number
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    auto pack = packs.load(x, i);
    for (int k = 0; k < kEach; ++k) {
      const std::int64_t number = i * kEach + k;
      if (number >= packs.count) break;
      const auto index = static_cast<std::uint64_t>(whole ? number : walk.place(number).at[1]);
      pack.at[k] = keeping.keeps(index) ? static_cast<T>(real(pack.at[k]) * scale) : static_cast<T>(Real<T>(0));
    }
    packs.store(y, i, pack);
  }
};

bool is_whole(const Walk<2>& walk) { return walk.rank == 0 || (walk.rank == 1 && walk.strides[1][0] == 1); }

/// X -> Y, and dY -> dX with the same mask.
struct Dropout {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape& shape = call.in_shape(0);
    const double ratio = call.attributes().number("ratio", 0.5);
    const auto scale = static_cast<Real<T>>(ratio < 1 ? 1 / (1 - ratio) : 0.0);
    const auto walk = walk_of_block(call.inputs[0], shape, call.in_global(0));
    const Packs<T> packs{graph::element_count(shape), are_aligned({call.in<T>(0), call.out<T>()})};
    const bool whole = is_whole(walk) && walk.offsets[1] == 0;
    for_each(call.context.stream, packs.packs(),
             Drop<T>{packs, call.in<T>(0), call.out<T>(), walk, Keeping(call, stream_number(call), ratio), scale, whole});
  }
};

template <class T>
struct Draw {
  T* y;
  Walk<2> walk;
  std::uint64_t seed, stream;
  bool normal;
  /// Of base/random.hpp, whose random_normal is not constexpr.
  REHEARSAL_BODY double normal_at(std::uint64_t index) const {
    constexpr double kPi = 3.141592653589793238462643383279502884;
    const double u = 1.0 - random_uniform(seed, stream, 2 * index), v = random_uniform(seed, stream, 2 * index + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * kPi * v);
  }
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto index = static_cast<std::uint64_t>(walk.place(i).at[1]);
    y[i] = static_cast<T>(static_cast<Real<T>>(normal ? normal_at(index) : random_uniform(seed, stream, index)));
  }
};

struct Noise {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape& shape = call.out_shape();
    for_each(call.context.stream, graph::element_count(shape),
             Draw<T>{call.out<T>(), walk_of_block(call.outputs[0], shape, call.out_global()), reference::seed_of(call),
                     static_cast<std::uint64_t>(stream_number(call)),
                     call.attributes().integer("normal", 0) != 0});
  }
};

constexpr std::string_view kName = "cuda:dropout";
constexpr KernelRow kRows[] = {
    {"Dropout", kName, make_by_output<Dropout, Floats>},
    {"Noise", kName, make_by_output<Noise, Floats>},
    {"DropoutGrad", kName, make_by_output<Dropout, Floats>},
};

}  // namespace

std::span<const KernelRow> dropout_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
