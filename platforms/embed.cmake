# cmake -DOUTPUT=embedded.cpp -DSCHEMA=platform.schema.json "-DCATALOG=a.json|b.json" -P embed.cmake
# Writes a source file with the texts of the schema and the catalogue.
set(entries "")
string(REPLACE "|" ";" files "${CATALOG}")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${file} text)
  string(APPEND entries "    EmbeddedFile{\"${name}\", R\"~json~(${text})~json~\"},\n")
endforeach()
file(READ ${SCHEMA} schema)
file(WRITE ${OUTPUT} "// Written by platforms/embed.cmake: do not edit.
#include \"platforms/embedded.hpp\"

#include <array>

namespace rehearsal::platforms {
namespace {

constexpr std::array kCatalog{
${entries}};

}  // namespace

std::span<const EmbeddedFile> embedded_catalog() { return kCatalog; }
std::string_view embedded_schema() { return R\"~json~(${schema})~json~\"; }

}  // namespace rehearsal::platforms
")
