// In place of the header that CK's own build writes: every element type and no kernel family left out.

#pragma once

#define CK_ENABLE_INT8 ON
#define CK_ENABLE_FP8 ON
#define CK_ENABLE_BF8 ON
#define CK_ENABLE_FP16 ON
#define CK_ENABLE_BF16 ON
#define CK_ENABLE_FP32 ON
#define CK_ENABLE_FP64 ON
