package main

import (
	"os"
	"regexp"
	"testing"
)

// What goccl version says of interfaces is what the headers and the Python package say.
func TestInterfaces(t *testing.T) {
	for name, file := range map[string]struct{ path, pattern string }{
		"C":       {"capi/goccl.h", `GOCCL_ABI_VERSION (\d+)u`},
		"NCCL":    {"capi/nccl/nccl.h", `(?s)NCCL_MAJOR (\d+).*?NCCL_MINOR (\d+)`},
		"MSCCL++": {"capi/include/mscclpp/version.hpp", `(?s)MSCCLPP_MAJOR (\d+).*?MSCCLPP_MINOR (\d+)`},
	} {
		text, err := os.ReadFile("../../" + file.path)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(file.pattern).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s has no %s", file.path, file.pattern)
		}
		newest := string(m[1])
		if len(m) > 2 {
			newest += "." + string(m[2])
		}
		if interfaces[name][1] != newest {
			t.Errorf("%s: %s, and %s has %s", name, interfaces[name][1], file.path, newest)
		}
	}
}
