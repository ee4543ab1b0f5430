#include "textflag.h"

// func exitOK(): exit_group(0), system call 94.
TEXT ·exitOK(SB), NOSPLIT|NOFRAME, $0-0
	MOVD $94, R8
	MOVD $0, R0
	SVC
	RET

// func exitOKAddr() uintptr
TEXT ·exitOKAddr(SB), NOSPLIT, $0-8
	MOVD $·exitOK(SB), R0
	MOVD R0, ret+0(FP)
	RET
