#include "exec/checkpoint/checksum.hpp"

#include <xxhash.h>

#include <array>
#include <cstdio>

#include "base/error.hpp"

namespace rehearsal::exec {

struct Checksum::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { ensure(xxh != nullptr && XXH3_64bits_reset(xxh) == XXH_OK, "a checksum begins"); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {}
Checksum::~Checksum() = default;

Checksum& Checksum::add(std::string_view bytes) {
  ensure(XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size()) == XXH_OK, "a checksum goes on");
  return *this;
}

std::string Checksum::text() const {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(XXH3_64bits_digest(state_->xxh)));
  return digits.data();
}

}  // namespace rehearsal::exec
