// A library that modules are linked with and that is then not found.
extern "C" int rehearsal_absent() { return 1; }
