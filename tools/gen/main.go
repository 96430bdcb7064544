// Command gen writes what repeats the declarations of goccl.h, goccl_moe.h and goccl_primitive.h: the C functions that
// enter Go (capi/zz_functions.h), the Go functions behind them (capi/zz_exports.go), the structures and enumerations of
// package core (capi/internal/core/zz_abi.go), the symbols of libgoccl.so (capi/libgoccl.map), and the signatures and
// structures for Python (python/goccl/_abi.py), and the exceptions of results (python/goccl/errors.py); and from
// nccl/calls.h the collectives of libnccl.so.2 (capi/nccl/zz_collectives.h), of its files the list of its functions
// (capi/nccl/api.h), and of the headers of namespace goccl those
// of namespace mscclpp that only repeat their names (capi/include/mscclpp), and of nccl.h the constants of nccl4py
// (python/goccl/nccl/_constants.py). `go generate ./capi` runs it.
//
// The function goccl_a_b of a header is the Go function AB of package core, in which GocclAB, ABID and the like are the
// same name: case does not count. The parameters of the Go function say how the parameters of the C function are read,
// in their order: []T takes a pointer and a length, time.Duration nanoseconds; a type for which C has a handle takes
// the object of the handle. A context ends with the timeout, wherever C has it. Results are stored at the pointers that
// end the C parameters, objects as new handles. A structure of core has the fields of the C structure; the generated
// code compares their offsets when it is compiled.
//
// A function that takes a C function is written by hand: see capi/export.go.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// abiFile is the file of package core that is generated.
const abiFile = "zz_abi.go"

// headers are the declarations, in the order in which they include each other.
var headers = []string{"goccl.h", "goccl_moe.h", "goccl_primitive.h"}

func main() {
	root := flag.String("root", ".", "the folder of capi")
	flag.Parse()
	files, err := generate(*root)
	for path, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(*root, path), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate returns the files by their paths below capi.
func generate(root string) (map[string][]byte, error) {
	h, err := readHeaders(root)
	if err != nil {
		return nil, err
	}
	abi, err := writeABI(h)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join("internal", "core")
	core, err := readCore(filepath.Join(root, folder), filepath.Join(root, "..", "primitive"),
		filepath.Join(root, "..", "job", "bootstrap"), abi)
	if err != nil {
		return nil, err
	}
	exports, err := writeExports(h, core)
	if err != nil {
		return nil, err
	}
	collectives, err := writeCollectives(root)
	if err != nil {
		return nil, err
	}
	api, err := writeAPI(root)
	if err != nil {
		return nil, err
	}
	constants, err := writeConstants(root)
	if err != nil {
		return nil, err
	}
	files, err := writeNames(root)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, map[string][]byte{
		filepath.Join(folder, abiFile): abi,
		"zz_functions.h":               writeFunctions(h),
		"zz_exports.go":                exports,
		"nccl/zz_collectives.h":        collectives,
		"nccl/api.h":                   api,
		"libgoccl.map":                 writeMap(h),
		"../python/goccl/_abi.py":      writePython(h, core),
		"../python/goccl/errors.py":    writeErrors(h),

		"../python/goccl/nccl/_constants.py": constants,
	})
	return files, nil
}
