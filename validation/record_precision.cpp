#include "validation/record_precision.hpp"

#include <algorithm>
#include <string_view>

#include "base/error.hpp"

namespace rehearsal::validation {
namespace {

/// Types that products are computed in.
constexpr std::string_view kProductWords[] = {"fp32", "f32",     "float32", "float", "single", "32",    "32bit",   "tf32",  "fp16",
                                              "f16",  "float16", "half",    "16",    "amp",    "16bit", "bf16",    "mixed", "fp8",
                                              "f8",   "mxfp8",   "float8",  "fp4",   "nvfp4",  "mxfp4", "bfloat16"};
/// What stands beside them: how 8 bits are scaled and shared out, what is frozen, modes of Apex and Lightning, what the type is of, and
/// fillers.
constexpr std::string_view kDetailWords =
    " cs sc ds te current delayed dynamic static subchannel row wise rowwise block blockwise channel channelwise tensor tensorwise "
    "scaling scaled recipe e4m3 e5m2 e2m1 hybrid nf4 base frozen o0 o1 o2 o3 level true pure bit bits automatic autocast native apex "
    "policy precision training compute computation gemm gemms matmul matmuls linear linears attention softmax loss weight weights param "
    "params parameters master copy gradient gradients grad grads optimizer optimiser state states activation activations accumulate "
    "accumulation reduce reduction communication forward backward fwd bwd cores default and with in for of as per not stated ";

[[noreturn]] void refuse_word(const std::string& text, std::string_view word) {
  const auto among = word.empty() || word == text ? "'" + text + "'" : "'" + std::string(word) + "' of '" + text + "'";
  if (word.starts_with("int") || word.starts_with("uint"))
    throw Refusal("plan.precision: " + among + ": neither weights nor products in integers are predicted");
  throw Refusal("plan.precision: " + among +
                " is none of fp32, tf32, fp16, bf16, amp, fp8, fp8-rowwise, fp8-block, mxfp8, nvfp4, which may stand beside what is frozen "
                "(nf4-base)");
}

}  // namespace

std::string known_precision(const std::string& text) {
  constexpr std::string_view kBetween = " -_+/(),;:";
  bool product = text.empty();
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string::npos;) {
    const auto end = std::min(text.find_first_of(kBetween, at), text.size());
    const auto word = std::string_view(text).substr(at, end - at);
    const bool names_product = std::ranges::find(kProductWords, word) != std::end(kProductWords);
    if (!names_product && kDetailWords.find(" " + std::string(word) + " ") == std::string_view::npos) refuse_word(text, word);
    product = product || names_product;
    at = text.find_first_not_of(kBetween, end);
  }
  if (!product) refuse_word(text, "");
  auto known = text;
  constexpr std::string_view kLong = "bfloat16";
  if (const auto at = known.find(kLong); at != std::string::npos) known.replace(at, kLong.size(), "bf16");
  return known;
}

}  // namespace rehearsal::validation
