// Package jit compiles users' kernels at run time against goccl's device headers, which are embedded: no CUDA toolkit is needed, only libnvrtc.
//
// A compilation is a pure function of its request and of the compiler, so results are cached by content: in memory for the life of the Compiler, and on
// disk in $GOCCL_CACHE_DIR (default: goccl/kernels in the user's cache folder; "off" keeps nothing on disk). The folder is made with mode 0700 and is
// used only when it belongs to this user and nobody else can write to it; an entry carries the hash of its content and is compiled again when that does
// not match.
//
// A Compiler may be used by several goroutines at once.
package jit
