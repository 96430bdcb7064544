package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const apiHead = `/* %s
 *
 * NCCL's host functions, one per line: NCCL_API(result, name, parameters); NCCL_LACKS(feature, name, parameters) where
 * the function refuses, because goccl has no such feature. nccl.h declares its functions with this list, and the test
 * of exported symbols uses it. */
`

// shims are the files of libnccl.so.2 with functions of NCCL's, in the order of api.h, and their headings there.
var shims = [][2]string{{"load.c", "The library"}, {"comm.c", "Communicators, and their teams"},
	{"memory.c", "Memory, registration and operators"}, {"window.c", "Windows and one-sided operations"},
	{"collective.c", "Collectives"}, {"group.c", "Groups"}, {"device.c", "The host half of the device API"},
	{"unsupported.c", "What goccl lacks: docs/nccl-migration.md"}}

// definition is a function of NCCL's: by a macro of shim.h or of its file, or as it is.
var definition = regexp.MustCompile(`(?m)^(?:(NCCL|TELLS|LACKS)\((?:([A-Z]+), )?(\w+), ([^()]*)\)|` +
	`((?:const )?\w+ \*?)pnccl(\w+)\(([^()]*)\) \{)`)

// writeAPI returns api.h: the calls of calls.h, and the functions that the files of the library define.
func writeAPI(root string) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, apiHead, notice)
	for _, shim := range shims {
		text, err := os.ReadFile(filepath.Join(root, "nccl", shim[0]))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n/* %s */\n", shim[1])
		if shim[0] == "collective.c" {
			calls, err := os.ReadFile(filepath.Join(root, "nccl", "calls.h"))
			if err != nil {
				return nil, err
			}
			_, list, _ := strings.Cut(string(calls), "\n\n")
			b.WriteString(list)
		}
		for _, m := range definition.FindAllStringSubmatch(string(text), -1) {
			macro, name, params := "NCCL_API(ncclResult_t", m[3], m[4]
			switch {
			case m[1] == "TELLS":
				params = "const ncclComm_t comm, int *out"
			case m[1] == "LACKS":
				macro = "NCCL_LACKS(" + m[2]
			case m[1] == "":
				macro, name, params = "NCCL_API("+strings.TrimSpace(m[5]), m[6], m[7]
			}
			list := append([]string{macro, "nccl" + name}, splitList(spaces.ReplaceAllString(params, " "))...)
			fmt.Fprintf(&b, "%s)\n", wrap(list))
		}
	}
	return []byte(b.String()), nil
}
