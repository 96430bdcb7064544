// The functions of <math.h> are built into NVRTC.
#pragma once
