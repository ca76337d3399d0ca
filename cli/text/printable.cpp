#include "cli/text/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace rehearsal::cli {
namespace {

/// Bytes of the UTF-8 sequence that starts `text`; 0 when it starts none.
std::size_t sequence_length(std::string_view text) {
  struct Lead {
    unsigned mask, value;
    std::uint32_t least;  ///< a smaller number has a shorter form
  };
  constexpr std::array<Lead, 4> kLeads = {{{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}}};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const auto* lead = std::find_if(kLeads.begin(), kLeads.end(), [&](const Lead& l) { return (byte(0) & l.mask) == l.value; });
  const auto length = static_cast<std::size_t>(lead - kLeads.begin()) + 1;
  if (lead == kLeads.end() || length > text.size()) return 0;
  std::uint32_t number = byte(0) & ~lead->mask;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    number = number << 6 | (byte(i) & 0x3F);
  }
  return number >= lead->least && number <= 0x10FFFF ? length : 0;
}

bool steers(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7F;
  return sequence.size() == 2 && first == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;  // the second set of controls
}

}  // namespace

std::string printable(std::string_view text, bool lines) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text.substr(at));
    const std::string_view sequence = text.substr(at, std::max<std::size_t>(1, length));
    if ((lines && sequence == "\n") || (length > 0 && !steers(sequence))) {
      result += sequence;
    } else {
      for (const char c : sequence) {
        result += "\\x";
        result += kDigits[static_cast<unsigned char>(c) >> 4];
        result += kDigits[static_cast<unsigned char>(c) & 15];
      }
    }
    at += sequence.size();
  }
  return result;
}

}  // namespace rehearsal::cli
