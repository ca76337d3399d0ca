#include "tests/exec/data/stored.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace stored {
namespace {

std::string big_endian(std::uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
}

/// CRC-32 of ISO 3309, as PNG wants it.
std::uint32_t checksum(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? crc >> 1 ^ 0xEDB88320U : crc >> 1;
  }
  return ~crc;
}

std::string chunk(const std::string& type, const std::string& data) {
  return big_endian(static_cast<std::uint32_t>(data.size())) + type + data + big_endian(checksum(type + data));
}

/// zlib's container (RFC 1950) of one stored block.
std::string stored_stream(const std::string& data) {
  std::uint32_t low = 1, high = 0;  // Adler-32
  for (const char c : data) low = (low + static_cast<unsigned char>(c)) % 65521, high = (high + low) % 65521;
  const auto size = static_cast<std::uint16_t>(data.size()), inverted = static_cast<std::uint16_t>(~size);
  std::string block("\x78\x01\x01", 3);
  for (const auto n : {size, inverted}) block += {static_cast<char>(n & 0xFF), static_cast<char>(n >> 8)};
  return block + data + big_endian(high << 16 | low);
}

std::string octal(std::uint64_t n, int digits) {
  std::string text;
  for (; digits > 0; --digits, n /= 8) text.insert(text.begin(), static_cast<char>('0' + n % 8));
  return text + std::string(1, '\0');
}

}  // namespace

std::string png(int width, int height, int colour, const std::string& pixels) {
  const auto stride = static_cast<std::size_t>(width * (colour == 2 ? 3 : 1));
  std::string rows;
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) rows += std::string(1, '\0') + pixels.substr(y * stride, stride);
  std::string head = big_endian(static_cast<std::uint32_t>(width)) + big_endian(static_cast<std::uint32_t>(height));
  head += {8, static_cast<char>(colour), 0, 0, 0};
  std::string palette;
  for (int n = 0; colour == 3 && n < 256; ++n) palette += {static_cast<char>(n), static_cast<char>(255 - n), 7};
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", head) + (colour == 3 ? chunk("PLTE", palette) : std::string()) +
         chunk("IDAT", stored_stream(rows)) + chunk("IEND", "");
}

std::string tar_member(const std::string& name, const std::string& bytes, char type) {
  std::string head = name + std::string(100 - name.size(), '\0') + octal(0644, 7) + octal(0, 7) + octal(0, 7) + octal(bytes.size(), 11) +
                     octal(0, 11) + std::string(8, ' ') + type;
  head.resize(257);
  head += std::string("ustar\00000", 8);
  head.resize(512);
  std::uint64_t sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  head.replace(148, 8, octal(sum, 6) + " ");
  auto data = bytes;
  data.resize((data.size() + 511) / 512 * 512);
  return head + data;
}

std::string tar(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string all;
  for (const auto& [name, bytes] : members) all += tar_member(name, bytes);
  return all + std::string(1024, '\0');
}

std::unique_ptr<Dataset> opened(const std::string& source, const std::vector<WantedTensor>& wanted, const DataOptions& options) {
  const auto found = find_data({source});
  return found.kind->open({found.place, wanted, options});
}

}  // namespace stored
