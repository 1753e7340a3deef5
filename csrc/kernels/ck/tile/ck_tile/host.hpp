// In the place of ck_tile's own, which includes all that its host code needs (files, threads): a kernel needs no more than this.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
