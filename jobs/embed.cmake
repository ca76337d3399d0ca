# cmake -DOUTPUT=embedded.cpp -DSCHEMA=jobs.schema.json -P embed.cmake
# Writes a source file with the text of the schema.
file(READ ${SCHEMA} schema)
file(WRITE ${OUTPUT} "// Written by jobs/embed.cmake: do not edit.
#include \"jobs/jobs_json.hpp\"

namespace rehearsal::jobs {

std::string_view jobs_schema() { return R\"~json~(${schema})~json~\"; }

}  // namespace rehearsal::jobs
")
