#include "exec/data/read_ahead.hpp"

#include <signal.h>

#include <algorithm>

namespace rehearsal::exec {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{1} << 18;  // less than this is not worth waking a thread for
constexpr std::size_t kMostSpare = 16;

/// Signals are for the thread that trains; threads begin with the mask of their maker.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

ReadAhead::ReadAhead(std::shared_ptr<const SampleReader> reader, int threads) : shared_(std::make_shared<Shared>()) {
  shared_->reader = std::move(reader);
  const WithoutSignals without_signals;
  for (int n = 0; n < threads; ++n) threads_.emplace_back([shared = shared_] { serve(shared); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->end = true;
    shared_->queue.clear();
  }
  shared_->work.notify_all();
  for (auto& thread : threads_) std::uncaught_exceptions() > 0 ? thread.detach() : thread.join();
}

std::shared_ptr<Load> ReadAhead::make(const Stretch& stretch, std::byte* out) {
  auto load = std::make_shared<Load>();
  const auto each = std::max<std::int64_t>(1, shared_->reader->bytes_of(stretch.wanted, stretch.region()));
  load->stretch = stretch;
  load->bytes = stretch.count * shared_->reader->bytes_of(stretch.wanted, stretch.region());
  const auto workers = std::max<std::int64_t>(1, threads());
  load->samples_of_piece = std::clamp<std::int64_t>(kPieceBytes / each, 1, std::max<std::int64_t>(1, stretch.count / workers));
  load->pieces = (stretch.count + load->samples_of_piece - 1) / load->samples_of_piece;
  load->out = out;
  if (out != nullptr) return load;
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const auto& s) { return s.first == load->bytes; });
  if (fits != spare_.end()) {
    load->own = std::move(fits->second);
    spare_.erase(fits);
  } else {
    load->own = std::unique_ptr<std::byte[]>(new std::byte[static_cast<std::size_t>(load->bytes)]);  // not set to zero
  }
  load->out = load->own.get();
  return load;
}

void ReadAhead::give_back(Load& load) {
  if (load.own == nullptr || load.failure) return;
  if (spare_.size() == kMostSpare) spare_.erase(spare_.begin());
  spare_.emplace_back(load.bytes, std::move(load.own));
}

void ReadAhead::begin(const std::shared_ptr<Load>& load) {
  if (threads_.empty() || load->pieces == 0) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->queue.push_back(load);
  }
  load->pieces > 1 ? shared_->work.notify_all() : shared_->work.notify_one();
}

/// False when no piece is left to begin.
bool ReadAhead::do_piece(Shared& shared, Load& load) {
  const auto piece = load.begun++;
  if (piece >= load.pieces) return false;
  const auto& s = load.stretch;
  const auto first = piece * load.samples_of_piece, last = std::min(first + load.samples_of_piece, s.count);
  const auto each = shared.reader->bytes_of(s.wanted, s.region());
  std::exception_ptr failure;
  try {
    for (auto n = first; n < last; ++n) shared.reader->read({s.wanted, s.first + n, s.region()}, load.out + n * each);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(shared.mutex);
  if (failure && !load.failure) load.failure = failure;
  if (++load.done == load.pieces) shared.done.notify_all();
  return true;
}

void ReadAhead::serve(const std::shared_ptr<Shared>& shared) {
  for (;;) {
    std::shared_ptr<Load> load;
    {
      std::unique_lock lock(shared->mutex);
      auto& queue = shared->queue;
      shared->work.wait(lock, [&] {
        while (!queue.empty() && queue.front()->begun >= queue.front()->pieces) queue.pop_front();
        return shared->end || !queue.empty();
      });
      if (shared->end) return;
      load = queue.front();
    }
    do_piece(*shared, *load);
  }
}

void ReadAhead::finish(Load& load) {
  while (do_piece(*shared_, load)) {
  }
  std::unique_lock lock(shared_->mutex);
  shared_->done.wait(lock, [&] { return load.done >= load.pieces; });
  if (load.failure) std::rethrow_exception(load.failure);
}

}  // namespace rehearsal::exec
