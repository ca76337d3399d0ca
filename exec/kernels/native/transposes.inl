// Part of loops.inl: vectors of one instruction set, and transposes by squares of them.

typedef float FloatVector __attribute__((vector_size(kVectorBytes)));
constexpr I kLanes = kVectorBytes / I(sizeof(float));

static inline FloatVector load(const float* x) {
  FloatVector v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}
static inline void store(float* x, FloatVector v) { __builtin_memcpy(x, &v, sizeof v); }

/// Lanes of which a bit of the number is set come from b, and the others from a; exchanged with those that differ in that bit.
template <I kBit, I... kLane>
static inline FloatVector lower_lanes(FloatVector a, FloatVector b, std::integer_sequence<I, kLane...>) {
  return __builtin_shufflevector(a, b, ((kLane & kBit) != 0 ? kLanes + (kLane ^ kBit) : kLane)...);
}
template <I kBit, I... kLane>
static inline FloatVector upper_lanes(FloatVector a, FloatVector b, std::integer_sequence<I, kLane...>) {
  return __builtin_shufflevector(a, b, ((kLane & kBit) != 0 ? kLanes + kLane : (kLane ^ kBit))...);
}

/// Exchanges rows and columns that differ in one bit of their numbers.
template <I kBit>
static inline void exchange(FloatVector (&rows)[kLanes]) {
  constexpr std::make_integer_sequence<I, kLanes> kAll;
#pragma GCC unroll 16
  for (I i = 0; i < kLanes; ++i) {
    if ((i & kBit) != 0) continue;
    const FloatVector a = rows[i], b = rows[i | kBit];
    rows[i] = lower_lanes<kBit>(a, b, kAll);
    rows[i | kBit] = upper_lanes<kBit>(a, b, kAll);
  }
}

/// Rows of a square as vectors: kLanes numbers of 4 bytes, or as many pairs of neighbours in a column of 2 bytes.
template <class T>
static inline FloatVector row_of_square(const T* from, I row, I from_row) {
  FloatVector v;
  __builtin_memcpy(&v, from + row * from_row, sizeof v);
  return v;
}
static inline FloatVector row_of_square(const std::uint16_t* from, I pair, I from_row) {
  typedef std::uint16_t Half __attribute__((vector_size(kVectorBytes / 2)));
  typedef std::uint32_t Whole __attribute__((vector_size(kVectorBytes)));
  Half low, high;
  __builtin_memcpy(&low, from + 2 * pair * from_row, sizeof low);
  __builtin_memcpy(&high, from + (2 * pair + 1) * from_row, sizeof high);
  return (FloatVector)(__builtin_convertvector(low, Whole) | (__builtin_convertvector(high, Whole) << 16));
}

/// kLanes columns of kSquareRows<T> rows.
template <class T>
constexpr I kSquareRows = kLanes * 4 / I(sizeof(T));
template <class T>
REHEARSAL_FLATTEN void transpose_square(const T* from, I from_row, T* to, I to_row) {
  FloatVector rows[kLanes];
#pragma GCC unroll 16
  for (I i = 0; i < kLanes; ++i) rows[i] = row_of_square(from, i, from_row);
  exchange<1>(rows);
  exchange<2>(rows);
  if constexpr (kLanes > 4) exchange<4>(rows);
  if constexpr (kLanes > 8) exchange<8>(rows);
#pragma GCC unroll 16
  for (I i = 0; i < kLanes; ++i) __builtin_memcpy(to + i * to_row, &rows[i], sizeof rows[i]);
}

/// rows x columns at from_row to columns x rows at to_row.
template <class T>
static void transpose(const T* from, I from_row, T* to, I to_row, I rows, I columns) {
  constexpr I kRows = kSquareRows<T>;
  const I whole_rows = rows - rows % kRows, whole_columns = columns - columns % kLanes;
  for (I r = 0; r < whole_rows; r += kRows)
    for (I c = 0; c < whole_columns; c += kLanes) transpose_square(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
  for (I r = 0; r < rows; ++r)
    for (I c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to[c * to_row + r] = from[r * from_row + c];
}

/// Of rows of 2 bytes: words of two rows, one below the other, to_row words from pair to pair.
static void pair_rows(const std::uint16_t* from, I from_row, std::uint32_t* to, I to_row, I pairs, I columns) {
  for (I p = 0; p < pairs; ++p, from += 2 * from_row, to += to_row) {
    const std::uint16_t* below = from + from_row;
#pragma omp simd
    for (I c = 0; c < columns; ++c) to[c] = static_cast<std::uint32_t>(from[c]) | (static_cast<std::uint32_t>(below[c]) << 16U);
  }
}
