#include "exec/checkpoint/saving.hpp"

namespace rehearsal::exec {

Saving::Saving(const SavingOptions& options, Executor& executor, const Training& training) : options_(options), since_(now_seconds()) {
  if (!options.folder.empty())
    writer_.emplace(CheckpointWriter::Where{options.folder, options.keep, options.goes_on_with}, executor, training);
}

bool Saving::is_writing() { return writer_ && !writer_->part_is_written(); }

bool Saving::due_by_clock() const { return writer_ && options_.every_seconds > 0 && now_seconds() - since_ >= options_.every_seconds; }

void Saving::agree(bool writing, bool due) {
  due_ = due;
  if (writer_ && !writing) writer_->complete();
}

bool Saving::due(std::int64_t step, bool last, bool best) const {
  const bool by_step = options_.every > 0 && step % options_.every == 0;
  return writer_ && (last || by_step || due_ || (best && options_.keep_best));
}

void Saving::begin(const CheckpointHeader& header, bool best) {
  writer_->begin(header, best && options_.keep_best);
  since_ = now_seconds();
  due_ = false;
}

void Saving::finish() {
  if (writer_) writer_->finish();
}

}  // namespace rehearsal::exec
