#include "graph/training.hpp"

namespace rehearsal::graph {}
