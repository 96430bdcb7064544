package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// letters are the types of parameters in the signatures of _abi.py, ctypes the types of fields.
var (
	letters = map[string]string{"int32_t": "i", "uint32_t": "u", "int64_t": "l", "uint64_t": "Q", "uintptr_t": "Q"}
	ctypes  = map[string]string{"int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64",
		"uintptr_t": "c_size_t", "uint16_t": "c_uint16", "float": "c_float", "char *": "c_char_p",
		"unsigned char": "c_ubyte"}
)

const pythonHead = `# %s
"""The signatures and the structures of goccl's headers."""

from ctypes import c_char_p, c_float, c_int32, c_int64, c_size_t, c_ubyte, c_uint16, c_uint32, c_uint64, c_void_p

from ._checked import Structure

# One letter for each parameter: i int32, u uint32, l int64, Q uint64, an address or a handle, p pointer, s string.
# Behind > are the results, which the C function stores at its last parameters: b is an array of bytes and its
# length. All functions return a goccl_result.
SIGNATURES = {
`

const errorsHead = `# %s
"""Exceptions. Each carries the Go error's text; its class is the error's kind, and ` + "``code``" + ` the goccl_result
of goccl.h."""

from ._error import ErrorCode, GocclError
from ._error import from_result as from_result

__all__ = [
    %s,
]
`

// bases are the further base classes of exceptions.
var bases = map[string]string{"SysError": "OSError", "InvalidArgument": "ValueError", "PeerDead": "ConnectionError",
	"Timeout": "TimeoutError", "Unsupported": "NotImplementedError", "OutOfMemory": "MemoryError"}

// writeErrors returns the exceptions.
func writeErrors(h *header) []byte {
	var b strings.Builder
	all := []string{`"ErrorCode"`, `"GocclError"`}
	for _, r := range h.results {
		name := strings.Replace(className(strings.ToLower(r[1])), "System", "Sys", 1)
		parents := "GocclError"
		if bases[name] != "" {
			parents += ", " + bases[name]
		}
		fmt.Fprintf(&b, "\n\nclass %s(%s, code=%s):\n    \"\"\"%s.\"\"\"\n", name, parents, r[2],
			strings.ToUpper(r[3][:1])+r[3][1:])
		all = append(all, fmt.Sprintf("%q", name))
	}
	return []byte(fmt.Sprintf(errorsHead, notice, strings.Join(all, ",\n    ")) + b.String())
}

const constantsHead = `# %s
"""Element types and operators under nccl4py's names."""

from typing import Final

from .._types import DataType, ReduceOp

__all__ = [
    %s,
]

NcclDataType = DataType
NcclRedOp = ReduceOp
`

// ncclEnums are the enumerations of nccl.h for which Python has types, and ncclNames their names.
var (
	ncclEnums = regexp.MustCompile(`typedef enum \{([^}]*)\} nccl(DataType|RedOp)_t;`)
	ncclNames = regexp.MustCompile(`nccl(\w+) = (\d+)`)
)

// writeConstants returns the constants of nccl4py, by the enumerations of nccl.h.
func writeConstants(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, "nccl", "nccl.h"))
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	var all []string
	for _, enum := range ncclEnums.FindAllStringSubmatch(string(text), -1) {
		first := map[string]string{} // the first name of a number
		for _, m := range ncclNames.FindAllStringSubmatch(enum[1], -1) {
			name, value := m[1], m[2]
			if strings.HasPrefix(name, "Num") || name == "MaxRedOp" {
				continue
			}
			if first[value] == "" {
				first[value] = "ReduceOp." + strings.ToUpper(name)
				if enum[2] == "DataType" {
					first[value] = "DataType." + strings.Replace(strings.ToLower(name), "float8e", "float8_e", 1)
				}
			}
			fmt.Fprintf(&b, "%s: Final = %s\n", strings.ToUpper(name), first[value])
			all = append(all, fmt.Sprintf("%q", strings.ToUpper(name)))
		}
	}
	all = append(all, `"DataType"`, `"ReduceOp"`, `"NcclDataType"`, `"NcclRedOp"`)
	return []byte(fmt.Sprintf(constantsHead, notice, strings.Join(all, ",\n    ")) + b.String()), nil
}

func writePython(h *header, c *core) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, pythonHead, notice)
	for _, f := range h.functions {
		if !f.calls() {
			continue
		}
		signature := ""
		in, out := h.divide(f, c.functions[strings.ReplaceAll(f.name, "_", "")].results)
		for _, p := range in {
			switch letter := letters[h.integer(p.typ)]; {
			case letter != "" && p.array == "":
				signature += letter
			case p.typ == "char *":
				signature += "s"
			default:
				signature += "p"
			}
		}
		if out != "" {
			signature += ">" + out
		}
		fmt.Fprintf(&b, "    %q: %q,\n", f.name, signature)
	}
	b.WriteString("}\n")
	for _, s := range h.structs {
		fmt.Fprintf(&b, "\n\nclass %s(Structure):\n    _fields_ = [\n", className(s.name))
		for _, f := range s.fields {
			fmt.Fprintf(&b, "        (%q, %s),\n", f.name, h.ctype(f))
		}
		b.WriteString("    ]\n")
	}
	return []byte(b.String())
}

// divide returns the parameters that a caller in Python passes, and the letters of those at which the function stores
// its results: the integers, or the bytes, that end the parameters.
func (h *header) divide(f function, results []string) (in []variable, out string) {
	in = f.params
	if len(results) == 1 && results[0] == "[]byte" {
		return in[:len(in)-2], "b"
	}
	for ; len(results) > 0; results = results[:len(results)-1] {
		last := strings.TrimSpace(strings.TrimSuffix(in[len(in)-1].typ, "*"))
		letter := letters[h.integer(last)]
		if last == "void *" {
			letter = letters["uintptr_t"]
		}
		if letter == "" || strings.HasPrefix(results[len(results)-1], "[]") {
			break
		}
		in, out = in[:len(in)-1], letter+out
	}
	return in, out
}

// className returns MoeSize for goccl_moe_size.
func className(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(strings.TrimPrefix(name, "goccl_"), "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func (h *header) ctype(f variable) string {
	typ := f.typ
	if i := h.integer(typ); i != "" {
		typ = i
	}
	t := ctypes[typ]
	switch {
	case t != "":
	case h.structure(typ) != nil:
		t = className(typ)
	default:
		t = "c_void_p"
	}
	if f.array != "" {
		t += " * " + f.array
	}
	return t
}
