# `cpack -G DEB` in a build folder: one Debian package of the program and the modules that it opens. scripts/package tries it.

set(CPACK_PACKAGE_NAME rehearsal)
set(CPACK_PACKAGE_CONTACT "The maintainers of Rehearsal")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "what training a neural network costs on a cluster, the plan that costs least, and its run")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(REHEARSAL_EXECUTION)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS mpi-default-bin)  # `calibrate` and `run` start ranks by mpirun
endif()
include(CPack)
