// A module as librehearsal_cuda.so is where one of NVIDIA's libraries is not installed.
extern "C" int rehearsal_absent();
extern "C" int rehearsal_make_cuda_backend() { return rehearsal_absent(); }
