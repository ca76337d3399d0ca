#include "formats/onnx/wire.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace rehearsal::formats {
namespace {

/// Messages on the way to a tensor, and those that can nest; all others are checked as flat fields.
enum class WireKind : std::uint8_t {
  Flat,
  Model,
  Graph,
  Node,
  Attribute,
  Tensor,
  Sparse,
  Training,
  Function,
  ValueInfo,
  Type,
  TensorType,
  Shape,
  InnerType,
  MapType,
  Count
};

struct Child {
  std::uint32_t field;
  WireKind kind;
};
constexpr Child kModel[] = {
    {7, WireKind::Graph}, {8, WireKind::Flat}, {14, WireKind::Flat}, {20, WireKind::Training}, {25, WireKind::Function}};
constexpr Child kGraph[] = {{1, WireKind::Node},       {5, WireKind::Tensor},  {11, WireKind::ValueInfo}, {12, WireKind::ValueInfo},
                            {13, WireKind::ValueInfo}, {15, WireKind::Sparse}, {16, WireKind::Flat}};
constexpr Child kNode[] = {{5, WireKind::Attribute}, {9, WireKind::Flat}};
constexpr Child kAttribute[] = {{5, WireKind::Tensor}, {6, WireKind::Graph}, {10, WireKind::Tensor}, {11, WireKind::Graph},
                                {14, WireKind::Type},  {15, WireKind::Type}, {22, WireKind::Sparse}, {23, WireKind::Sparse}};
constexpr Child kTensor[] = {{13, WireKind::Flat}, {16, WireKind::Flat}};
constexpr Child kSparse[] = {{1, WireKind::Tensor}, {2, WireKind::Tensor}};
constexpr Child kTraining[] = {{1, WireKind::Graph}, {2, WireKind::Graph}, {3, WireKind::Flat}, {4, WireKind::Flat}};
constexpr Child kFunction[] = {
    {7, WireKind::Node}, {9, WireKind::Flat}, {11, WireKind::Attribute}, {12, WireKind::ValueInfo}, {14, WireKind::Flat}};
constexpr Child kValueInfo[] = {{2, WireKind::Type}, {4, WireKind::Flat}};
constexpr Child kType[] = {{1, WireKind::TensorType}, {4, WireKind::InnerType},  {5, WireKind::MapType},
                           {7, WireKind::Flat},       {8, WireKind::TensorType}, {9, WireKind::InnerType}};
constexpr Child kTensorType[] = {{2, WireKind::Shape}};
constexpr Child kShape[] = {{1, WireKind::Flat}};
constexpr Child kInnerType[] = {{1, WireKind::Type}};
constexpr Child kMapType[] = {{2, WireKind::Type}};

constexpr std::array<std::span<const Child>, static_cast<std::size_t>(WireKind::Count)> kChildren = {std::span<const Child>{},
                                                                                                     kModel,
                                                                                                     kGraph,
                                                                                                     kNode,
                                                                                                     kAttribute,
                                                                                                     kTensor,
                                                                                                     kSparse,
                                                                                                     kTraining,
                                                                                                     kFunction,
                                                                                                     kValueInfo,
                                                                                                     kType,
                                                                                                     kTensorType,
                                                                                                     kShape,
                                                                                                     kInnerType,
                                                                                                     kMapType};

constexpr int kWireDeepest = 96;  ///< below the limit of 100 of Protobuf's own parser, which says no more than "failed"
constexpr std::uint32_t kFloatData = 4, kRawData = 9, kDoubleData = 10;  ///< of a TensorProto: bytes as they are in memory
constexpr std::uint32_t kPayloadOffset = 1000, kPayloadBytes = 1001;
constexpr std::size_t kLargestMessage = std::size_t{1} << 30;

enum Wire : std::uint32_t { Varint = 0, Fixed64 = 1, Delimited = 2, GroupStart = 3, GroupEnd = 4, Fixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7F) | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_number(std::string& out, std::uint32_t field, std::uint64_t value) {
  append_varint(out, std::uint64_t{field} << 3 | Varint);
  append_varint(out, value);
}

class Walker {
 public:
  Walker(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  std::string model() {
    std::string out;
    message(WireKind::Model, 0, file_.size(), out);
    return out;
  }

 private:
  struct Field {
    std::uint32_t number = 0, wire = 0;
    std::size_t tag = 0;             ///< offset of the tag
    std::size_t begin = 0, end = 0;  ///< of the value; of a delimited one without its length
  };

  [[noreturn]] void fail(std::size_t offset, const std::string& what) const {
    throw BadInput(name_,
                   "not a readable ONNX model: " + what + " at byte " + std::to_string(offset) + " of " + std::to_string(file_.size()));
  }

  std::uint64_t varint(std::size_t& at, std::size_t end) const {
    const std::size_t start = at;
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= end) fail(start, "a number is cut off");
      const auto byte = static_cast<std::uint64_t>(file_[at++]);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail(start, "a number has more than 10 bytes");
  }

