#include "costmodel/attention_kernels.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "costmodel/embedded_constants.hpp"
#include "platforms/object_reader.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::costmodel {
namespace {

/// Whose tiles count where a generation was not measured: kernels for older and other GPUs keep the shape of Ampere's.
constexpr std::string_view kUsualAttention = "ampere";
constexpr std::size_t kMostGenerations = 100;

}  // namespace

double occupied_attention(const AttentionShape& s, int units, const AttentionKernels& k) {
  const double tiles = s.heads * std::ceil(s.queries / k.rows);
  const double keys = std::min(s.keys, s.pairs < s.keys ? s.pairs + k.rows / 2 : s.keys) + k.fill, longest = s.keys + k.fill;
  const double occupied_rows = std::max(tiles * k.rows * keys / units + k.rows * longest / 4, k.rows * longest);
  return units * occupied_rows * 2 * (s.width + 2 * k.softmax);
}

std::vector<AttentionKernels> attention_kernels_from_json_text(const std::string& text, const std::string& where) {
  const auto json = platforms::parse_strict_json(text, where);
  std::vector<AttentionKernels> all;
  for (auto& row : platforms::ObjectReader(json, where, "").objects("rows", 1, kMostGenerations))
    all.push_back({row.text("generation"), row.number("share", 0.05, 1.5).value, row.number("rows", 16, 1024).value,
                   row.number("softmax", 0, 1000).value, row.number("fill", 0, 5000).value});
  return all;
}

std::span<const AttentionKernels> measured_attention_kernels() {
  static const auto kRows = attention_kernels_from_json_text(std::string(embedded_attention()), "costmodel/constants/attention.json");
  return kRows;
}

const AttentionKernels& attention_kernels(std::string_view generation) {
  const auto rows = measured_attention_kernels();
  const auto own = std::ranges::find(rows, generation, &AttentionKernels::generation);
  return own != rows.end() ? *own : *std::ranges::find(rows, kUsualAttention, &AttentionKernels::generation);
}

}  // namespace rehearsal::costmodel
