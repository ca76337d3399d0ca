#include "graph/gradient.hpp"
namespace rehearsal::graph {}
