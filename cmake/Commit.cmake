# cmake -DSOURCE=folder -DOUTPUT=commit.cpp -P Commit.cmake
# Writes a source file with the commit that is built, "-dirty" behind it where files differ from it; empty outside of a repository. A file that
# says the same already is left alone, so that nothing is built anew.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=9 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
set(text "// Written by cmake/Commit.cmake: do not edit.
#include \"cli/commit.hpp\"

namespace rehearsal::cli {

std::string_view commit() { return \"${commit}\"; }

}  // namespace rehearsal::cli
")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
