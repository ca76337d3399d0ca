// Sums of outer products of features (graph/ops/outer_products.cpp). Each thread makes rows of the result, so that sums do not depend on
// how many there are.

#include <algorithm>
#include <vector>

#include <Eigen/Dense>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/step_interval.hpp"
#include "exec/kernels/reference/under_windows.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::int64_t kProductRowsAtOnce = 32;

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// out += scale featuresᵀ features; `features`: positions x features.
template <class T, class Features>
void add_products(const Call& call, const Features& features) {
  const auto scale = static_cast<T>(call.attributes().number("scale", 1));
  const std::int64_t side = features.cols();
  Eigen::Map<RowMajor<T>> out(call.out<T>(), side, side);
  parallel_items(call.threads(), (side + kProductRowsAtOnce - 1) / kProductRowsAtOnce, 1, [&](std::int64_t block) {
    const std::int64_t first = block * kProductRowsAtOnce, rows = std::min(kProductRowsAtOnce, side - first);
    out.middleRows(first, rows).noalias() += scale * (features.middleCols(first, rows).transpose() * features);
  });
}

struct OuterProducts {
  template <class T>
  static void run(const Call& call) {
    std::fill_n(call.out<T>(), graph::element_count(call.out_shape()), T(0));
    const graph::Shape& x = call.in_shape(0);
    if (!computes_in(*call.in<std::int64_t>(1), call.attributes()) || graph::element_count(x) == 0) return;
    if (!call.attributes().has("kernel_shape")) {
      add_products<T>(call, Eigen::Map<const RowMajor<T>>(call.in<T>(0), graph::element_count(x) / x.back(), x.back()));
      return;
    }
    const UnderWindows windows(x, call.attributes());
    std::vector<T> under(static_cast<std::size_t>(windows.features() * windows.positions()));
    for (std::int64_t n = 0; n < x[0]; ++n) {
      windows.write(call.in<T>(0) + n * windows.image_elements(), under.data());
      add_products<T>(call, Eigen::Map<const RowMajor<T>>(under.data(), windows.features(), windows.positions()).transpose());
    }
  }
};

constexpr KernelRow kOuterProductRows[] = {{"OuterProducts", "reference:any", make_by_output<OuterProducts, Floats>}};

}  // namespace

std::span<const KernelRow> outer_product_kernels() { return kOuterProductRows; }

}  // namespace rehearsal::exec::reference
