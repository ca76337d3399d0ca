#pragma once
// What scripts/mutants writes into its copy of the sources: every change stands beside the original, and the environment variable
// REHEARSAL_MUTANT says which one holds in this process and in those that it starts. Without it the program is the original.
// REHEARSAL_MUTANTS_REACHED names a file with a byte for every mutant, shared by all processes of a test: 1 where one came by.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace mutants {

struct Switch {
  long active = -1;
  unsigned char* reached = nullptr;
  Switch() {
    if (const char* number = std::getenv("REHEARSAL_MUTANT")) active = std::atol(number);
    const char* path = std::getenv("REHEARSAL_MUTANTS_REACHED");
    const int file = path ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
    struct stat is;
    if (file < 0) return;
    if (::fstat(file, &is) == 0) {
      void* bytes = ::mmap(nullptr, static_cast<std::size_t>(is.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (bytes != MAP_FAILED) reached = static_cast<unsigned char*>(bytes);
    }
    ::close(file);
  }
};
inline const Switch the;

inline bool on(long mutant) {
  if (the.reached) the.reached[mutant] = 1;
  return the.active == mutant;
}

#define MUTANTS_BINARY(name, op)              \
  struct name {                               \
    template <class A, class B>               \
    auto operator()(const A& a, const B& b) const { \
      return a op b;                          \
    }                                         \
  };
MUTANTS_BINARY(Plus, +)
MUTANTS_BINARY(Minus, -)
MUTANTS_BINARY(Times, *)
MUTANTS_BINARY(Over, /)
MUTANTS_BINARY(Modulo, %)
MUTANTS_BINARY(Less, <)
MUTANTS_BINARY(LessEqual, <=)
MUTANTS_BINARY(Greater, >)
MUTANTS_BINARY(GreaterEqual, >=)
MUTANTS_BINARY(Equal, ==)
MUTANTS_BINARY(Unequal, !=)
#undef MUTANTS_BINARY

template <class Original, class Changed, class A, class B>
auto either(long mutant, const A& a, const B& b) {
  return on(mutant) ? Changed{}(a, b) : Original{}(a, b);
}

template <class Original, class Changed, class A, class B>
A& assign(long mutant, A& a, const B& b) {
  return a = static_cast<A>(on(mutant) ? Changed{}(a, b) : Original{}(a, b));
}

template <class N>
N number(long mutant, N original, N changed) {
  return on(mutant) ? changed : original;
}

template <class A>
A sign(long mutant, const A& a) {
  return static_cast<A>(on(mutant) ? a : -a);
}

template <class A>
void count(long mutant, A& a, int step) {
  const bool forward = (step > 0) != on(mutant);
  if (forward)
    ++a;
  else
    --a;
}

}  // namespace mutants
