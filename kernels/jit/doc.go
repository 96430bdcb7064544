// Package jit compiles users' kernels at run time against goccl's device headers, which are embedded. It needs
// libnvrtc, but no CUDA toolkit.
//
// A compilation is a pure function of its request, of the files that it includes and of the compiler, so results are
// cached by content: in memory for the life of the Compiler, and on disk in $GOCCL_CACHE_DIR (default: goccl/kernels in
// the user's cache folder; "off" disables the disk cache). The folder is made with mode 0700 and is used only if it
// belongs to this user and no other user can write to it. An entry includes the hash of its content and is compiled
// again if the hash does not match.
//
// Several goroutines may use a Compiler at once.
package jit
