# cmake -DOUTPUT=embedded.cpp -DSCHEMA=platform.schema.json "-DCATALOG=a.json|b.json" "-DDEVICES=…" "-DSITES=…" -P embed.cmake
# Writes a source file with the texts of the schema and the catalogue.
function(entries list result)
  set(text "")
  string(REPLACE "|" ";" files "${list}")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WLE)
    file(READ ${file} content)
    string(APPEND text "    EmbeddedFile{\"${name}\", R\"~json~(${content})~json~\"},\n")
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()
entries("${CATALOG}" catalog)
entries("${DEVICES}" devices)
entries("${SITES}" sites)
file(READ ${SCHEMA} schema)
file(WRITE ${OUTPUT} "// Written by platforms/embed.cmake: do not edit.
#include \"platforms/embedded_catalog.hpp\"

#include <array>

namespace rehearsal::platforms {
namespace {

constexpr std::array kCatalog{
${catalog}};
constexpr std::array kDevices{
${devices}};
constexpr std::array kSites{
${sites}};

}  // namespace

std::span<const EmbeddedFile> embedded_catalog() { return kCatalog; }
std::span<const EmbeddedFile> embedded_devices() { return kDevices; }
std::span<const EmbeddedFile> embedded_sites() { return kSites; }
std::string_view embedded_schema() { return R\"~json~(${schema})~json~\"; }

}  // namespace rehearsal::platforms
")
