#include "base/module.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "base/error.hpp"

namespace rehearsal {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> places_of(const ModuleNames& names) {
  if (const char* named = std::getenv(std::string(names.variable).c_str()); named != nullptr && *named != '\0') return {fs::path(named)};
  std::error_code ignored;
  const auto folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> places{folder / names.file};
  for (const char* lib : {REHEARSAL_LIBDIR, "lib", "lib64"}) places.push_back((folder / ".." / lib / names.file).lexically_normal());
  return places;
}

fs::path find(const ModuleNames& names) {
  const auto places = places_of(names);
  std::error_code ignored;
  for (const auto& place : places)
    if (fs::exists(place, ignored)) return place;
  throw EnvironmentFailure(std::string(names.what) + " is not installed: " + places.front().string() + " does not exist. " +
                           std::string(names.remedy) + "; the environment variable " + std::string(names.variable) + " names it elsewhere");
}

}  // namespace

OpenedModule open_module(const ModuleNames& names) {
  const auto file = find(names);
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw EnvironmentFailure(std::string(names.what) + " cannot be opened: " + dlerror());
  void* factory = dlsym(module, std::string(names.factory).c_str());
  if (factory == nullptr)
    throw EnvironmentFailure(file.string() + " belongs to another version of this program: it does not export " +
                             std::string(names.factory));
  return {factory, file};
}

}  // namespace rehearsal
