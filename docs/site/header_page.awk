# A header as doxygen reads it: what it begins with, behind #pragma once, describes its page; in comments < and \ mean themselves.
function plain(text) { gsub(/\\/, "\\\\\\\\", text); gsub(/</, "\\<", text); return text }
NR > 1 && !ended && /^\/\/( |$)/ { if (!begun) print "/// \\file\n///"; begun = 1; print "///" plain(substr($0, 3)); next }
{ if (NR > 1) ended = 1 }
match($0, /\/\/\/<?/) { print substr($0, 1, RSTART + RLENGTH - 1) plain(substr($0, RSTART + RLENGTH)); next }
{ print }
