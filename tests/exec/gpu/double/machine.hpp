#pragma once
// A GPU in memory of the host, behind doubles of NVIDIA's runtime and libraries (runtime.cpp, blas.cpp, dnn.cpp). It does what it is asked
// for as late as the rules of streams and events allow, so that whoever reads too early reads what was there before; keeps its memory shut
// while it does not work, so that the host cannot touch it; and notes every call with the memory that it touches, so that two of which
// nothing says which comes first are found even where the numbers come out right.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rehearsal::exec::gpu_double {

/// Bytes that a piece of work reads or writes.
struct Touch {
  const void* data = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

struct Work {
  std::string call;            ///< "cublasLtMatmul"
  std::vector<Touch> touches;  ///< none: those of the scope that it is asked for in
  std::function<void()> run;
  std::function<void()> offer = {};  ///< before it: what other ranks wait for
  std::function<bool()> ready = {};  ///< whether they have offered theirs
};

/// What was known to have happened: by thread, how many of its pieces of work. Thread 0 is the host.
using Clock = std::map<int, std::int64_t>;

struct Stream {
  int thread = 0;
  Clock clock;                                        ///< of what was asked for last
  std::deque<std::pair<std::int64_t, Work>> waiting;  ///< by number
  std::int64_t asked = 0, done = 0;
};

struct Event {
  Stream* stream = nullptr;
  std::int64_t behind = 0;  ///< of the stream's work
  Clock clock;
  double time = 0;
};

/// A call as it was asked for.
struct Noted {
  std::string call, scope;
  int thread = 0;
};

class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// What comes before the body of every double: counts the call. The error that it is to end with, 0: none. REHEARSAL_DOUBLE_FAILURE
  /// "cudaMalloc:2:2" lets the second call of cudaMalloc end with error 2; from then on the device is lost where the error says so.
  int begin(const char* call);

  [[nodiscard]] void* allocate(std::size_t bytes, bool on_host);  ///< nullptr: there is no room
  void release(void* data);
  [[nodiscard]] bool is_device(const void* data) const;
  [[nodiscard]] bool is_pinned(const void* data) const;
  [[nodiscard]] std::size_t free_bytes() const { return room_ - taken_; }
  [[nodiscard]] std::size_t all_bytes() const { return room_; }

  Stream* make_stream();
  void destroy(Stream* stream);
  void ask(Stream* stream, Work work);
  void record(Event& event, Stream* stream);
  void wait_for(Stream* stream, const Event& event);  ///< the stream's further work comes behind
  void finish(Stream* stream);                        ///< the host waits
  void finish(const Event& event);
  /// Lets the stream go on as far as other ranks let it. Has the event happened?
  [[nodiscard]] bool has_happened(const Event& event);

  /// The host itself reads or writes memory that the device knows, now.
  void host_touches(const Touch& touch, const char* doing);

  /// While it lives, what is asked for without touches touches this.
  class Scope {
   public:
    Scope(Machine& machine, std::string name, std::vector<Touch> touches);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Machine& machine_;
  };

  [[nodiscard]] const std::vector<Noted>& noted() const { return noted_; }
  /// Pairs of calls that touch the same memory, one of them writing, in no certain order; and calls that touch what their scope has not.
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }
  void add_fault(const std::string& fault) { faults_.push_back(fault); }
  void forget() { noted_.clear(), faults_.clear(); }

 private:
  struct Access {
    int thread = 0;
    std::int64_t number = 0;
    std::string what;
  };
  /// What was last done with memory up to `end`.
  struct Segment {
    std::uintptr_t end = 0;
    Access written;
    std::vector<Access> read;  ///< since then, the last of every thread
  };
  struct ScopeOf {
    std::string name;
    std::vector<Touch> touches;
  };

  void run_to(Stream& stream, std::int64_t number);
  /// Runs work up to that number; false where it would have to wait for other ranks.
  bool try_to(Stream& stream, std::int64_t number);
  [[nodiscard]] bool may_run(Work& work);
  void open(bool is_open);
  void note(const Access& access, const Clock& clock, const Touch& touch);
  void split_at(std::uintptr_t place);
  void compare(const Access& earlier, const Access& now, const Clock& clock, const Touch& touch);
  void check_scope(const Work& work);
  [[nodiscard]] std::string place_of(const void* data) const;

  std::map<std::uintptr_t, std::pair<std::size_t, bool>> memory_;  ///< bytes, and whether the host's
  std::map<std::uintptr_t, Segment> segments_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<ScopeOf> scopes_;
  std::vector<Noted> noted_;
  std::vector<std::string> faults_;
  std::map<std::string, int, std::less<>> calls_;
  std::string failing_;
  int fails_at_ = 0, failure_ = 0, lost_ = 0;
  std::size_t room_, taken_ = 0;
  std::int64_t host_ = 0;
  int threads_ = 1;
  Clock host_clock_;
  bool eager_ = false;
};

[[nodiscard]] Machine& machine();

}  // namespace rehearsal::exec::gpu_double
