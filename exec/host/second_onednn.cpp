#include "exec/host/second_onednn.hpp"

#include "base/error.hpp"
#include "base/module.hpp"
#include "exec/kernels/onednn/families.hpp"

namespace rehearsal::exec {
namespace {

/// Both libraries have functions of the same names.
constexpr ModuleNames kSecondOnednn{"librehearsal_onednn.so",   "REHEARSAL_ONEDNN_MODULE",
                                    "the second oneDNN",        "It is built where one is (scripts/install-dependencies --second-onednn)",
                                    "rehearsal_onednn_kernels", true};
using Kernels = const onednn::LibraryKernels* (*)();

/// "onednn:matmul" of version 3.2.0 as "onednn3.2:matmul" (costmodel::names_version()).
std::string named(std::string_view implementation, const std::string& version) {
  return std::string(implementation).insert(implementation.find(':'), version, 0, version.rfind('.'));
}

SecondOnednn opened() {
  SecondOnednn second;
  if (!has_module(kSecondOnednn)) return second;
  try {
    const auto& kernels = *reinterpret_cast<Kernels>(open_module(kSecondOnednn).factory)();
    second.version = kernels.version;
    second.rows = kernels.rows;
  } catch (const EnvironmentFailure& failure) {
    second.trouble = failure.what();
  }
  for (const auto& row : second.rows) second.names.push_back(named(row.implementation, second.version));
  for (std::size_t i = 0; i < second.rows.size(); ++i) second.rows[i].implementation = second.names[i];
  return second;
}

}  // namespace

const SecondOnednn& second_onednn() {
  static const SecondOnednn kSecond = opened();
  return kSecond;
}

}  // namespace rehearsal::exec
