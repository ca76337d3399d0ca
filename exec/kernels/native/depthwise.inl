// Part of loops.inl: gradients of the weights of depthwise convolutions, for a block of channels whose pixels lie side by side.

/// Taps of which two sums each stay in registers, with two pixels of the gradient: AVX2 has 16.
constexpr int kTapsAtOnce = 7;

/// Neighbouring taps are `tap` apart. Columns in turn have a sum of their own, so that additions wait for each other half as long.
template <int kTaps>
static inline void depthwise_vector(const DepthwiseRows& r, I tap, const float* x, const float* dy, float* sums) {
  FloatVector even[kTaps] = {}, odd[kTaps] = {};
  for (I row = 0; row < r.rows; ++row) {
    const float *a = x + row * r.x_row, *b = dy + row * r.dy_row;
    I column = 0;
    for (; column + 2 <= r.columns; column += 2, a += 2 * r.x_column, b += 2 * kDepthwiseChannels) {
      const FloatVector first = load(b), second = load(b + kDepthwiseChannels);
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t) {
        even[t] += first * load(a + t * tap);
        odd[t] += second * load(a + r.x_column + t * tap);
      }
    }
    if (column == r.columns) continue;
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t) even[t] += load(b) * load(a + t * tap);
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) store(sums + t * kDepthwiseChannels, load(sums + t * kDepthwiseChannels) + (even[t] + odd[t]));
}

template <int kTaps>
REHEARSAL_FLATTEN void depthwise_taps(const DepthwiseRows& r, const float* x, const float* dy, float* sums) {
  for (I c = 0; c < kDepthwiseChannels; c += kLanes) {
    if (r.tap == kDepthwiseChannels)
      depthwise_vector<kTaps>(r, kDepthwiseChannels, x + c, dy + c, sums + c);
    else
      depthwise_vector<kTaps>(r, r.tap, x + c, dy + c, sums + c);
  }
}

static void depthwise_sums(const DepthwiseRows& r, I taps, const float* x, const float* dy, float* sums) {
  constexpr decltype(&depthwise_taps<1>) kOfTaps[] = {depthwise_taps<1>, depthwise_taps<2>, depthwise_taps<3>, depthwise_taps<4>,
                                                      depthwise_taps<5>, depthwise_taps<6>, depthwise_taps<kTapsAtOnce>};
  for (I first = 0; first < taps; first += kTapsAtOnce) {
    const I count = taps - first < kTapsAtOnce ? taps - first : kTapsAtOnce;
    kOfTaps[count - 1](r, x + first * r.tap, dy, sums + first * kDepthwiseChannels);
  }
}

template <class T>
static void take_block(const ChannelBlock& block, const T* x, float* y) {
  const I channels = block.channels;
  for (I p = 0; p < block.pixels; ++p, x += block.step, y += kDepthwiseChannels) {
    if (channels == kDepthwiseChannels) {
#pragma omp simd
      for (I c = 0; c < kDepthwiseChannels; ++c) y[c] = wide(x[c]);
    } else {
      for (I c = 0; c < kDepthwiseChannels; ++c) y[c] = c < channels ? wide(x[c]) : 0.0F;
    }
  }
}

static constexpr DepthwiseLoops kDepthwise = {depthwise_sums, take_block<float>, take_block<Bf16>, take_block<F16>};
