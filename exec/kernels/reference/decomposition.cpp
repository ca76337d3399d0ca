// Symmetric matrices decomposed every few steps (graph/ops/decomposition.cpp), in f64 whatever they are stored in.

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Dense>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/step_interval.hpp"

namespace rehearsal::exec::reference {
namespace {

using Eigen::MatrixXd;

MatrixXd no_numbers(const MatrixXd& like) { return MatrixXd::Constant(like.rows(), like.cols(), std::numeric_limits<double>::quiet_NaN()); }

std::int64_t step_of(const Call& call) { return *call.in<std::int64_t>(2); }

struct RootRule {
  double exponent, eps, weights;  ///< weights: their sum in the average that the matrices are

  explicit RootRule(const Call& call)
      : exponent(-1.0 / static_cast<double>(call.attributes().integer("root", 1))),
        eps(call.attributes().number("eps", 0)),
        weights(1 - std::pow(call.attributes().number("decay", 0), static_cast<double>(step_of(call)))) {}

  /// Eigenvalues below 0 are rounding. Of a matrix of zeros: the identity, by which nothing changes. Of one that is not finite: neither.
  [[nodiscard]] MatrixXd of(const MatrixXd& matrix, const MatrixXd& /*previous*/) const {
    if (!matrix.allFinite()) return no_numbers(matrix);
    const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(matrix);
    const double largest = solver.eigenvalues().maxCoeff();
    if (!(largest > 0)) return MatrixXd::Identity(matrix.rows(), matrix.cols());
    const Eigen::VectorXd powers =
        ((solver.eigenvalues().array().max(0.0) + eps * largest) / weights).unaryExpr([this](double x) { return std::pow(x, exponent); });
    return solver.eigenvectors() * powers.asDiagonal() * solver.eigenvectors().transpose();
  }
};

struct BasisRule {
  double eps;
  bool first;

  explicit BasisRule(const Call& call) : eps(call.attributes().number("eps", 0)), first(step_of(call) == 1) {}

  /// What is added to the diagonal falls from row to row before eigenvectors are taken, so that these follow from the matrix, not from its
  /// rounding, where it has fewer ranks than rows. Of a matrix of zeros: what was before, or the identity.
  [[nodiscard]] MatrixXd of(const MatrixXd& matrix, const MatrixXd& previous) const {
    if (!matrix.allFinite() || !previous.allFinite()) return no_numbers(matrix);
    const Eigen::Index side = matrix.rows();
    const double added = eps * matrix.diagonal().maxCoeff();
    if (!(added > 0)) return first ? MatrixXd(MatrixXd::Identity(side, side)) : previous;
    MatrixXd sum = matrix;
    if (!first) {
      sum.diagonal().array() += added;
      const Eigen::HouseholderQR<MatrixXd> factored(sum * previous);
      return factored.householderQ() * MatrixXd::Identity(side, side);
    }
    sum.diagonal() += Eigen::VectorXd::LinSpaced(side, added, added / static_cast<double>(side));
    return Eigen::SelfAdjointEigenSolver<MatrixXd>(sum).eigenvectors().rowwise().reverse();
  }
};

struct InverseRule {
  double damping, other;  ///< other: mean of the other side's diagonal

  explicit InverseRule(const Call& call)
      : damping(call.attributes().number("damping", 1)),
        other(call.problem.inputs[3]->dtype == DType::F64 ? mean_diagonal<double>(call) : mean_diagonal<float>(call)) {}

  /// Both sides' dampings multiply to `damping`; of sides without a number above 0 each takes its root.
  [[nodiscard]] MatrixXd of(const MatrixXd& matrix, const MatrixXd& /*previous*/) const {
    const Eigen::Index side = matrix.rows();
    const double own = matrix.diagonal().mean(), ratio = own > 0 && other > 0 ? own / other : 1;
    MatrixXd sum = matrix;
    sum.diagonal().array() += std::sqrt(damping * ratio);
    if (!sum.allFinite()) return no_numbers(matrix);
    const Eigen::LLT<MatrixXd> factored(sum);
    return factored.info() == Eigen::Success ? MatrixXd(factored.solve(MatrixXd::Identity(side, side))) : of_rounded(matrix, sum);
  }

  /// Of one that rounding has left with eigenvalues further below 0 than the damping is above: these count as 0.
  static MatrixXd of_rounded(const MatrixXd& matrix, const MatrixXd& damped) {
    const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(matrix);
    const double added = damped(0, 0) - matrix(0, 0);
    const Eigen::VectorXd inverses = (solver.eigenvalues().array().max(0.0) + added).inverse();
    return solver.eigenvectors() * inverses.asDiagonal() * solver.eigenvectors().transpose();
  }

  template <class T>
  static double mean_diagonal(const Call& call) {
    const std::int64_t side = call.in_shape(3).back();
    double sum = 0;
    for (std::int64_t i = 0; i < side; ++i) sum += static_cast<double>(call.in<T>(3)[i * (side + 1)]);
    return sum / static_cast<double>(side);
  }
};

/// Results keep what they were between the steps in which they are made.
template <class Rule>
struct Decomposed {
  template <class T>
  static void run(const Call& call) {
    using Stored = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const std::int64_t side = call.in_shape(1).back(), all = graph::element_count(call.in_shape(1));
    if (!computes_in(step_of(call), call.attributes())) {
      if (call.out<T>() != call.in<T>(0)) std::copy_n(call.in<T>(0), all, call.out<T>());
      return;
    }
    const Rule rule(call);
    parallel_items(call.threads(), all / std::max<std::int64_t>(1, side * side), 1, [&](std::int64_t m) {
      const auto matrix_at = [&](const T* first) {
        return MatrixXd(Eigen::Map<const Stored>(first + m * side * side, side, side).template cast<double>());
      };
      const MatrixXd result = rule.of(matrix_at(call.in<T>(1)), matrix_at(call.in<T>(0)));
      Eigen::Map<Stored>(call.out<T>() + m * side * side, side, side) = result.template cast<T>();
    });
  }
};

constexpr KernelRow kDecompositionRows[] = {{"InverseRoot", "reference:any", make_by_output<Decomposed<RootRule>, Floats>},
                                            {"EigenBasis", "reference:any", make_by_output<Decomposed<BasisRule>, Floats>},
                                            {"DampedInverse", "reference:any", make_by_output<Decomposed<InverseRule>, Floats>}};

}  // namespace

std::span<const KernelRow> decomposition_kernels() { return kDecompositionRows; }

}  // namespace rehearsal::exec::reference
