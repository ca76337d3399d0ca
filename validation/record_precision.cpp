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
/// What stands beside them: scales of 8 bits and their formats, what is frozen, levels of Apex, modes of Lightning, and fillers.
constexpr std::string_view kDetailWords[] = {"cs",     "sc",        "ds",        "current", "delayed",    "subchannel", "row",  "rowwise",
                                             "block",  "wise",      "blockwise", "tensor",  "tensorwise", "scaling",    "e4m3", "e5m2",
                                             "hybrid", "nf4",       "base",      "o1",      "o2",         "o3",         "true", "pure",
                                             "bit",    "precision", "training",  "default", "and",        "with",       "not",  "stated"};

template <class List>
bool lists(const List& words, std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

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
    const bool names_product = lists(kProductWords, word);
    if (!names_product && !lists(kDetailWords, word)) refuse_word(text, word);
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
