#pragma once
// Reads the wire format of an ONNX file without its weights: a model of gigabytes becomes a message of kilobytes.
// Format: "Protocol Buffers, Encoding" (protobuf.dev).

#include <cstddef>
#include <span>
#include <string>

namespace rehearsal::formats {

/// A whole file, mapped read-only. Throws BadInput naming the file when it is missing, a folder, empty or unreadable.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Payloads of tensors longer than this stay in the file.
inline constexpr std::size_t kLargestInlinePayload = 4096;

/// The ModelProto in `file` as serialized bytes, with each long payload of a TensorProto (raw_data, float_data, double_data) replaced by
/// the private fields payload_offset and payload_bytes. Every length, tag and nesting is checked.
/// Throws BadInput naming `name` and the byte offset of what is wrong.
[[nodiscard]] std::string without_payloads(std::span<const std::byte> file, const std::string& name);

}  // namespace rehearsal::formats
