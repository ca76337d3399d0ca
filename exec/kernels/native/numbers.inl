// Part of loops.inl: numbers of 16 bits in f32 and back, in registers.

static inline float wide(float x) { return x; }
static inline float wide(Bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16U); }
/// Exponent and fraction move to their places in f32; the factor 2^112 corrects the exponent's bias, of subnormal numbers too.
static inline float wide(F16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16U, rest = static_cast<std::uint32_t>(x.bits & 0x7FFFU) << 13U;
  const float scaled = __builtin_bit_cast(float, rest) * 0x1p112F;
  const std::uint32_t number = __builtin_bit_cast(std::uint32_t, scaled), beyond = 0x7F800000U | (rest & 0x007FE000U);
  return __builtin_bit_cast(float, sign | (rest >= 0x0F800000U ? beyond : number));
}

static inline std::uint16_t bf16_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t nan = (bits >> 16U) | 0x40U, number = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;  // not a number stays so, and quiet
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : number);
}

static inline std::uint16_t f16_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U, rest = bits & 0x7FFFFFFFU;
  // Below 2^-14, 0.5 has the subnormal's unit as its last bit; from 65520 on, halfway to 2^16, nothing is finite.
  const float shifted = __builtin_bit_cast(float, rest < 0x38800000U ? rest : 0U) + 0.5F;
  const std::uint32_t small = __builtin_bit_cast(std::uint32_t, shifted) - 0x3F000000U;
  const std::uint32_t normal = (rest - 0x38000000U + 0xFFFU + ((rest >> 13U) & 1U)) >> 13U;
  const std::uint32_t finite = rest < 0x38800000U ? small : normal, beyond = rest > 0x7F800000U ? 0x7E00U : 0x7C00U;
  return static_cast<std::uint16_t>(sign | (rest >= 0x477FF000U ? beyond : finite));
}

template <class T>
static inline T stored(float x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return {bf16_bits(x)};
  else if constexpr (std::is_same_v<T, F16>)
    return {f16_bits(x)};
  else
    return x;
}

template <class T>
static void to_f32(float* y, const T* x, I n) {
#pragma omp simd
  for (I i = 0; i < n; ++i) y[i] = wide(x[i]);
}

template <class T>
static void from_f32(T* y, const float* x, I n) {
#pragma omp simd
  for (I i = 0; i < n; ++i) y[i] = stored<T>(x[i]);
}