  Field field(std::size_t at, std::size_t end) const {
    Field f;
    f.tag = at;
    const std::uint64_t tag = varint(at, end);
    f.number = static_cast<std::uint32_t>(tag >> 3);
    f.wire = static_cast<std::uint32_t>(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) fail(f.tag, "a field has the impossible number " + std::to_string(tag >> 3));
    f.begin = at;
    switch (f.wire) {
      case Varint:
        (void)varint(at, end);
        break;
      case Fixed64:
        at = skipped(at, 8, end);
        break;
      case Fixed32:
        at = skipped(at, 4, end);
        break;
      case Delimited: {
        const std::uint64_t length = varint(at, end);
        f.begin = at;
        at = skipped(at, length, end);
        break;
      }
      default:
        fail(f.tag, "field " + std::to_string(f.number) + " has wire type " + std::to_string(f.wire) + ", which ONNX does not use");
    }
    f.end = at;
    return f;
  }

  std::size_t skipped(std::size_t at, std::uint64_t length, std::size_t end) const {
    if (length > end - at) {
      fail(at, "a field of " + std::to_string(length) + " bytes does not fit into the " + std::to_string(end - at) + " that are left");
    }
    return at + static_cast<std::size_t>(length);
  }

  void copy(const Field& f, std::string& out) const {
    out.append(reinterpret_cast<const char*>(file_.data()) + f.tag, f.end - f.tag);
    if (out.size() > kLargestMessage) fail(f.tag, "more than " + std::to_string(kLargestMessage) + " bytes that are not weights");
  }

  static std::optional<WireKind> child(WireKind kind, const Field& f) {
    if (f.wire != Delimited) return std::nullopt;
    for (const Child& c : kChildren[static_cast<std::size_t>(kind)]) {
      if (c.field == f.number) return c.kind;
    }
    return std::nullopt;
  }

  void message(WireKind kind, std::size_t at, std::size_t end, std::string& out) {
    if (++depth_ > kWireDeepest) fail(at, "messages are nested deeper than " + std::to_string(kWireDeepest) + " levels");
    const auto left_out = kind == WireKind::Tensor ? long_payload(at, end) : std::nullopt;
    while (at < end) {
      const Field f = field(at, end);
      at = f.end;
      if (kind == WireKind::Tensor && (f.number == kPayloadOffset || f.number == kPayloadBytes)) continue;
      if (left_out && left_out->tag == f.tag) {
        append_number(out, kPayloadOffset, f.begin);
        append_number(out, kPayloadBytes, f.end - f.begin);
      } else if (const auto inner = child(kind, f)) {
        std::string nested;
        message(*inner, f.begin, f.end, nested);
        append_varint(out, std::uint64_t{f.number} << 3 | Delimited);
        append_varint(out, nested.size());
        out += nested;
      } else {
        copy(f, out);
      }
    }
    --depth_;
  }

  /// The payload of the tensor in [at, end) that can stay in the file: it is long, and the only one.
  std::optional<Field> long_payload(std::size_t at, std::size_t end) const {
    std::optional<Field> found;
    while (at < end) {
      const Field f = field(at, end);
      at = f.end;
      if (f.number != kFloatData && f.number != kRawData && f.number != kDoubleData) continue;
      if (found || f.wire != Delimited) return std::nullopt;
      found = f;
    }
    return found && found->end - found->begin > kLargestInlinePayload ? found : std::nullopt;
  }

  std::span<const std::byte> file_;
  const std::string& name_;
  int depth_ = 0;
};

struct Lookalike {
  std::string_view start;
  const char* meaning;
};
constexpr Lookalike kLookalikes[] = {
    {"version https://git-lfs", "a pointer of Git LFS, not the model itself: run 'git lfs pull'"},
    {"PK\x03\x04", "a zip archive, perhaps a PyTorch checkpoint: export the model with torch.onnx.export"},
    {"\x89HDF", "an HDF5 file, perhaps a Keras model: export it with model.export(format=\"onnx\")"},
    {"\x1f\x8b", "compressed with gzip: unpack it first"},
    {"<", "a text"},
    {"{", "a text"},
    {"#", "a text"},
    {"ir_version", "ONNX written as text: the binary form is needed"},
};

void refuse_lookalikes(std::span<const std::byte> file, const std::string& name) {
  const std::string_view start(reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 64));
  for (const Lookalike& look : kLookalikes) {
    if (start.substr(0, look.start.size()) == look.start)
      throw BadInput(name, std::string("this is ") + look.meaning + "; an ONNX model (a binary ModelProto) is needed");
  }
  for (const char c : start) {
    const bool text = (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
    if (!text) return;
  }
  throw BadInput(name, "this is a text; an ONNX model (a binary ModelProto) is needed");
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0)
    throw BadInput(path, std::string("the model cannot be opened: ") + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw BadInput(path, "this is a folder; an ONNX model is a file");
  if (!S_ISREG(status.st_mode)) throw BadInput(path, "this is no regular file; an ONNX model must be one");
  if (status.st_size == 0) throw BadInput(path, "the file is empty; an ONNX model (a binary ModelProto) is needed");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (mapped == MAP_FAILED) throw EnvironmentFailure(path + ": cannot be mapped into memory: " + std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(mapped), size};
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

std::string without_payloads(std::span<const std::byte> file, const std::string& name) {
  if (file.empty()) throw BadInput(name, "the file is empty; an ONNX model (a binary ModelProto) is needed");
  refuse_lookalikes(file, name);
  return Walker(file, name).model();
}

}  // namespace rehearsal::formats
