// Part of every program of a build with the address sanitizer: whose memory may still be there when a process ends.

/// Open MPI closes its plugins before leaks are looked for, and what a closed library allocated has no name to be known by.
extern "C" int dlclose(void*) { return 0; }

/// Open MPI 4.1 keeps tables of its plugins, and hwloc what it told them of the machine; asprintf hides who asked.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libmpi.so\n"
         "leak:libopen-pal.so\n"
         "leak:libopen-rte.so\n"
         "leak:libpmix.so\n"
         "leak:mca_\n"
         "leak:libhwloc.so\n"
         "leak:__vasprintf_internal\n";
}

extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
