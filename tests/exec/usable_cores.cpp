// How many cores a process may compute on.
#include "exec/comm/usable_cores.hpp"

#include <sched.h>

#include <cstdlib>

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

/// Keeps this thread to one processor, and then lets it have what it had.
class OnOne {
 public:
  explicit OnOne(int processor) {
    REQUIRE(sched_getaffinity(0, sizeof before_, &before_) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(processor), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  }
  ~OnOne() { (void)sched_setaffinity(0, sizeof before_, &before_); }
  OnOne(const OnOne&) = delete;
  OnOne& operator=(const OnOne&) = delete;

 private:
  cpu_set_t before_{};
};

/// A variable of the environment, as it was again at the end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name), before_(std::getenv(name) != nullptr ? std::getenv(name) : "") {
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

}  // namespace

TEST_CASE("a process that is kept to one processor has one core") {
  const int before = usable_cores(), first = first_usable_processor();
  CHECK(before >= 1);
  CHECK(before <= cores_of_node());
  {
    const OnOne one(first);
    CHECK(usable_cores() == 1);
    CHECK(first_usable_processor() == first);
    CHECK(cores_of_node() >= before);
    leave_binding();
    CHECK(usable_cores() >= before);
  }
  CHECK(usable_cores() == before);
}

TEST_CASE("a binding stays where no launcher of Open MPI says that it was nobody's wish") {
  const auto left = [](const char* bound, const char* policy) {
    const Variable at_launch("OMPI_MCA_orte_bound_at_launch", bound), asked("OMPI_MCA_hwloc_base_binding_policy", policy);
    const OnOne one(first_usable_processor());
    leave_default_binding(1);
    return usable_cores();
  };
  CHECK(left(nullptr, nullptr) == 1);  // taskset, or a scheduler
  CHECK(left("1", "core") == 1);       // --bind-to core
  CHECK(left("1", nullptr) == 1);      // this test was not started by mpirun; tests/cli/cores.cpp starts some that are
}

TEST_CASE("threads that are asked for are a number, at least one") {
  const auto asked = [](const char* value) {
    const Variable threads("OMP_NUM_THREADS", value);
    return threads_asked_for();
  };
  CHECK(asked(nullptr) == 0);
  CHECK(asked("") == 0);
  CHECK(asked("3") == 3);
  CHECK(asked("4,2") == 4);
  for (const char* wrong : {"0", "-1", "many", "2x"}) CHECK_THROWS_WITH(asked(wrong), contains("OMP_NUM_THREADS") && contains(wrong));
}
