#pragma once
// What becomes smaller than the smallest normal number becomes 0.

namespace rehearsal::exec {

/// While it lives, on the thread that made it and on the OpenMP team that this thread had then. Gradients of a network that has learnt what
/// there is to learn fade into denormal numbers, with which processors calculate up to a hundred times slower, and which change no loss.
/// Operands are read as they are, so that f16's smallest numbers keep their values. Does nothing on processors other than x86.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_ = 0;
};

}  // namespace rehearsal::exec
