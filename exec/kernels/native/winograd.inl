// Part of loops.inl: the transforms of Winograd's minimal filtering F(4 x 4, 3 x 3) (Lavin and Gray, CVPR 2016), for a vector of channels
// at a time. A row of four results of three taps reads six pixels: y = A'((G w) * (B'x)), which are values of polynomials at six points.
// The points are 0, ±3/4, ±3/2 and infinity: with 0, ±1, ±2 rounding errors are twice as large (Barabasz et al., ACM TOMS 2020, say why).

constexpr float kNear = 0.75F, kFar = 1.5F;
constexpr float kNear2 = kNear * kNear, kFar2 = kFar * kFar;
/// What G divides by: the product of a point's distances from the others.
constexpr float kAtZero = kNear2 * kFar2, kAtNear = 2 * kNear2 * (kNear2 - kFar2), kAtFar = 2 * kFar2 * (kFar2 - kNear2);

/// B'
struct WinogradImage {
  static constexpr int kFrom = 6, kTo = 6;
  static inline void line(const FloatVector (&x)[kFrom], FloatVector (&y)[kTo]) {
    const FloatVector near = x[4] - kFar2 * x[2], near_odd = kNear * (x[3] - kFar2 * x[1]);
    const FloatVector far = x[4] - kNear2 * x[2], far_odd = kFar * (x[3] - kNear2 * x[1]);
    y[0] = kAtZero * x[0] - (kNear2 + kFar2) * x[2] + x[4];
    y[1] = near + near_odd;
    y[2] = near - near_odd;
    y[3] = far + far_odd;
    y[4] = far - far_odd;
    y[5] = kAtZero * x[1] - (kNear2 + kFar2) * x[3] + x[5];
  }
};

/// A'
struct WinogradResult {
  static constexpr int kFrom = 6, kTo = 4;
  static inline void line(const FloatVector (&x)[kFrom], FloatVector (&y)[kTo]) {
    const FloatVector near = x[1] + x[2], near_odd = kNear * (x[1] - x[2]), far = x[3] + x[4], far_odd = kFar * (x[3] - x[4]);
    y[0] = x[0] + near + far;
    y[1] = near_odd + far_odd;
    y[2] = kNear2 * near + kFar2 * far;
    y[3] = kNear2 * near_odd + kFar2 * far_odd + x[5];
  }
};

/// A, which the gradient of a result goes through.
struct WinogradGradient {
  static constexpr int kFrom = 4, kTo = 6;
  static inline void line(const FloatVector (&x)[kFrom], FloatVector (&y)[kTo]) {
    const FloatVector near = x[0] + kNear2 * x[2], near_odd = kNear * (x[1] + kNear2 * x[3]);
    const FloatVector far = x[0] + kFar2 * x[2], far_odd = kFar * (x[1] + kFar2 * x[3]);
    y[0] = x[0];
    y[1] = near + near_odd;
    y[2] = near - near_odd;
    y[3] = far + far_odd;
    y[4] = far - far_odd;
    y[5] = x[3];
  }
};

/// G
struct WinogradWeights {
  static constexpr int kFrom = 3, kTo = 6;
  static inline void line(const FloatVector (&x)[kFrom], FloatVector (&y)[kTo]) {
    const FloatVector near = (1 / kAtNear) * (x[0] + kNear2 * x[2]), near_odd = (kNear / kAtNear) * x[1];
    const FloatVector far = (1 / kAtFar) * (x[0] + kFar2 * x[2]), far_odd = (kFar / kAtFar) * x[1];
    y[0] = (1 / kAtZero) * x[0];
    y[1] = near + near_odd;
    y[2] = near - near_odd;
    y[3] = far + far_odd;
    y[4] = far - far_odd;
    y[5] = x[2];
  }
};

/// G', which the gradient of weights comes out of.
struct WinogradWeightGradient {
  static constexpr int kFrom = 6, kTo = 3;
  static inline void line(const FloatVector (&x)[kFrom], FloatVector (&y)[kTo]) {
    const FloatVector near = (1 / kAtNear) * (x[1] + x[2]), far = (1 / kAtFar) * (x[3] + x[4]);
    y[0] = (1 / kAtZero) * x[0] + near + far;
    y[1] = (kNear / kAtNear) * (x[1] - x[2]) + (kFar / kAtFar) * (x[3] - x[4]);
    y[2] = kNear2 * near + kFar2 * far + x[5];
  }
};

/// Columns, then rows, of one vector of channels.
template <class F>
static inline void winograd_vector(const ConstPatch& x, const Patch& y, I channel) {
  FloatVector half[F::kFrom][F::kTo];
#pragma GCC unroll 6
  for (int column = 0; column < F::kFrom; ++column) {
    FloatVector from[F::kFrom];
#pragma GCC unroll 6
    for (int row = 0; row < F::kFrom; ++row) from[row] = load(x.first + row * x.row + column * x.column + channel);
    F::line(from, half[column]);
  }
#pragma GCC unroll 6
  for (int row = 0; row < F::kTo; ++row) {
    FloatVector from[F::kFrom], to[F::kTo];
#pragma GCC unroll 6
    for (int column = 0; column < F::kFrom; ++column) from[column] = half[column][row];
    F::line(from, to);
#pragma GCC unroll 6
    for (int column = 0; column < F::kTo; ++column) store(y.first + row * y.row + column * y.column + channel, to[column]);
  }
}

/// The last vector begins where it ends with the last channel.
template <class F>
REHEARSAL_FLATTEN void winograd_patch(const ConstPatch& x, const Patch& y, I count) {
  for (I channel = 0; channel + kLanes <= count; channel += kLanes) winograd_vector<F>(x, y, channel);
  if (count % kLanes != 0) winograd_vector<F>(x, y, count - kLanes);
}

static constexpr WinogradLoops kWinograd = {winograd_patch<WinogradImage>, winograd_patch<WinogradResult>, winograd_patch<WinogradGradient>,
                                            winograd_patch<WinogradWeights>, winograd_patch<WinogradWeightGradient>};
