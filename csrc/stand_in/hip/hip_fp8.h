// What AITER's sources use of this header is in narrow_floats.hpp.
#pragma once

#include "../narrow_floats.hpp"
