#pragma once
// NumPy's .npz: a zip archive of .npy arrays (format: NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays").

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "graph/shape.hpp"

namespace rehearsal::exec {

struct NpyArray {
  graph::TensorType type;
  std::vector<std::byte> bytes;  ///< row-major, little-endian
};

/// All arrays of a file by name. Throws BadInput naming the file and the array when it is no .npz, truncated, or of a type or order that is
/// not read.
[[nodiscard]] std::map<std::string, NpyArray> read_npz(const std::string& path);
/// Throws BadInput naming the file when it is missing or no .npz; reads no array.
void require_npz(const std::string& path);
/// Writes arrays uncompressed, atomically. Throws EnvironmentFailure when the disk is full.
void write_npz(const std::string& path, const std::map<std::string, NpyArray>& arrays);

/// The header and data of one .npy. `where` names file and array in messages.
[[nodiscard]] NpyArray parse_npy(const std::string& bytes, const std::string& where);
[[nodiscard]] std::string npy_bytes(const NpyArray& array);

}  // namespace rehearsal::exec
