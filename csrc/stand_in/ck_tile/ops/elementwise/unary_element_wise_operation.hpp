// AITER's sources name this header and use nothing of it.
#pragma once
