#include "textflag.h"

// func pause(n int)
TEXT ·pause(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0
loop:
	CMP  $0, R0
	BLE  done
	YIELD
	SUB  $1, R0
	B    loop
done:
	RET
