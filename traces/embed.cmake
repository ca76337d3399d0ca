# cmake -DOUTPUT=embedded.cpp -DSTYLE=page.css -DTIMELINE=timeline.js -DTOKENS=tokens.js -P embed.cmake
# Writes a source file with the texts that pages are made of.
file(READ ${STYLE} style)
file(READ ${TIMELINE} timeline)
file(READ ${TOKENS} tokens)
file(WRITE ${OUTPUT} "// Written by traces/embed.cmake: do not edit.
#include \"traces/page_parts.hpp\"

namespace rehearsal::traces {

std::string_view page_style() { return R\"~css~(${style})~css~\"; }
std::string_view timeline_script() { return R\"~js~(${timeline})~js~\"; }
std::string_view tokens_script() { return R\"~js~(${tokens})~js~\"; }

}  // namespace rehearsal::traces
")
