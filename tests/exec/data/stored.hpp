#pragma once
// Files as tests want them: pictures, archives, and what a model asks of them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "exec/data/place.hpp"
#include "tests/catch.hpp"
#include "tests/process.hpp"

namespace stored {

/// A PNG that is not compressed (RFC 1951, 3.2.4). `colour` as in its specification: 0 grey, 2 red-green-blue, 3 palette.
std::string png(int width, int height, int colour, const std::string& pixels);
/// A ustar archive with its end mark.
std::string tar(const std::vector<std::pair<std::string, std::string>>& members);
/// One member without an end mark.
std::string tar_member(const std::string& name, const std::string& bytes, char type = '0');

/// Little-endian numbers one after the other.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline rehearsal::exec::WantedTensor input(const std::string& name, rehearsal::DType dtype, rehearsal::graph::Shape shape,
                                           std::int64_t classes = 0) {
  return {name, {dtype, std::move(shape)}, true, false, classes};
}
inline rehearsal::exec::WantedTensor target(rehearsal::graph::Shape shape, std::int64_t classes = 0,
                                            rehearsal::DType dtype = rehearsal::DType::I64) {
  return {"target", {dtype, std::move(shape)}, true, true, classes};
}

/// As open_data() does, without a model.
std::unique_ptr<rehearsal::exec::Dataset> opened(const std::string& source, const std::vector<rehearsal::exec::WantedTensor>& wanted,
                                                 const rehearsal::exec::DataOptions& options = {});

/// What a set has of one sample.
template <class T>
std::vector<T> row_of(const rehearsal::exec::Dataset& set, std::size_t wanted, std::int64_t row, std::size_t elements) {
  std::vector<T> values(elements);
  (void)set.read({wanted, row, row, nullptr}, values.data());
  return values;
}

template <class Action>
void check_refused(Action action, const std::vector<std::string>& words) {
  try {
    action();
    FAIL("it was accepted");
  } catch (const rehearsal::BadInput& error) {
    for (const auto& word : words) CHECK_THAT(error.what(), contains(word));
  }
}

}  // namespace stored
