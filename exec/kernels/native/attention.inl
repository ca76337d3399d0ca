// Part of loops.inl: products of small matrices with all of an operand's block in registers, and steps on rows of scores.

/// Of c in registers: 6 x 4 vectors of 32, or 6 x 2 of 16, leave room for a row of b and an element of a.
constexpr int kTileRows = 6, kTileVectors = kVectorBytes == 64 ? 4 : 2;

static inline void store_part(float* x, FloatVector v, I count) {
  for (I i = 0; i < count; ++i) x[i] = v[i];
}
static inline FloatVector load_part(const float* x, I count) {
  FloatVector v = {};
  for (I i = 0; i < count; ++i) v[i] = x[i];
  return v;
}

/// Where a tile ends: `last` columns of its last vector, rows of b of which whole vectors may be read, and all rows.
struct TileEnd {
  I last, whole_rows, rows;
};

template <int R, int C>
static inline void multiply_add_row(const PlainProduct& p, const float* a, const FloatVector (&row)[C], FloatVector (&sum)[R][C]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const float factor = a[r * p.a_row];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sum[r][c] += factor * row[c];
  }
}

template <int R, int C>
REHEARSAL_FLATTEN void product_tile(const PlainProduct& p, const float* a, const float* b, float* c, TileEnd end) {
  FloatVector sum[R][C] = {}, row[C];
  I k = 0;
  for (; k < end.whole_rows; ++k) {
#pragma GCC unroll 8
    for (int v = 0; v < C; ++v) row[v] = load(b + k * p.b_row + v * kLanes);
    multiply_add_row<R, C>(p, a + k * p.a_column, row, sum);
  }
  for (; k < end.rows; ++k) {
#pragma GCC unroll 8
    for (int v = 0; v < C - 1; ++v) row[v] = load(b + k * p.b_row + v * kLanes);
    row[C - 1] = load_part(b + k * p.b_row + (C - 1) * kLanes, end.last);
    multiply_add_row<R, C>(p, a + k * p.a_column, row, sum);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* to = c + r * p.c_row;
#pragma GCC unroll 8
    for (int v = 0; v < C - 1; ++v) store(to + v * kLanes, p.adds ? sum[r][v] + load(to + v * kLanes) : sum[r][v]);
    to += (C - 1) * kLanes;
    if (end.last == kLanes)
      store(to, p.adds ? sum[r][C - 1] + load(to) : sum[r][C - 1]);
    else
      store_part(to, p.adds ? sum[r][C - 1] + load_part(to, end.last) : sum[r][C - 1], end.last);
  }
}

template <int C>
static void product_rows(const PlainProduct& p, const float* a, const float* b, float* c, TileEnd end) {
  I i = 0;
  for (; i + kTileRows <= p.rows; i += kTileRows) product_tile<kTileRows, C>(p, a + i * p.a_row, b, c + i * p.c_row, end);
  a += i * p.a_row;
  c += i * p.c_row;
  switch (p.rows - i) {
    case 1:
      return product_tile<1, C>(p, a, b, c, end);
    case 2:
      return product_tile<2, C>(p, a, b, c, end);
    case 3:
      return product_tile<3, C>(p, a, b, c, end);
    case 4:
      return product_tile<4, C>(p, a, b, c, end);
    case 5:
      return product_tile<5, C>(p, a, b, c, end);
    default:
      return;
  }
}

/// `depth` of the products that make an element: b's part of them stays in the first-level cache for all rows of a.
static void product_part(const PlainProduct& p, const float* a, const float* b, float* c) {
  for (I j = 0; j < p.columns; j += kTileVectors * kLanes) {
    const I left = p.columns - j, vectors = left >= kTileVectors * kLanes ? kTileVectors : (left + kLanes - 1) / kLanes;
    TileEnd end{left >= vectors * kLanes ? kLanes : left - (vectors - 1) * kLanes, p.depth, p.depth};
    while (end.last < kLanes && end.whole_rows > 0 && (end.whole_rows - 1) * p.b_row + j + vectors * kLanes > p.b_elements)
      --end.whole_rows;
    switch (vectors) {
      case 1:
        product_rows<1>(p, a, b + j, c + j, end);
        break;
      case 2:
        product_rows<2>(p, a, b + j, c + j, end);
        break;
#if defined(__AVX512F__)
      case 3:
        product_rows<3>(p, a, b + j, c + j, end);
        break;
#endif
      default:
        product_rows<kTileVectors>(p, a, b + j, c + j, end);
    }
  }
}

static void matrix_product(const PlainProduct& whole, const float* a, const float* b, float* c) {
  constexpr I kDepth = 128;
  PlainProduct p = whole;
  for (I k = 0; k < whole.depth; k += kDepth) {
    p.depth = whole.depth - k < kDepth ? whole.depth - k : kDepth;
    p.b_elements = whole.b_elements - k * p.b_row;
    p.adds = whole.adds || k > 0;
    product_part(p, a + k * p.a_column, b + k * p.b_row, c);
  }
}

static void scale_rows(const ScoreRows& x, float factor) {
  for (I r = 0; r < x.rows; ++r) {
    float* row = x.first + r * x.stride;
#pragma omp simd
    for (I i = 0; i < x.columns; ++i) row[i] *= factor;
  }
}

static void divide_rows(const ScoreRows& x, float divisor) {
  for (I r = 0; r < x.rows; ++r) {
    float* row = x.first + r * x.stride;
#pragma omp simd
    for (I i = 0; i < x.columns; ++i) row[i] /= divisor;
  }
}

static void add_rows(const ScoreRows& x, const float* addend, I row_step, I step) {
  for (I r = 0; r < x.rows; ++r) {
    float* row = x.first + r * x.stride;
    if (step == 1) {
      add(row, addend + r * row_step, x.columns);
      continue;
    }
    const float number = addend[r * row_step];
#pragma omp simd
    for (I i = 0; i < x.columns; ++i) row[i] += number;
  }
}

static void hide_rows(const ScoreRows& x, const HiddenBy& by) {
  const std::uint8_t where = by.hidden ? 1 : 0;
  const float number = by.number;
  for (I r = 0; r < x.rows; ++r) {
    float* row = x.first + r * x.stride;
    const std::uint8_t* flags = by.flags + r * by.row_step;
    if (by.step == 0) {
      for (I i = 0; flags[0] == where && i < x.columns; ++i) row[i] = number;
      continue;
    }
#pragma omp simd
    for (I i = 0; i < x.columns; ++i) row[i] = flags[i] == where ? number : row[i];
  }
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

static constexpr AttentionLoops kAttention = {matrix_product, transpose<float>, scale_rows,        divide_rows, add_rows,
                                              hide_rows,      keep_row,         largest_of<float>, range_above, range_shown};
