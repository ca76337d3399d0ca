# `check_structure` refuses an upward include, a cycle of rooms, or a vendor header outside its room: `rehearse` is not linked while
# one stands. The same script with all its rules (sizes, names, words) is a test.

# The system's own python: another one that stands first in PATH may lack the packages which scripts/install-dependencies brings.
find_program(REHEARSAL_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "python3 for checks and tests")
find_program(REHEARSAL_PYTHON NAMES python3)

if(REHEARSAL_PYTHON)
  add_custom_target(check_structure
    COMMAND ${REHEARSAL_PYTHON} ${PROJECT_SOURCE_DIR}/tests/structure/check_rooms.py --rooms-only ${PROJECT_SOURCE_DIR}
    COMMENT "Checking that rooms include only what they may" VERBATIM)
endif()

# Called once all rooms exist.
function(rehearsal_guard target)
  if(TARGET ${target} AND TARGET check_structure)
    add_dependencies(${target} check_structure)
  endif()
endfunction()
