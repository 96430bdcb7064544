// Command driver writes what repeats other code of package internal/driver and of the packages below it. `go generate
// ./internal/driver` runs it.
//
//	zz_calls.go     the Go functions of the calls
//	zz_calls.h      the numbers of the operations, and the C code that makes the calls
//	zz_nocgo.go     what stands for a package in builds without cgo
//	zz_functions.go the numbers and the names of the functions of ncclabi/abi.h
//	zz_declared.h   the C functions of a folder that Go calls
//
// A call is one line of a Go comment, behind the documentation of the function:
//
//	//cu:call (c Context) MemInfo() (free, total int64) = cuMemGetInfo_v2(free, total)
//
// The function of the driver gets parameters of the Go function, numbers and names of api.h; it stores a result where a
// result of the Go function is named. The types of api.h say how all are converted. The lines differ in this:
//
//   - cu:queue in place of cu:call: the call is ordered on a stream, and runs in the thread's capture mode.
//   - = gone cuMemFree_v2(p): errors during the driver's shutdown are none.
//   - = vmm_free(a): a function of dispatch.c, which finds the parameters in a and leaves the results there.
//   - DeviceName = cuDeviceGetName(p, a1, a0): without parameters there is only the operation, and the Go function is
//     written by hand: a0, a1, … are its arguments, r0, r1, … its results, p and q its bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the folder of package driver")
	flag.Parse()
	files, err := generate(*root)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(*root, name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// generate returns the files by their names.
func generate(root string) (map[string][]byte, error) {
	api, err := os.ReadFile(filepath.Join(root, "api.h"))
	if err != nil {
		return nil, err
	}
	calls, err := readCalls(root)
	if err != nil {
		return nil, err
	}
	c, err := writeC(calls, prototypes(string(api)))
	if err != nil {
		return nil, err
	}
	files, err := noCgo(root)
	if err != nil {
		return nil, err
	}
	files["zz_calls.h"] = c
	abi, err := os.ReadFile(filepath.Join(root, "ncclabi", "abi.h"))
	if err != nil {
		return nil, err
	}
	if files["ncclabi/zz_functions.go"], err = writeFunctions(string(abi)); err != nil {
		return nil, err
	}
	for _, folder := range []string{"verbs", "ncclnet"} {
		if files[folder+"/zz_declared.h"], err = declarations(filepath.Join(root, folder)); err != nil {
			return nil, err
		}
	}
	files["zz_calls.go"], err = writeGo(calls)
	return files, err
}
