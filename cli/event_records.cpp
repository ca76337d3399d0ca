#include "cli/event_records.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace rehearsal::cli {
namespace {

constexpr std::array<std::uint32_t, 256> kEventRecordsTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t n = 0; n < table.size(); ++n) {
    table[n] = n;
    for (int bit = 0; bit < 8; ++bit) table[n] = (table[n] & 1U) != 0 ? table[n] >> 1 ^ 0x82F63B78U : table[n] >> 1;
  }
  return table;
}();

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// As TFRecords have it: rotated, so that checksums of checksums differ.
std::string checksum(std::string_view bytes) {
  constexpr std::uint32_t kDelta = 0xA282EAD8U;
  return little_endian(std::rotr(crc32c(bytes), 15) + kDelta);
}

std::string record(const std::string& data) {
  const auto length = little_endian<std::uint64_t>(data.size());
  return length + checksum(length) + data + checksum(data);
}

// Protobuf's wire format: https://protobuf.dev/programming-guides/encoding/

enum Wire : std::uint8_t { kNumber = 0, kEight = 1, kText = 2, kFour = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(unsigned field, Wire wire) { return varint(field << 3 | wire); }
std::string text(unsigned field, const std::string& bytes) { return key(field, kText) + varint(bytes.size()) + bytes; }

// Fields of Event, Summary and Summary.Value.
enum EventField : std::uint8_t {
  kFieldTime = 1,
  kFieldStep = 2,
  kFieldVersion = 3,
  kFieldSummary = 5,
  kFieldSummaryValue = 1,
  kFieldTag = 1,
  kFieldSimpleValue = 2
};

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// 0 where the event has none.
std::int64_t step_of(std::string_view event) {
  constexpr std::size_t kTimeBytes = 1 + sizeof(double);  // written first
  event.remove_prefix(std::min(kTimeBytes, event.size()));
  const auto first = take_varint(event);
  if (first != (kFieldStep << 3 | kNumber)) return 0;
  return static_cast<std::int64_t>(take_varint(event).value_or(0));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = kEventRecordsTable[(crc ^ static_cast<unsigned char>(c)) & 0xFFU] ^ crc >> 8;
  return ~crc;
}

std::string first_event(double time) {
  return record(key(kFieldTime, kEight) + little_endian(time) + text(kFieldVersion, "brain.Event:2"));
}

std::string scalars_event(const Scalars& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars.values)
    summary += text(kFieldSummaryValue, text(kFieldTag, name) + key(kFieldSimpleValue, kFour) + little_endian(value));
  return record(key(kFieldTime, kEight) + little_endian(scalars.time) + key(kFieldStep, kNumber) +
                varint(static_cast<std::uint64_t>(scalars.step)) + text(kFieldSummary, summary));
}

std::string events_up_to(std::string_view file, std::int64_t step) {
  constexpr std::size_t kHead = 12, kTail = 4;
  std::string kept;
  while (file.size() >= kHead + kTail) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    if (file.substr(8, 4) != checksum(file.substr(0, 8)) || length > file.size() - kHead - kTail) break;
    const auto event = file.substr(kHead, length);
    if (file.substr(kHead + length, kTail) != checksum(event)) break;
    if (step_of(event) <= step) kept += file.substr(0, kHead + length + kTail);
    file.remove_prefix(kHead + length + kTail);
  }
  return kept;
}

}  // namespace rehearsal::cli
