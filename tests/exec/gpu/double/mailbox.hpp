#pragma once
// What doubles of GPUs tell each other from process to process: files of a folder, each of which is there as a whole or not at all.

#include <filesystem>
#include <string>

namespace rehearsal::exec::gpu_double {

class Mailbox {
 public:
  explicit Mailbox(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// A new folder.
  [[nodiscard]] static std::filesystem::path make_folder();

  void put(const std::string& name, const std::string& bytes) const;
  [[nodiscard]] bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  [[nodiscard]] std::string get(const std::string& name) const;
  void remove(const std::string& name) const;
  void remove_all() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace rehearsal::exec::gpu_double
