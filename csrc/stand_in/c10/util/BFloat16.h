// AITER's sources name this header; what they use of it is in torch_names.hpp.
#pragma once

#include "../../torch_names.hpp"
