# cmake -DOUTPUT=x.cpp -DFILE=data.txt -DHEADER=room/embedded.hpp -DNAMESPACE=a::b -DFUNCTION=name -P EmbedText.cmake
# Writes a source file whose function returns the text of a data file.
file(READ ${FILE} text)
file(WRITE ${OUTPUT} "// Written by cmake/EmbedText.cmake: do not edit.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

std::string_view ${FUNCTION}() { return R\"~data~(${text})~data~\"; }

}  // namespace ${NAMESPACE}
")
