// printf is built into NVRTC.
#pragma once
