// AITER's sources name this header; what they use of it is in tile.hpp.
#pragma once
#include "../tile.hpp"
