// The release of MSCCL++ whose names these headers have. goccl's own version is mscclpp::version().
#pragma once

#define MSCCLPP_MAJOR 0
#define MSCCLPP_MINOR 9
#define MSCCLPP_PATCH 0
#define MSCCLPP_VERSION (MSCCLPP_MAJOR * 10000 + MSCCLPP_MINOR * 100 + MSCCLPP_PATCH)
#define MSCCLPP_GIT_COMMIT ""
