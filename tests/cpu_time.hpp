#pragma once
#include <ctime>

/// Processor time of this process since it began, in seconds: a limit on it holds however busy the machine is.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
