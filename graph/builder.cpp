#include "graph/builder.hpp"
namespace rehearsal::graph {}
