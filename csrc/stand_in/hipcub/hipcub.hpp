// What AITER's sources use of this header is in blocks.hpp.
#pragma once

#include "../blocks.hpp"
