package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// forwarded are the headers of mscclpp that only give names of goccl's: which headers they include, and the headers of
// goccl whose names they give.
var forwarded = map[string]struct{ includes, of []string }{
	"algorithm.hpp": {
		[]string{"goccl/algorithm_collection.hpp", "mscclpp/executor.hpp", "mscclpp/memory_channel.hpp",
			"mscclpp/port_channel.hpp", "mscclpp/switch_channel.hpp", "mscclpp/utils.hpp"},
		[]string{"algorithm_table.hpp", "algorithm.hpp", "algorithm_collection.hpp", "data_type.hpp"},
	},
	"core.hpp": {
		[]string{"goccl/core.hpp", "mscclpp/errors.hpp", "mscclpp/gpu_data_types.hpp"},
		[]string{"transport.hpp", "bootstrap.hpp", "context.hpp", "communicator.hpp"},
	},
	"env.hpp":    {[]string{"goccl/env.hpp"}, []string{"env.hpp"}},
	"errors.hpp": {[]string{"goccl/errors.hpp"}, []string{"errors.hpp"}},
	"executor.hpp": {
		[]string{"goccl/executor.hpp", "mscclpp/core.hpp", "mscclpp/gpu.hpp"}, []string{"executor.hpp", "data_type.hpp"},
	},
	"gpu_buffer.hpp": {[]string{"goccl/gpu_buffer.hpp"}, []string{"gpu_buffer.hpp"}},
	"utils.hpp":      {[]string{"goccl/utils.hpp", "mscclpp/core.hpp"}, []string{"utils.hpp"}},
}

// withDetails are those whose namespace detail programs for MSCCL++ use.
var withDetails = []string{"gpu_buffer.hpp", "utils.hpp"}

var (
	cppNamespace = regexp.MustCompile(`^(}  // )?namespace (\w+)`)
	cppNames     = []*regexp.Regexp{ // what begins a line: types, enumerators, constants, functions
		regexp.MustCompile(`^(?:class|struct|enum class|enum|using) (\w+)`),
		regexp.MustCompile(`^enum \w+ \{ (.*) \};`),
		regexp.MustCompile(`^(?:inline )?const(?:expr)? .*?(\w+)(?:\[\])? ?[={]`),
		regexp.MustCompile(`^[^(/#=]*[ &*](operator\W|\w+)\(`),
	}
	cppValue = regexp.MustCompile(` = \d+`)
)

// declaredIn returns the names that a line of a header of C++ declares in its namespace.
func declaredIn(line string) (names []string) {
	for _, r := range cppNames {
		if m := r.FindStringSubmatch(line); m != nil && !strings.HasPrefix(line, " ") {
			names = append(names, strings.Split(cppValue.ReplaceAllString(m[1], ""), ", ")...)
		}
	}
	return names
}

// writeNames returns the headers of mscclpp that are forwarded.
func writeNames(root string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for file, f := range forwarded {
		var names, details []string
		for _, from := range f.of {
			text, err := os.ReadFile(filepath.Join(root, "include", "goccl", from))
			if err != nil {
				return nil, err
			}
			inside := []string{}
			for line := range strings.Lines(string(text)) {
				if m := cppNamespace.FindStringSubmatch(line); m != nil {
					if inside = append(inside, m[2]); m[1] != "" {
						inside = inside[:len(inside)-2]
					}
				} else if slices.Equal(inside, []string{"goccl"}) {
					names = append(names, declaredIn(line)...)
				} else if slices.Contains(withDetails, file) {
					details = append(details, declaredIn(line)...)
				}
			}
		}
		var b strings.Builder
		fmt.Fprintf(&b, "// %s\n#pragma once\n\n", notice)
		for _, i := range f.includes {
			fmt.Fprintf(&b, "#include <%s>\n", i)
		}
		b.WriteString("\nnamespace mscclpp {\n")
		for _, n := range sorted(names) {
			fmt.Fprintf(&b, "using goccl::%s;\n", n)
		}
		if details != nil {
			b.WriteString("namespace detail {\n")
			for _, n := range sorted(details) {
				fmt.Fprintf(&b, "using goccl::detail::%s;\n", n)
			}
			b.WriteString("}\n")
		}
		b.WriteString("}  // namespace mscclpp\n")
		out[filepath.Join("include", "mscclpp", file)] = []byte(b.String())
	}
	return out, nil
}

// sorted returns each name once, in alphabetical order.
func sorted(names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
	})
	return slices.Compact(names)
}
