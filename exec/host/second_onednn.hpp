#pragma once
// The kernels of a second oneDNN, of another version than the one that the program is built with, where there is one. It is in a module
// that is opened when somebody asks: no rule takes its kernels, only times do.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec {

struct SecondOnednn {
  std::string version;             ///< "3.2.0"; empty: there is none that can be used
  std::string trouble;             ///< why the one that is there cannot
  std::vector<std::string> names;  ///< of its kernels, with its version: "onednn3.2:matmul"
  std::vector<KernelRow> rows;     ///< under these names
};
[[nodiscard]] const SecondOnednn& second_onednn();

}  // namespace rehearsal::exec
