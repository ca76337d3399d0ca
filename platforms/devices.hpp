#pragma once
// Devices of the catalogue (platforms/catalog/devices/), by name or by what people call them.

#include <string>
#include <string_view>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// Names of the devices of the catalogue, sorted.
[[nodiscard]] std::vector<std::string> device_names();

/// Device::generation of them, sorted, each once.
[[nodiscard]] std::vector<std::string_view> generation_names();

/// The device of exactly this name. Throws BadInput with the nearest name where there is none.
[[nodiscard]] Device load_device(std::string_view name);

/// The same of a name that somebody types: any that find_device() knows, with no other word beside. Throws BadInput with the nearest name
/// or alias.
[[nodiscard]] Device device_called(std::string_view name);

/// The device that a free text such as "NVIDIA Tesla V100-SXM2 32GB" means: the one with the alias (or name) whose words all stand
/// in the text, most of them (then the longest). Upper and lower case are the same, any other sign parts words, and remarks in
/// parentheses are left out where nothing is found with them; a spelling that leaves no word over is preferred. nullptr where no alias
/// fits, or two devices fit equally well.
[[nodiscard]] const Device* find_device(std::string_view text);

/// Words of a text in which find_device() finds a device that are none of its names': {"512"} of "h100:512".
[[nodiscard]] std::vector<std::string> words_beside(const Device&, std::string_view text);

}  // namespace rehearsal::platforms
