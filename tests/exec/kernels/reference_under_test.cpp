#include "tests/exec/kernels/under_test.hpp"

namespace rehearsal::exec {

UnderTest under_test() {
  static const auto kHost = make_host();
  return {{}, *kHost};
}

}  // namespace rehearsal::exec
