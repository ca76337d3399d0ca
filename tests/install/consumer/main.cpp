// Another project's program: it links the platforms alone.
#include "base/units.hpp"

int main() {
  // 50 MB over 25 GB/s = 2 ms
  const rehearsal::Seconds time = rehearsal::parse_quantity<rehearsal::Bytes>("50 MB") / rehearsal::parse_quantity<rehearsal::BytesPerSecond>("25 GB/s");
  return time.value() > 1.99e-3 && time.value() < 2.01e-3 ? 0 : 1;
}
