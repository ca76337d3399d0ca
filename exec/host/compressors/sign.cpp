// signSGD with majority vote (Bernstein et al., ICLR 2019, algorithm 1): a rank sends whether each element is negative, and the update
// takes the sign that most ranks have, 0 where as many have one as the other. A zero votes with the positive ones: there is one bit.

#include <vector>

#include "exec/host/compressors/bits.hpp"
#include "exec/host/compressors/blocks.hpp"
#include "exec/host/compressors/compressor.hpp"

namespace rehearsal::exec {
namespace {

template <class T>
void send_signs(const CompressorTask& task, const T* gradient, std::byte* sent) {
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    BitWriter bits(sent + code_offset(b, 1));
    for (auto e = first; e < end; ++e) bits.put(gradient[e] < 0 ? 1U : 0U, 1);
    bits.finish();
  });
}

template <class T>
void vote(const CompressorTask& task, std::span<const std::byte* const> sent, T* sum) {
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    std::vector<BitReader> ranks;
    for (const auto* from : sent) ranks.emplace_back(from + code_offset(b, 1));
    for (auto e = first; e < end; ++e) {
      int votes = 0;
      for (auto& rank : ranks) votes += rank.take(1) != 0 ? -1 : 1;
      sum[e] = votes == 0 ? T(0) : votes > 0 ? T(1) : T(-1);
    }
  });
}

}  // namespace

CompressorCodes sign_code() { return {plan::CompressionRule::Sign, {send_signs<float>, vote<float>}, {send_signs<double>, vote<double>}}; }

}  // namespace rehearsal::exec
