#include "base/module.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "base/error.hpp"

namespace rehearsal {
namespace {

namespace fs = std::filesystem;

/// nullptr where it is not named there.
const char* named_in_environment(const ModuleNames& names) {
  const char* named = std::getenv(std::string(names.variable).c_str());
  return named != nullptr && *named != '\0' ? named : nullptr;
}

std::vector<fs::path> places_of(const ModuleNames& names) {
  if (const auto* named = named_in_environment(names)) return {fs::path(named)};
  std::error_code ignored;
  const auto folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> places{folder / names.file};
  for (const char* lib : {REHEARSAL_LIBDIR, "lib", "lib64"}) places.push_back((folder / ".." / lib / names.file).lexically_normal());
  return places;
}

fs::path first_of(const std::vector<fs::path>& places) {
  std::error_code ignored;
  for (const auto& place : places)
    if (fs::exists(place, ignored)) return place;
  return {};
}

fs::path find(const ModuleNames& names) {
  const auto places = places_of(names);
  if (auto file = first_of(places); !file.empty()) return file;
  throw EnvironmentFailure(std::string(names.what) + " is not installed: " + places.front().string() + " does not exist. " +
                           std::string(names.remedy) + "; the environment variable " + std::string(names.variable) + " names it elsewhere");
}

}  // namespace

bool has_module(const ModuleNames& names) {
  if (const auto* named = named_in_environment(names)) return named != std::string_view("none");
  return !first_of(places_of(names)).empty();
}

OpenedModule open_module(const ModuleNames& names) {
  const auto file = find(names);
  // Names are looked up in the program's libraries first, unless this says otherwise; the same holds for the libraries that come with it.
  const int own_first = names.own_libraries ? RTLD_DEEPBIND : 0;
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | own_first);
  if (module == nullptr) throw EnvironmentFailure(std::string(names.what) + " cannot be opened: " + dlerror());
  void* factory = dlsym(module, std::string(names.factory).c_str());
  if (factory == nullptr)
    throw EnvironmentFailure(file.string() + " belongs to another version of this program: it does not export " +
                             std::string(names.factory));
  return {factory, file};
}

}  // namespace rehearsal
