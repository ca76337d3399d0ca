# cmake -DOUTPUT=embedded.cpp -DCONSTANTS=accelerators.json -DPRODUCTS=products.json -DATTENTION=attention.json -DCOLLECTIVES=collectives.json \
#   "-DPROFILES=a.json|b.json" -P embed.cmake
# Writes a source file with the texts of the constants, the measured products and attention, the table of collectives and the framework profiles.
set(entries "")
string(REPLACE "|" ";" files "${PROFILES}")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${file} text)
  string(APPEND entries "    EmbeddedProfile{\"${name}\", R\"~json~(${text})~json~\"},\n")
endforeach()
file(READ ${CONSTANTS} constants)
file(READ ${PRODUCTS} products)
file(READ ${ATTENTION} attention)
file(READ ${COLLECTIVES} collectives)
file(WRITE ${OUTPUT} "// Written by costmodel/embed.cmake: do not edit.
#include \"costmodel/embedded_constants.hpp\"

#include <array>

namespace rehearsal::costmodel {
namespace {

constexpr std::array kProfiles{
${entries}};

}  // namespace

std::span<const EmbeddedProfile> embedded_profiles() { return kProfiles; }
std::string_view embedded_constants() { return R\"~json~(${constants})~json~\"; }
std::string_view embedded_products() { return R\"~json~(${products})~json~\"; }
std::string_view embedded_attention() { return R\"~json~(${attention})~json~\"; }
std::string_view embedded_collectives() { return R\"~json~(${collectives})~json~\"; }

}  // namespace rehearsal::costmodel
")
