// Inverse roots of symmetric matrices (graph/ops/inverse_root.cpp), in f64 whatever they are stored in.

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Dense>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

struct RootRule {
  double exponent, eps, weights;  ///< weights: their sum in the average that the matrices are

  explicit RootRule(const Call& call)
      : exponent(-1.0 / static_cast<double>(call.attributes().integer("root", 1))),
        eps(call.attributes().number("eps", 0)),
        weights(1 - std::pow(call.attributes().number("decay", 0), static_cast<double>(*call.in<std::int64_t>(2)))) {}

  /// Eigenvalues below 0 are rounding. Of a matrix of zeros: the identity, by which nothing changes. Of one that is not finite: neither.
  [[nodiscard]] Eigen::MatrixXd of(const Eigen::MatrixXd& matrix) const {
    if (!matrix.allFinite()) return Eigen::MatrixXd::Constant(matrix.rows(), matrix.cols(), std::numeric_limits<double>::quiet_NaN());
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(matrix);
    const double largest = solver.eigenvalues().maxCoeff();
    if (!(largest > 0)) return Eigen::MatrixXd::Identity(matrix.rows(), matrix.cols());
    const Eigen::VectorXd powers =
        ((solver.eigenvalues().array().max(0.0) + eps * largest) / weights).unaryExpr([this](double x) { return std::pow(x, exponent); });
    return solver.eigenvectors() * powers.asDiagonal() * solver.eigenvectors().transpose();
  }
};

struct InverseRoot {
  template <class T>
  static void run(const Call& call) {
    using Stored = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const std::int64_t side = call.in_shape(1).back(), all = graph::element_count(call.in_shape(1));
    if ((*call.in<std::int64_t>(2) - 1) % call.attributes().integer("interval", 1) != 0) {
      if (call.out<T>() != call.in<T>(0)) std::copy_n(call.in<T>(0), all, call.out<T>());
      return;
    }
    const RootRule rule(call);
    parallel_items(call.threads(), all / std::max<std::int64_t>(1, side * side), 1, [&](std::int64_t m) {
      const Eigen::Map<const Stored> matrix(call.in<T>(1) + m * side * side, side, side);
      Eigen::Map<Stored>(call.out<T>() + m * side * side, side, side) = rule.of(matrix.template cast<double>()).template cast<T>();
    });
  }
};

constexpr KernelRow kInverseRootRows[] = {{"InverseRoot", "reference:any", make_by_output<InverseRoot, Floats>}};

}  // namespace

std::span<const KernelRow> inverse_root_kernels() { return kInverseRootRows; }

}  // namespace rehearsal::exec::reference
