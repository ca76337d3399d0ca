#include "exec/play/flush_denormals.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace rehearsal::exec {

#if defined(__SSE__)
FlushDenormals::FlushDenormals() : before_(_mm_getcsr()) {
#pragma omp parallel
  _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON);
}

FlushDenormals::~FlushDenormals() {
  const unsigned own = before_ & _MM_FLUSH_ZERO_MASK;
#pragma omp parallel
  _mm_setcsr((_mm_getcsr() & ~static_cast<unsigned>(_MM_FLUSH_ZERO_MASK)) | own);
}
#else
FlushDenormals::FlushDenormals() = default;
FlushDenormals::~FlushDenormals() = default;
#endif

}  // namespace rehearsal::exec
