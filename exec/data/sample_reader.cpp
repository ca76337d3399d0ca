#include "exec/data/sample_reader.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "exec/host/block_moves.hpp"

namespace rehearsal::exec {
namespace {

template <class T>
std::optional<std::int64_t> outside(const std::byte* values, std::int64_t count, const WantedTensor& wanted) {
  const auto* v = reinterpret_cast<const T*>(values);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::int64_t>(v[i]);
    if ((value < 0 || value >= wanted.classes) && value != wanted.ignored) return value;
  }
  return std::nullopt;
}

/// Of a sample.
plan::Region part_of_sample(const plan::Region& part) { return {part.begin() + 1, part.end()}; }

}  // namespace

std::size_t SampleReader::index_of(const std::string& input) const {
  const auto at = std::find_if(wanted_.begin(), wanted_.end(), [&](const WantedTensor& w) { return w.input == input; });
  ensure(at != wanted_.end(), "data is read for inputs of the model it was opened for");
  return static_cast<std::size_t>(at - wanted_.begin());
}

std::int64_t SampleReader::bytes_of(std::size_t wanted, const plan::Region* part) const {
  const auto& w = wanted_[wanted];
  const auto elements = part != nullptr ? plan::element_count(part_of_sample(*part)) : graph::element_count(w.sample_shape());
  return elements * static_cast<std::int64_t>(size_of(w.type.dtype));
}

void SampleReader::check_classes(const WantedTensor& w, const SampleSlot& slot, const std::byte* values) const {
  const auto bytes = static_cast<std::int64_t>(size_of(w.type.dtype));
  const auto count = w.per_sample ? bytes_of(slot.wanted, slot.part) / bytes : graph::element_count(w.type.shape);
  const auto wrong = w.type.dtype == DType::I64   ? outside<std::int64_t>(values, count, w)
                     : w.type.dtype == DType::I32 ? outside<std::int32_t>(values, count, w)
                                                  : std::nullopt;
  if (wrong)
    throw BadInput(origin_of(slot.sample), "has " + std::to_string(*wrong) + " for \"" + w.input + "\", and the model has " +
                                               std::to_string(w.classes) + " classes, 0 to " + std::to_string(w.classes - 1));
}

void SampleReader::read(const SampleSlot& slot, std::byte* out) const {
  const auto& w = wanted_[slot.wanted];
  RowRequest request{slot.wanted, order_.row(slot.sample), slot.sample, slot.part};
  if (slot.part == nullptr || dataset_->reads_parts()) {
    bytes_read_ += dataset_->read(request, out);
  } else {
    request.part = nullptr;
    std::vector<std::byte> whole(static_cast<std::size_t>(bytes_of(slot.wanted, nullptr)));
    bytes_read_ += dataset_->read(request, whole.data());
    const plan::BlockCopy copy(plan::whole_region(w.sample_shape()), part_of_sample(*slot.part));
    run(copy, size_of(w.type.dtype), whole.data(), out);
  }
  if (w.classes > 0) check_classes(w, slot, out);
}

}  // namespace rehearsal::exec
