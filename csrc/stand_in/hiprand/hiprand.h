// What AITER's sources use of this header is in philox.hpp.
#pragma once

#include "../philox.hpp"
