#include "exec/data/arrays.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::exec {
namespace {

graph::Shape without_channel(const graph::Shape& shape) {
  return shape.size() > 1 && shape.front() == 1 ? graph::Shape(shape.begin() + 1, shape.end()) : shape;
}

}  // namespace

bool ArrayColumn::suits(const ArrayBlock& block) const {
  const auto& shape = block.type.shape;
  const auto wanted = wanted_.sample_shape();
  if (block.one_sample) return shape == wanted || shape == without_channel(wanted);
  if (!wanted_.per_sample) return shape == wanted;
  return shape.size() == wanted.size() + 1 && std::equal(shape.begin() + 1, shape.end(), wanted.begin());
}

void ArrayColumn::add(ArrayBlock block, const std::string& array) {
  const auto called = "array \"" + array + "\"";
  if (!suits(block))
    throw BadInput(block.origin, called + " has shape " + graph::to_text(block.type.shape) + ", the model's input " +
                                     graph::to_text(block.one_sample ? wanted_.sample_shape() : wanted_.type.shape) +
                                     (block.one_sample ? " (one sample)" : " (first dimension: samples)"));
  auto* const convert = converter(block.type.dtype, wanted_.type.dtype);
  if (convert == nullptr)
    throw BadInput(block.origin, called + " is " + std::string(row(block.type.dtype).numpy_name) + ", the model wants " +
                                     std::string(row(wanted_.type.dtype).numpy_name));
  array_ = array;
  const auto rows = block.one_sample || !wanted_.per_sample ? 1 : block.type.shape.front();
  places_.push_back({std::move(block), rows_, rows, convert});
  rows_ += rows;
}

void ArrayColumn::require_rows_of(const ArrayColumn& other) const {
  const auto check = [&](const std::string& file, std::int64_t rows, const std::string& other_file, std::int64_t other_rows) {
    if (rows != other_rows)
      throw BadInput(file, "array \"" + array_ + "\" has " + std::to_string(rows) + " samples, array \"" + other.array_ + "\" has " +
                               std::to_string(other_rows) + (file == other_file ? "" : " in " + other_file) + "; both must have as many");
  };
  if (one_per_file() != other.one_per_file()) {
    const auto& file = (one_per_file() ? other : *this).places_.front().block.origin;
    return check(file, rows_, file, other.rows_);
  }
  const auto common = std::min(places_.size(), other.places_.size());
  for (std::size_t n = 0; n < common; ++n)
    check(places_[n].block.origin, places_[n].rows, other.places_[n].block.origin, other.places_[n].rows);
  if (places_.size() == other.places_.size()) return;
  const auto& [more, fewer] = places_.size() > common ? std::pair(this, &other) : std::pair(&other, this);
  throw BadInput(more->places_[common].block.origin, "is file " + std::to_string(common + 1) + " of array \"" + more->array_ +
                                                         "\", and array \"" + fewer->array_ + "\" has " + std::to_string(common) +
                                                         "; give as many files of each, the n-th with the same samples");
}

const ArrayColumn::RowsOfBlock& ArrayColumn::place_of(std::int64_t row) const {
  return *std::prev(
      std::upper_bound(places_.begin(), places_.end(), row, [](std::int64_t r, const RowsOfBlock& p) { return r < p.first; }));
}

std::string ArrayColumn::origin_of(std::int64_t row) const {
  const auto& place = place_of(row);
  return place.block.one_sample ? place.block.origin : "row " + std::to_string(row - place.first) + " of " + place.block.origin;
}

/// `first` element of the sample in the block.
std::int64_t ArrayColumn::copy(const RowsOfBlock& place, const plan::BlockCopy& copy, std::int64_t first, std::byte* out) const {
  const auto& block = place.block;
  const auto in_size = static_cast<std::int64_t>(size_of(block.type.dtype)),
             out_size = static_cast<std::int64_t>(size_of(wanted_.type.dtype));
  std::int64_t bytes = 0;
  if (block.bytes != nullptr) {
    copy.for_each_run([&](std::int64_t from, std::int64_t to, std::int64_t count) {
      place.convert(block.bytes->data() + (first + from) * in_size, out + to * out_size, count);
    });
    return 0;
  }
  const auto file = block.file != nullptr ? block.file : std::make_shared<const StoredFile>(block.origin);
  std::vector<std::byte> run;
  copy.for_each_run([&](std::int64_t from, std::int64_t to, std::int64_t count) {
    run.resize(static_cast<std::size_t>(count * in_size));
    file->read(block.offset + (first + from) * in_size, run);
    place.convert(run.data(), out + to * out_size, count);
    bytes += count * in_size;
  });
  return bytes;
}

std::int64_t ArrayColumn::read(const RowRequest& r, void* out) const {
  const auto& place = place_of(wanted_.per_sample ? r.row : 0);
  const auto whole = plan::whole_region(wanted_.sample_shape());
  const auto part = r.part == nullptr ? whole : plan::Region{r.part->begin() + 1, r.part->end()};
  return copy(place, plan::BlockCopy(whole, part), (r.row - place.first) * plan::element_count(whole), static_cast<std::byte*>(out));
}

namespace {

class ArrayData final : public Dataset {
 public:
  ArrayData(std::vector<ArrayColumn> columns, bool in_memory) : columns_(std::move(columns)), in_memory_(in_memory) {
    const ArrayColumn* first = nullptr;
    for (const auto& column : columns_) {
      if (!column.per_sample()) continue;
      if (first == nullptr) first = &column;
      column.require_rows_of(*first);
    }
    first_ = first == nullptr ? 0 : static_cast<std::size_t>(first - columns_.data());
    samples_ = first == nullptr ? 0 : first->rows();
  }
  [[nodiscard]] std::int64_t samples() const override { return samples_; }
  [[nodiscard]] std::string origin_of(std::int64_t row) const override { return columns_[first_].origin_of(row); }
  [[nodiscard]] std::int64_t read(const RowRequest& r, void* out) const override { return columns_[r.wanted].read(r, out); }
  [[nodiscard]] bool reads_parts() const override { return true; }
  [[nodiscard]] bool in_memory() const override { return in_memory_; }

 private:
  std::vector<ArrayColumn> columns_;
  bool in_memory_;
  std::size_t first_ = 0;
  std::int64_t samples_ = 0;
};

}  // namespace

const std::string& array_of(const WantedTensor& wanted) { return wanted.array.empty() ? wanted.input : wanted.array; }

void require_arrays(const std::string& where, const std::vector<std::string>& held, const std::vector<WantedTensor>& wanted) {
  std::vector<std::string> missing, options;
  for (const auto& w : wanted) {
    if (std::ranges::find(held, array_of(w)) != held.end()) continue;
    missing.push_back("array \"" + array_of(w) + "\" for input \"" + w.input + "\"");
    options.push_back("--input " + w.input + "=ARRAY");
  }
  if (missing.empty()) return;
  throw BadInput(where, "holds no " + joined(missing, " and no ") + " of the model; it holds " + joined(held) +
                            "; name the one that it is by " + joined(options, " "));
}

std::unique_ptr<Dataset> array_data(std::vector<ArrayColumn> columns, bool in_memory) {
  return std::make_unique<ArrayData>(std::move(columns), in_memory);
}

}  // namespace rehearsal::exec
