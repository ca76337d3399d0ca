#include "exec/checkpoint/writer.hpp"

#include <atomic>
#include <exception>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "exec/checkpoint/checksum.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

}  // namespace

/// What a thread writes. It owns all that it needs: the rank may end before it.
struct CheckpointWriter::WriteTask {
  fs::path unfinished;
  CheckpointHeader header;
  bool best = false;
  std::string bytes;     ///< of this rank's part
  std::string checksum;  ///< of them, once they are written
};

/// Work of a thread beside training.
class CheckpointWriter::Task {
 public:
  template <class Work>
  explicit Task(Work work) : state_(std::make_shared<State>()) {
    thread_ = std::thread([state = state_, work = std::move(work)] {
      try {
        work();
      } catch (...) {
        state->failure = std::current_exception();
      }
      state->done = true;
    });
  }
  ~Task() {
    if (!thread_.joinable()) return;
    if (std::uncaught_exceptions() > 0)
      thread_.detach();  // a disk may answer late or never
    else
      thread_.join();
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Throws what the work threw.
  [[nodiscard]] bool done() {
    if (!state_->done) return false;
    if (thread_.joinable()) thread_.join();
    if (state_->failure) std::rethrow_exception(std::exchange(state_->failure, nullptr));
    return true;
  }

 private:
  struct State {
    std::atomic<bool> done = false;
    std::exception_ptr failure;  ///< set before done
  };
  std::shared_ptr<State> state_;
  std::thread thread_;
};

CheckpointWriter::CheckpointWriter(Where where, Executor& executor, const Training& training)
    : folder_(where.folder), keep_(where.keep), executor_(executor), world_(training.world), plan_(executor, training) {
  if (world_.rank() == 0) own_ = std::make_shared<CheckpointFolder>(where.folder, where.goes_on_with);
  home_ = world_.broadcast(own_ ? own_->home().string() : std::string());
  plans_ = world_.gather(plan_.bytes() == 0 ? std::string() : Json{{"file", plan_.file()}, {"bytes", plan_.bytes()}}.dump());
  const auto tensors = world_.gather(plan_.tensors());
  for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
    if (plans_[rank].empty()) continue;
    auto entry = Json::parse(plans_[rank]);
    entry["tensors"] = Json::parse(tensors[rank]);
    plans_[rank] = entry.dump();
  }
}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::begin(const CheckpointHeader& header, bool best) {
  finish();
  job_ = std::make_shared<WriteTask>();
  job_->unfinished = unfinished_checkpoint(home_, header.step);
  job_->header = header;
  job_->best = best;
  incomplete_ = true;
  if (plan_.bytes() == 0) return;
  job_->bytes = plan_.copy(executor_);
  part_ = std::make_unique<Task>([job = job_, file = plan_.file(), folder = folder_] {
    std::error_code failed;
    fs::create_directories(job->unfinished, failed);
    if (failed) throw EnvironmentFailure("--checkpoint " + folder.string() + ": cannot be written to: " + failed.message());
    job->checksum = checksum_of(job->bytes);
    write_file_atomically((job->unfinished / file).string(), job->bytes);
    job->bytes = {};
  });
}

bool CheckpointWriter::part_is_written() {
  if (completion_ && completion_->done()) completion_.reset();
  if (part_ && part_->done()) part_.reset();
  return !part_;
}

void CheckpointWriter::complete() {
  if (!std::exchange(incomplete_, false)) return;
  const auto checksums = world_.gather(job_->checksum);
  if (world_.rank() != 0) return;
  std::vector<std::string> parts;
  for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
    if (plans_[rank].empty()) continue;
    auto entry = Json::parse(plans_[rank]);
    entry["checksum"] = checksums[rank];
    parts.push_back(entry.dump());
  }
  completion_ = std::make_unique<Task>([job = job_, parts = std::move(parts), own = own_, keep = keep_] {
    write_file_atomically((job->unfinished / kManifest).string(), manifest_text(job->header, own->next_place(), parts));
    own->take({job->header.step, job->best}, keep);
  });
}

void CheckpointWriter::finish() {
  if (!job_) return;
  world_.wait_for_all([this] { return part_is_written(); }, "the end of writing a checkpoint");
  complete();
  world_.wait_for_all([this] { return part_is_written() && !completion_; }, "the checkpoint");
  job_.reset();
  home_ = folder_;
}

}  // namespace rehearsal::exec
