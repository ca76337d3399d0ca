#include "exec/data/tar_index.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::int64_t kTarIndexBlock = 512;
constexpr std::int64_t kLongestNote = 1 << 20;
using TarIndexBlock = std::array<char, kTarIndexBlock>;

std::string_view field(const TarIndexBlock& block, std::size_t at, std::size_t size) {
  const std::string_view all(block.data() + at, size);
  return all.substr(0, std::min(all.find('\0'), all.size()));
}

/// Octal digits, or a big-endian number behind a byte 0x80 (GNU).
std::optional<std::int64_t> number(const TarIndexBlock& block, std::size_t at, std::size_t size) {
  if ((static_cast<unsigned char>(block[at]) & 0x80U) != 0) {
    std::int64_t value = static_cast<unsigned char>(block[at]) & 0x7FU;
    for (std::size_t i = 1; i < size; ++i) {
      if (value > (std::int64_t{1} << 54)) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(block[at + i]);
    }
    return value;
  }
  std::int64_t value = 0;
  bool any = false;
  for (const char c : field(block, at, size)) {
    if (c == ' ') continue;
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + (c - '0');
    any = true;
  }
  return any ? std::optional(value) : std::nullopt;
}

bool checksum_holds(const TarIndexBlock& block) {
  constexpr std::size_t kAt = 148, kSize = 8;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) sum += i >= kAt && i < kAt + kSize ? ' ' : static_cast<unsigned char>(block[i]);
  return number(block, kAt, kSize) == sum;
}

bool leads_outside(std::string_view name) {
  if (name.starts_with('/')) return true;
  while (!name.empty()) {
    const auto end = std::min(name.find('/'), name.size());
    if (name.substr(0, end) == "..") return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

class Reader {
 public:
  explicit Reader(const StoredFile& file) : file_(file) {}

  std::vector<TarMember> members() && {
    for (TarIndexBlock block; read(block);) take(block);
    return std::move(members_);
  }

 private:
  /// False at the end mark.
  bool read(TarIndexBlock& block) {
    if (at_ + kTarIndexBlock > file_.size()) refuse_end();
    file_.read(at_, std::as_writable_bytes(std::span(block)));
    at_ += kTarIndexBlock;
    if (std::all_of(block.begin(), block.end(), [](char c) { return c == 0; })) return false;
    if (!checksum_holds(block))
      throw BadInput(file_.path(),
                     at_ == kTarIndexBlock ? "is no tar archive" : "is damaged at byte " + std::to_string(at_ - kTarIndexBlock));
    return true;
  }

  [[noreturn]] void refuse_end() const {
    throw BadInput(file_.path(), file_.size() == 0 ? "is empty, and no tar archive"
                                                   : "is truncated: a tar archive ends in two blocks of zeros, and this one at byte " +
                                                         std::to_string(file_.size()));
  }

  void take(const TarIndexBlock& block) {
    constexpr std::size_t kSizeAt = 124, kTypeAt = 156;
    auto size = number(block, kSizeAt, 12);
    if (!size) throw BadInput(file_.path(), "is damaged at byte " + std::to_string(at_ - kTarIndexBlock) + ": a member without a size");
    const char type = block[kTypeAt];
    if (type == 'L' || type == 'x' || type == 'g') return take_note(type, *size);
    if (next_size_) size = std::exchange(next_size_, std::nullopt);
    auto name = next_name_ ? *std::exchange(next_name_, std::nullopt) : name_of(block);
    const auto offset = at_;
    skip(*size);
    if (type != '0' && type != '\0' && type != '7') return;
    if (leads_outside(name))
      throw BadInput(file_.path(),
                     "holds \"" + name + "\", which leads outside the folder it would be unpacked in; nothing is read from it");
    while (name.starts_with("./")) name.erase(0, 2);
    members_.push_back({std::move(name), offset, *size});
  }

  void skip(std::int64_t size) {
    at_ += (size + kTarIndexBlock - 1) / kTarIndexBlock * kTarIndexBlock;
    if (at_ > file_.size()) refuse_end();
  }

  static std::string name_of(const TarIndexBlock& block) {
    const auto name = std::string(field(block, 0, 100));
    const auto prefix = field(block, 257, 5) == "ustar" && block[262] == '\0' ? field(block, 345, 155) : std::string_view();
    return prefix.empty() ? name : std::string(prefix) + "/" + name;
  }

  /// What says more of the next member.
  void take_note(char type, std::int64_t size) {
    if (size > kLongestNote)
      throw BadInput(file_.path(), "is damaged at byte " + std::to_string(at_ - kTarIndexBlock) + ": a name without end");
    std::string text(static_cast<std::size_t>(size), '\0');
    const auto offset = at_;
    skip(size);
    file_.read(offset, std::as_writable_bytes(std::span(text)));
    if (type == 'L') next_name_ = text.substr(0, std::min(text.find('\0'), text.size()));
    if (type == 'x') take_records(text);
  }

  /// "LENGTH KEY=VALUE\n", the length being of the whole record.
  void take_records(std::string_view text) {
    while (!text.empty()) {
      auto rest = text;
      const auto length = take_number<std::size_t>(rest);
      const auto head = text.size() - rest.size();
      if (!length || *length > text.size() || *length <= head + 1 || text[head] != ' ')
        throw BadInput(file_.path(), "is damaged at byte " + std::to_string(at_) + ": what says more of a member is in no form");
      const auto record = text.substr(head + 1, *length - head - 2);
      const auto equal = std::min(record.find('='), record.size());
      const auto key = record.substr(0, equal), value = record.substr(std::min(equal + 1, record.size()));
      if (key == "path") next_name_ = std::string(value);
      if (key == "size") next_size_ = parse_number<std::int64_t>(value);
      text.remove_prefix(*length);
    }
  }

  const StoredFile& file_;
  std::int64_t at_ = 0;
  std::vector<TarMember> members_;
  std::optional<std::string> next_name_;
  std::optional<std::int64_t> next_size_;
};

}  // namespace

std::vector<TarMember> tar_members(const StoredFile& file) { return Reader(file).members(); }

}  // namespace rehearsal::exec
