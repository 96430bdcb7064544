// The frame of all vector kernels. Each is a Go function
//
//	func(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
//
// that reduces nsrc >= 1 sources of n bytes into dst, one block at a time. A block is read from all sources before it
// is written, so dst may be a source. n is a multiple of the kernel's last, smallest block.
//
//	DI dst   SI first slice header (24 bytes apart, the pointer first)   CX nsrc   BX offset of the block   DX bytes left
//	R9 current slice header   R10 sources left   R8 address in the source

// PROLOGUE sets the flags of DX - blockBytes: JLT to the small blocks when no whole large one is left.
#define PROLOGUE(blockBytes) \
	MOVQ dst+0(FP), DI; \
	MOVQ srcs+8(FP), SI; \
	MOVQ nsrc+16(FP), CX; \
	MOVQ n+24(FP), DX; \
	XORQ BX, BX; \
	CMPQ DX, $blockBytes

// FIRST points R8 at the first source's part of the block and starts the iteration over the others; NEXT moves to the
// next.
#define FIRST \
	MOVQ (SI), R8; \
	ADDQ BX, R8; \
	LEAQ 24(SI), R9; \
	MOVQ CX, R10

#define NEXT \
	MOVQ (R9), R8; \
	ADDQ BX, R8; \
	ADDQ $24, R9

// ADVANCE moves past a block; JGE jumps to another one of this size.
#define ADVANCE(blockBytes) \
	ADDQ $blockBytes, BX; \
	SUBQ $blockBytes, DX; \
	CMPQ DX, $blockBytes
