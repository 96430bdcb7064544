package main

import (
	"fmt"
	"go/format"
	"regexp"
	"strings"
)

const abiHead = `// %s

package core

import "unsafe"
`

// byHand are the structures for which core has a type that differs.
var byHand = map[string]bool{"goccl_unique_id": true, "goccl_comm_config": true}

// hostArrays are the structures whose pointers to integers are memory of the host, which core reads. All other
// pointers are addresses of the device.
var hostArrays = map[string]bool{"goccl_request": true, "goccl_call_config": true}

// words are those that Go's names do not write as a capital and small letters.
var words = map[string]string{"moe": "MoE", "cta": "CTA", "ctas": "CTAs", "cuda": "CUDA", "id": "ID"}

// goName returns MoESize for moe_size, and CUDAError for CUDA_ERROR.
func goName(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(strings.ToLower(name), "_") {
		if w := words[word]; w != "" {
			word = w
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// enumerations are the enumerations that core has as types, by their first constant: the type, the prefix of the
// constants in C, and the prefix in Go. C's names are in small letters, and without goccl_.
var enumerations = map[string][3]string{
	"success":        {"Result", "", ""},
	"channel_signal": {"ChannelOp", "channel_", "Op"},
}

var (
	enumBodies  = regexp.MustCompile(`enum \{([^}]*)\}`)
	enumerators = regexp.MustCompile(`goccl_(\w+) = (\w+)`)
)

// writeABI returns the structures and the enumerations of the headers for package core.
func writeABI(h *header) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, abiHead, notice)
	for _, m := range enumBodies.FindAllStringSubmatch(h.text, -1) {
		list := enumerators.FindAllStringSubmatch(strings.ToLower(m[1]), -1)
		e, known := enumerations[list[0][1]]
		if !known {
			continue
		}
		fmt.Fprintf(&b, "\n// The values of %s.\nconst (\n", e[0])
		for _, v := range list {
			fmt.Fprintf(&b, "\t%s %s = %s\n", e[2]+goName(strings.TrimPrefix(v[1], e[1])), e[0], v[2])
		}
		b.WriteString(")\n")
	}
	for _, s := range h.structs {
		if byHand[s.name] {
			continue
		}
		name := goName(strings.TrimPrefix(s.name, "goccl_"))
		fmt.Fprintf(&b, "\n// %s is %s.\ntype %s struct {\n", name, s.name, name)
		for _, f := range s.fields {
			fmt.Fprintf(&b, "\t%s %s\n", goName(f.name), h.goType(s.name, f))
		}
		b.WriteString("}\n")
	}
	return format.Source([]byte(b.String()))
}

// goType returns the type of a field of a structure.
func (h *header) goType(structure string, f variable) string {
	base := strings.TrimRight(f.typ, "* ")
	t := strings.TrimSuffix(base, "_t")
	switch pointer := f.typ != base; {
	case pointer && h.structure(base) != nil:
		t = "*" + goName(strings.TrimPrefix(base, "goccl_"))
	case pointer && base == "char":
		t = "*byte" // a C string, or nil
	case pointer && hostArrays[structure] && h.integer(base) != "":
		t = "unsafe.Pointer"
	case pointer:
		t = "uintptr"
	case h.base[base] != "":
		t = "Handle"
	case h.structure(base) != nil:
		t = goName(strings.TrimPrefix(base, "goccl_"))
	case base == "float":
		t = "float32"
	}
	if f.array != "" {
		t = "[" + f.array + "]" + t
	}
	return t
}
