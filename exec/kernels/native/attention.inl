// Part of loops.inl: products of small matrices with all of an operand's block in registers, and steps on rows of scores.

typedef float FloatVector __attribute__((vector_size(kVectorBytes)));
constexpr I kLanes = kVectorBytes / I(sizeof(float));
/// Of c in registers: 6 x 4 vectors of 32, or 6 x 2 of 16, leave room for a row of b and an element of a.
constexpr int kTileRows = 6, kTileVectors = kVectorBytes == 64 ? 4 : 2;

static inline FloatVector load(const float* x) {
  FloatVector v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}
static inline FloatVector load_part(const float* x, I count) {
  FloatVector v = {};
  __builtin_memcpy(&v, x, static_cast<unsigned long>(count) * sizeof(float));
  return v;
}

/// Where a tile ends: `last` columns of its last vector, and rows of b of which whole vectors may be read.
struct TileEnd {
  I last, whole_rows;
};

template <int R, int C>
static inline void multiply_add_row(const MatrixProduct& p, const float* a, const FloatVector (&row)[C], FloatVector (&sum)[R][C]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const float factor = a[r * p.a_row];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sum[r][c] += factor * row[c];
  }
}

template <int R, int C>
REHEARSAL_FLATTEN void product_tile(const MatrixProduct& p, const float* a, const float* b, float* c, TileEnd end) {
  FloatVector sum[R][C] = {}, row[C];
  I k = 0;
  for (; k < end.whole_rows; ++k) {
#pragma GCC unroll 8
    for (int v = 0; v < C; ++v) row[v] = load(b + k * p.b_row + v * kLanes);
    multiply_add_row<R, C>(p, a + k * p.a_column, row, sum);
  }
  for (; k < p.depth; ++k) {
#pragma GCC unroll 8
    for (int v = 0; v < C - 1; ++v) row[v] = load(b + k * p.b_row + v * kLanes);
    row[C - 1] = load_part(b + k * p.b_row + (C - 1) * kLanes, end.last);
    multiply_add_row<R, C>(p, a + k * p.a_column, row, sum);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < C; ++v) {
      float* to = c + r * p.c_row + v * kLanes;
      const I count = v + 1 == C ? end.last : kLanes;
      if (p.adds) sum[r][v] += count == kLanes ? load(to) : load_part(to, count);
      __builtin_memcpy(to, &sum[r][v], static_cast<unsigned long>(count) * sizeof(float));
    }
  }
}

template <int C>
static void product_rows(const MatrixProduct& p, const float* a, const float* b, float* c, TileEnd end) {
  I i = 0;
  for (; i + kTileRows <= p.rows; i += kTileRows) product_tile<kTileRows, C>(p, a + i * p.a_row, b, c + i * p.c_row, end);
  a += i * p.a_row;
  c += i * p.c_row;
  switch (p.rows - i) {
    case 1: return product_tile<1, C>(p, a, b, c, end);
    case 2: return product_tile<2, C>(p, a, b, c, end);
    case 3: return product_tile<3, C>(p, a, b, c, end);
    case 4: return product_tile<4, C>(p, a, b, c, end);
    case 5: return product_tile<5, C>(p, a, b, c, end);
    default: return;
  }
}

static void matrix_product(const MatrixProduct& p, const float* a, const float* b, float* c) {
  for (I j = 0; j < p.columns; j += kTileVectors * kLanes) {
    const I left = p.columns - j, vectors = left >= kTileVectors * kLanes ? kTileVectors : (left + kLanes - 1) / kLanes;
    TileEnd end{left >= vectors * kLanes ? kLanes : left - (vectors - 1) * kLanes, p.depth};
    while (end.last < kLanes && end.whole_rows > 0 && (end.whole_rows - 1) * p.b_row + j + vectors * kLanes > p.b_elements) --end.whole_rows;
    switch (vectors) {
      case 1: product_rows<1>(p, a, b + j, c + j, end); break;
      case 2: product_rows<2>(p, a, b + j, c + j, end); break;
#if defined(__AVX512F__)
      case 3: product_rows<3>(p, a, b + j, c + j, end); break;
#endif
      default: product_rows<kTileVectors>(p, a, b + j, c + j, end);
    }
  }
}

static void scale_row(float* x, I n, float factor) {
#pragma omp simd
  for (I i = 0; i < n; ++i) x[i] *= factor;
}

static void divide_row(float* x, I n, float divisor) {
#pragma omp simd
  for (I i = 0; i < n; ++i) x[i] /= divisor;
}

static void add_row(float* x, const float* addend, I step, I n) {
  if (step == 1) return add(x, addend, n);
  const float number = *addend;
#pragma omp simd
  for (I i = 0; i < n; ++i) x[i] += number;
}

static void hide_row(float* x, const std::uint8_t* flags, I step, I n, bool hidden, float number) {
  if (step == 0) {
    for (I i = 0; (flags[0] != 0) == hidden && i < n; ++i) x[i] = number;
    return;
  }
  const std::uint8_t where = hidden ? 1 : 0;
#pragma omp simd
  for (I i = 0; i < n; ++i) x[i] = flags[i] == where ? number : x[i];
}

static void keep_row(float* x, const float* y, I n, float factor) {
#pragma omp simd
  for (I i = 0; i < n; ++i) x[i] = y[i] != 0 ? x[i] * factor : 0.0F;
}

/// Blocks first, so that what is hidden is passed by in vectors.
template <class T, class Shown>
static void range_of(const T* x, I n, I* range, Shown shown) {
  constexpr I kBlock = 64;
  const auto any = [&](I first, I last) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (I i = first; i < last; ++i) found |= shown(x[i]) ? 1 : 0;
    return found != 0;
  };
  I first = 0, last = n;
  while (first + kBlock <= n && !any(first, first + kBlock)) first += kBlock;
  while (first < n && !shown(x[first])) ++first;
  while (last - kBlock > first && !any(last - kBlock, last)) last -= kBlock;
  while (last > first && !shown(x[last - 1])) --last;
  range[0] = first;
  range[1] = last;
}

REHEARSAL_FLATTEN void range_above(const float* x, I n, float bound, I* range) {
  range_of(x, n, range, [bound](float score) { return score > bound; });
}

REHEARSAL_FLATTEN void range_shown(const std::uint8_t* flags, I n, bool hidden, I* range) {
  const std::uint8_t where = hidden ? 1 : 0;
  range_of(flags, n, range, [where](std::uint8_t flag) { return flag != where; });
}

static constexpr AttentionLoops kAttention = {matrix_product, scale_row, divide_row, add_row,    hide_row,
                                              keep_row,       largest_of, range_above, range_shown};
