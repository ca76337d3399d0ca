# One static library per room. `DEPENDS` names the rooms above it; `VENDOR` the libraries whose headers
# may appear in this room's sources only (linked PRIVATE, so they never reach a public header).

# The rooms, in the order of docs/design.md: a room may only use rooms that stand before it.
set(REHEARSAL_ROOMS base platforms graph formats costmodel plan predict search jobs traces exchange validation sim exec cli)

# Vendors that leave nothing to link: whoever links an installed room does not need to have them.
set(REHEARSAL_HEADER_ONLY_VENDORS nlohmann_json::nlohmann_json Eigen3::Eigen CLI11::CLI11 valijson)

# What a test needs so that `mpirun` works in a container, as root, with more ranks than cores (Open MPI 4, then 5).
set(REHEARSAL_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe)

# Most of what a file costs to compile are the headers that all of them read: a dozen files at a time take a third of the processor time.
# After a change to one file the dozen is compiled again, so whoever works on Rehearsal is quicker with -DREHEARSAL_UNITY=OFF.
# In a unity build names of unnamed namespaces must differ within a room.
option(REHEARSAL_UNITY "Compile a dozen files of a room at a time" ON)
function(rehearsal_quick_build target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${REHEARSAL_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  # A class of a source file may hold types of its unnamed namespace; in a unity build GCC takes that file for a header.
  if(REHEARSAL_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  # -O3 costs a tenth more than -O2, and brings nothing outside of kernels; -O1 costs a quarter less, where nothing is counted a million
  # times: commands, and files that are read and written once.
  if(target MATCHES "^(rehearse.*|rehearsal_(cli|platforms|traces|validation))$")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  elseif(NOT target STREQUAL "rehearsal_exec")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
endfunction()

# For every target of ours.
function(rehearsal_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wno-restrict)
  # GCC's own manual: with sanitizers this warning finds what is not there (GCC 12, in std::variant and std::regex).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(REHEARSAL_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*address")
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/leaks.cpp)
  endif()
endfunction()

# Stops the configuration when `room` asks for a room that does not stand above it.
function(rehearsal_check_order room)
  foreach(needed ${ARGN})
    list(FIND REHEARSAL_ROOMS ${room} here)
    list(FIND REHEARSAL_ROOMS ${needed} there)
    if(there LESS 0 OR NOT there LESS here OR ("${room}" STREQUAL "exec" AND "${needed}" STREQUAL "sim"))
      message(FATAL_ERROR "room '${room}' may not depend on '${needed}': see the order of rooms in docs/design.md")
    endif()
  endforeach()
endfunction()

# Links libraries whose headers only `target`'s own sources may include.
function(rehearsal_vendors target)
  foreach(vendor ${ARGN})
    if(vendor IN_LIST REHEARSAL_HEADER_ONLY_VENDORS)
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${vendor}>)
    else()
      target_link_libraries(${target} PRIVATE ${vendor})
      set_property(TARGET ${target} APPEND PROPERTY REHEARSAL_LINKED_VENDORS ${vendor})
    endif()
  endforeach()
endfunction()

# Generates FOLDER/NAME.proto's messages where includes from the root find them. Sets NAME to the source file that the room compiles.
function(rehearsal_messages room folder name)
  set(place ${CMAKE_CURRENT_BINARY_DIR}/generated/${room}/${folder})
  add_custom_command(
    OUTPUT ${place}/${name}.pb.cc ${place}/${name}.pb.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${place}
    COMMAND protobuf::protoc --proto_path=${CMAKE_CURRENT_SOURCE_DIR}/${folder} --cpp_out=${place} ${name}.proto
    DEPENDS ${folder}/${name}.proto
    VERBATIM)
  # Generated code is not ours to fix.
  set_source_files_properties(${place}/${name}.pb.cc PROPERTIES COMPILE_OPTIONS "-w")
  set(${name} ${place}/${name}.pb.cc PARENT_SCOPE)
endfunction()

# A library of SOURCES, and of every .cpp file right in one of FOLDERS ("." is the room itself): what is added there needs no line here.
function(rehearsal_room room)
  cmake_parse_arguments(ARG "" "" "SOURCES;FOLDERS;DEPENDS;VENDOR" ${ARGN})
  rehearsal_check_order(${room} ${ARG_DEPENDS})
  foreach(folder ${ARG_FOLDERS})
    file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND ARG_SOURCES ${files})
  endforeach()
  add_library(rehearsal_${room} STATIC ${ARG_SOURCES})
  add_library(rehearsal::${room} ALIAS rehearsal_${room})
  set_target_properties(rehearsal_${room} PROPERTIES EXPORT_NAME ${room} REHEARSAL_DEPENDS "${ARG_DEPENDS}")
  target_compile_features(rehearsal_${room} PUBLIC cxx_std_20)
  target_include_directories(rehearsal_${room} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/rehearsal>)
  rehearsal_warnings(rehearsal_${room})
  rehearsal_quick_build(rehearsal_${room})
  foreach(needed ${ARG_DEPENDS})
    target_link_libraries(rehearsal_${room} PUBLIC rehearsal_${needed})
  endforeach()
  rehearsal_vendors(rehearsal_${room} ${ARG_VENDOR})
endfunction()

# A test executable `test_<name>` of Catch2 cases, linked against the rooms it names. SLOW_CASES: those that are tagged [slow] are a test of
# their own, `<name>_slow`.
function(rehearsal_test name)
  cmake_parse_arguments(ARG "SLOW_CASES" "" "SOURCES;ROOMS;VENDOR" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  rehearsal_warnings(test_${name})
  # Cases run once: two thirds of the time to compile them at -O3, and the rooms under test keep theirs.
  target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  foreach(room ${ARG_ROOMS})
    target_link_libraries(test_${name} PRIVATE rehearsal_${room})
  endforeach()
  target_link_libraries(test_${name} PRIVATE rehearsal_test_main ${ARG_VENDOR})
  set(tests ${name})
  if(ARG_SLOW_CASES)
    list(APPEND tests ${name}_slow)
    add_test(NAME ${name} COMMAND test_${name} "~[slow]")
    add_test(NAME ${name}_slow COMMAND test_${name} "[slow]")
    rehearsal_slow_tests(${name}_slow)
  else()
    add_test(NAME ${name} COMMAND test_${name})
  endif()
  # Every Program that a test lowers is held to plan/memory/check_messages.hpp.
  set_tests_properties(${tests} PROPERTIES TIMEOUT 600 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} ENVIRONMENT "REHEARSAL_CHECK_PROGRAMS=1;${REHEARSAL_MPI_ENVIRONMENT}")
endfunction()

# Tests that take more than five seconds, most of them because they start ranks or the command: `scripts/test --fast` leaves them out. To be called where
# they are defined.
function(rehearsal_slow_tests)
  foreach(name ${ARGN})
    set_property(TEST ${name} APPEND PROPERTY LABELS slow)
  endforeach()
endfunction()
