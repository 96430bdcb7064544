// malloc and free are built into NVRTC.
#pragma once
