#pragma once
// Parameters that are stored in parts (ZeRO) are gathered several at a time: each in the message of the one that was used before it, while
// there is room. All ranks of a group use the same parameters in the same order.

#include <vector>

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

class RoleBuilder::GatheredParameters {
 public:
  explicit GatheredParameters(RoleBuilder& builder) : b_(builder) {}

  /// Is this a gather of what is stored, and does it share a message with others?
  [[nodiscard]] bool takes(const Redistribution&, BufferIndex source) const;
  /// Gathers `from` in `to` before `body` goes on.
  void gather(const ConversionStep&, Redistribution, Transfer, std::uint16_t body);
  /// No more follow.
  void close();

 private:
  struct Shared {
    std::size_t axis;  ///< of the sharding
    DType dtype;
    bool once, again;
    std::uint16_t body;
    std::uint32_t pack, collective, unpack;  ///< instructions of the body
    BufferIndex vector;
    std::vector<Redistribution> members = {};
    std::vector<DealtOut> dealt = {};
  };

  [[nodiscard]] std::int64_t room_of(std::ptrdiff_t n) const;
  Shared& open(const ConversionStep&, const Redistribution&, std::int64_t bytes, std::uint16_t body);

  RoleBuilder& b_;
  std::vector<Shared> shared_;
};

}  // namespace rehearsal::plan
