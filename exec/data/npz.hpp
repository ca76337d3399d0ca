#pragma once
// NumPy's .npz: a zip archive of .npy arrays (format: NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays").

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "exec/data/stored_file.hpp"
#include "graph/shape.hpp"

namespace rehearsal::exec {

struct NpyArray {
  graph::TensorType type;
  std::vector<std::byte> bytes;  ///< row-major, little-endian
};

/// All arrays of a file by name. Throws BadInput naming the file and the array when it is no .npz, truncated, or of a type or order that is
/// not read.
[[nodiscard]] std::map<std::string, NpyArray> read_npz(const std::string& path);
/// Names of its arrays; reads none.
[[nodiscard]] std::vector<std::string> npz_names(const std::string& path);
/// Writes arrays uncompressed, atomically. Throws EnvironmentFailure when the disk is full.
void write_npz(const std::string& path, const std::map<std::string, NpyArray>& arrays);

struct NpyHeader {
  graph::TensorType type;
  std::size_t end = 0;  ///< where the elements begin
};
/// Throws BadInput naming the file, also when it is shorter than its elements.
[[nodiscard]] NpyHeader npy_header(const StoredFile&);

/// The header and data of one .npy. `where` names file and array in messages.
[[nodiscard]] NpyArray parse_npy(const std::string& bytes, const std::string& where);
[[nodiscard]] std::string npy_bytes(const NpyArray& array);

}  // namespace rehearsal::exec
