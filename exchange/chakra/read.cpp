#include <algorithm>
#include <istream>
#include <set>

#include "base/error.hpp"
#include "exchange/chakra/chakra.hpp"
#include "exchange/chakra/collective_types.hpp"
#include "exchange/chakra/rehearsal_chakra.pb.h"

namespace rehearsal::exchange {
namespace {

constexpr std::uint64_t kLargestMessage = std::uint64_t{64} << 20;

/// Messages one behind the other, each behind its length.
class MessageReader {
 public:
  MessageReader(std::istream& in, std::string file) : in_(in), file_(std::move(file)) {}

  /// False at the end of the file.
  bool next(google::protobuf::MessageLite& message) {
    ++number_;
    std::uint64_t length = 0;
    if (!read_length(length)) return false;
    if (length > kLargestMessage) refuse("is " + std::to_string(length) + " bytes long, which no node is: this is no Chakra trace");
    std::string bytes(length, '\0');
    in_.read(bytes.data(), static_cast<std::streamsize>(length));
    if (static_cast<std::uint64_t>(in_.gcount()) != length) refuse("ends in the middle: the file is cut off");
    if (!message.ParseFromString(bytes)) refuse("is no Protocol Buffers message: this is no Chakra trace");
    return true;
  }
  [[noreturn]] void refuse(const std::string& what) const { throw BadInput(file_ + ": message " + std::to_string(number_), what); }

 private:
  bool read_length(std::uint64_t& length) {
    constexpr int kMostShift = 63;
    for (int shift = 0; shift <= kMostShift; shift += 7) {
      const int byte = in_.get();
      if (byte == std::istream::traits_type::eof()) {
        if (shift > 0) refuse("ends in its length: the file is cut off");
        return false;
      }
      length |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return true;
    }
    refuse("has a length that is no number: this is no Chakra trace");
  }

  std::istream& in_;
  std::string file_;
  int number_ = 0;
};

const chakra::Attribute* find(const chakra::Node& node, const char* name) {
  const auto found = std::ranges::find_if(node.attr(), [&](const auto& a) { return a.name() == name; });
  return found == node.attr().end() ? nullptr : &*found;
}

/// Writers differ in the type of a whole number.
std::int64_t whole_number(const chakra::Node& node, const char* name, std::int64_t otherwise) {
  const auto* a = find(node, name);
  if (a == nullptr) return otherwise;
  switch (a->value_case()) {
    case chakra::Attribute::kInt32Val:
      return a->int32_val();
    case chakra::Attribute::kInt64Val:
      return a->int64_val();
    case chakra::Attribute::kUint32Val:
      return a->uint32_val();
    case chakra::Attribute::kUint64Val:
      return static_cast<std::int64_t>(std::min<std::uint64_t>(a->uint64_val(), std::uint64_t{1} << 62));
    default:
      return otherwise;
  }
}

void describe_collective(const chakra::Node& node, GpuEvent& event) {
  const auto type = whole_number(node, "comm_type", -1);
  event.bytes = whole_number(node, "comm_size", 0);
  event.group = static_cast<int>(std::clamp<std::int64_t>(whole_number(node, "comm_group_size", 0), 0, 1 << 30));
  const auto row = std::ranges::find(kCollectiveTypes, type, &CollectiveType::number);
  if (row == kCollectiveTypes.end())
    event.unreadable = "node " + std::to_string(node.id()) + " ('" + node.name().substr(0, 60) + "') has no comm_type from 0 to 9";
  else if (event.group == 0)
    event.unreadable = "node " + std::to_string(node.id()) + " ('" + node.name().substr(0, 60) +
                       "') does not say how many ranks take part (comm_group_size)";
  else
    event.collective = row->name;
}

GpuEvent event_of(const chakra::Node& node) {
  constexpr std::uint64_t kLatest = std::uint64_t{1} << 60;
  GpuEvent event;
  event.name = node.name();
  event.begin = static_cast<std::int64_t>(std::min(node.start_time_micros(), kLatest));
  event.end = event.begin + static_cast<std::int64_t>(std::min(node.duration_micros(), kLatest));
  switch (node.type()) {
    case chakra::COMM_COLL:
      event.work = GpuWork::Communication;
      describe_collective(node, event);
      break;
    case chakra::COMM_SEND:
    case chakra::COMM_RECV:
      event.work = GpuWork::Communication;
      event.collective = node.type() == chakra::COMM_SEND ? "send" : "receive";
      event.bytes = whole_number(node, "comm_size", 0);
      event.group = 2;
      break;
    case chakra::MEM_LOAD:
    case chakra::MEM_STORE:
      event.work = GpuWork::Memory;
      break;
    default:
      break;
  }
  return event;
}

bool on_device(const chakra::Node& node) {
  const auto* cpu = find(node, "is_cpu_op");
  return node.type() > chakra::METADATA && (cpu == nullptr || !cpu->bool_val());
}

}  // namespace

bool is_chakra(const std::string& beginning) {
  // The length of the heading, one byte or two, and the heading, which says a version or names a schema.
  constexpr unsigned kMore = 0x80;
  if (beginning.size() < 2) return false;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(beginning[at]); };
  const std::size_t digits = byte(0) < kMore ? 1 : 2;
  const std::size_t length = byte(0) < kMore ? byte(0) : (byte(0) & (kMore - 1)) | (byte(1) << 7);
  chakra::Heading heading;
  if (length == 0 || beginning.size() < digits + length || !heading.ParseFromString(beginning.substr(digits, length))) return false;
  const bool versioned = !heading.version().empty() && heading.version().find_first_not_of("0123456789.") == std::string::npos;
  return versioned || std::ranges::any_of(heading.attr(), [](const auto& a) { return a.name() == "schema"; });
}

GpuProfile read_chakra(std::istream& in, const std::string& file) {
  MessageReader messages(in, file);
  chakra::Heading heading;
  if (!messages.next(heading)) messages.refuse("is missing: the file is empty");
  GpuProfile profile;
  std::set<std::uint64_t> ids;
  bool timed = false, begun = false;
  for (chakra::Node node; messages.next(node); node.Clear()) {
    if (!ids.insert(node.id()).second) messages.refuse("is a second node " + std::to_string(node.id()));
    if (!on_device(node)) continue;
    timed = timed || node.duration_micros() > 0;
    begun = begun || node.start_time_micros() > 0;
    profile.events.push_back(event_of(node));
  }
  if (profile.events.empty()) throw BadInput(file, "has no node of a device (COMP_NODE, COMM_*_NODE or MEM_*_NODE without is_cpu_op)");
  if (!timed) throw BadInput(file, "has no times (duration_micros): it is work to be simulated, and nothing that was measured");
  profile.has_begins = begun || profile.events.size() == 1;  // converters of PyTorch's traces leave them out
  return profile;
}

}  // namespace rehearsal::exchange
