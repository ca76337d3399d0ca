# Install and export. Each room is a component of the package `rehearsal`: find_package(rehearsal COMPONENTS costmodel) finds that
# room, the rooms above it, and only the libraries which those need when linked. `rehearse` and the simulator module stand apart.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Where the program and the module it opens lie: side by side in the build, bin/ and lib/ of one prefix when installed.
set(REHEARSAL_SIM_TARGET "")
foreach(candidate rehearsal_sim_module rehearsal_sim)
  if(TARGET ${candidate})
    get_target_property(type ${candidate} TYPE)
    if(type STREQUAL "MODULE_LIBRARY" OR type STREQUAL "SHARED_LIBRARY")
      set(REHEARSAL_SIM_TARGET ${candidate})
      set_target_properties(${candidate} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} OUTPUT_NAME rehearsal_sim)
      install(TARGETS ${candidate} LIBRARY DESTINATION lib COMPONENT program)  # where predict/simulation.hpp looks for it
      break()
    endif()
  endif()
endforeach()

add_custom_target(product COMMENT "rehearse and what it opens")  # what scripts/build makes
if(TARGET rehearse)
  set_target_properties(rehearse PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS rehearse RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  # Manual pages and completion, as the program itself writes them.
  set(shells bash-completion/completions/rehearse zsh/vendor-completions/_rehearse fish/vendor_completions.d/rehearse.fish)
  install(CODE "
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    execute_process(COMMAND \"$<TARGET_FILE:rehearse>\" man -o \"\${share}/man/man1\" COMMAND_ERROR_IS_FATAL ANY)
    foreach(file ${shells})
      string(REGEX MATCH \"^[a-z]+\" shell \"\${file}\")
      execute_process(COMMAND \"$<TARGET_FILE:rehearse>\" completion \${shell} OUTPUT_VARIABLE script COMMAND_ERROR_IS_FATAL ANY)
      file(WRITE \"\${share}/\${file}\" \"\${script}\")
    endforeach()" COMPONENT program)
  if(REHEARSAL_STATIC)
    target_link_options(rehearse PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  if(SKBUILD)  # a wheel: the program and what it opens lie in the Python package
    install(TARGETS rehearse ${REHEARSAL_SIM_TARGET} RUNTIME DESTINATION rehearsal/bin COMPONENT wheel
      LIBRARY DESTINATION rehearsal/bin COMPONENT wheel)
  endif()
  rehearsal_guard(rehearse)
  add_dependencies(product rehearse ${REHEARSAL_SIM_TARGET})
  if(TARGET rehearsal_second_onednn)
    # No part of a package: the library itself is of this machine.
    install(TARGETS rehearsal_second_onednn LIBRARY DESTINATION lib COMPONENT second_onednn)  # where exec/host/second_onednn.cpp looks for it
  endif()
  if(TARGET rehearsal_cuda_module)
    add_dependencies(product rehearsal_cuda_module)
    install(TARGETS rehearsal_cuda_module LIBRARY DESTINATION lib COMPONENT program)  # where exec/backends.cpp looks for it
  endif()
endif()

# The package that a vendor's target comes from; an installed room names it only where something of it remains to be linked.
set(package_of_protobuf::libprotobuf Protobuf)
set(package_of_protobuf::libprotobuf-lite Protobuf)
set(package_of_MPI::MPI_C MPI)
set(package_of_MPI::MPI_CXX MPI)
set(package_of_Threads::Threads Threads)
set(package_of_OpenMP::OpenMP_CXX OpenMP)
set(package_of_JPEG::JPEG JPEG)
set(package_of_PNG::PNG PNG)
set(package_of_dnnl::dnnl dnnl)
set(package_of_DNNL::dnnl dnnl)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/rehearsal)
set(REHEARSAL_ROOM_TABLE "")
foreach(room ${REHEARSAL_ROOMS})
  set(target rehearsal_${room})
  if(NOT TARGET ${target})
    continue()
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY" OR room STREQUAL "cli" OR room STREQUAL "sim")
    continue()
  endif()
  get_target_property(depends ${target} REHEARSAL_DEPENDS)
  get_target_property(vendors ${target} REHEARSAL_LINKED_VENDORS)
  set(packages "")
  foreach(vendor ${vendors})
    if(DEFINED package_of_${vendor})
      list(APPEND packages ${package_of_${vendor}})
    elseif(vendor MATCHES "^PkgConfig::(.+)$")
      list(APPEND packages "pkg-config:${CMAKE_MATCH_1}=${${CMAKE_MATCH_1}_MODULE_NAME}")
    endif()
  endforeach()
  string(REPLACE ";" " " depends "${depends}")
  string(REPLACE ";" " " packages "${packages}")
  string(APPEND REHEARSAL_ROOM_TABLE "set(_rehearsal_${room}_rooms ${depends})\nset(_rehearsal_${room}_packages ${packages})\n")

  install(TARGETS ${target} EXPORT rehearsal-${room} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT rehearsal-${room} NAMESPACE rehearsal:: DESTINATION ${package_folder} COMPONENT development)
  # Headers in subfolders are private to the room unless it is one of those that other rooms read.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rehearsal COMPONENT development
    FILES_MATCHING PATTERN "*.hpp" PATTERN "kernels/*" EXCLUDE PATTERN "onnx" EXCLUDE)
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/rehearsal-config.cmake.in ${PROJECT_BINARY_DIR}/rehearsal-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rehearsal-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rehearsal-config.cmake ${PROJECT_BINARY_DIR}/rehearsal-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)
