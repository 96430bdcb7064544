package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"slices"
	"strings"
)

const exportsHead = `// %s

//go:build cgo && linux

package main

/*
#include "door.h"
#include "goccl_moe.h"
#include "goccl_primitive.h"
*/
import "C"

import (
	"time"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/primitive"
)
`

// readers are types of core that a function of package capi makes of a C argument, or refuses.
var readers = map[string]string{"Config": "configOf", "*Config": "childConfig"}

// states are the types of core for a communicator's handle, by what a call needs.
var states = []string{"Ready", "Open", "Active"}

// exports writes zz_exports.go.
type exports struct {
	strings.Builder
	h     *header
	core  *core
	pairs [][2]string // structures of core and of C that must have the same layout
}

func writeExports(h *header, c *core) ([]byte, error) {
	e := &exports{h: h, core: c}
	fmt.Fprintf(e, exportsHead, notice)
	for _, f := range h.functions {
		if !f.calls() || slices.ContainsFunc(f.params, variable.callback) {
			continue
		}
		if err := e.export(f); err != nil {
			return nil, fmt.Errorf("goccl_%s: %w", f.name, err)
		}
	}
	if err := e.layouts(); err != nil {
		return nil, err
	}
	return format.Source([]byte(e.String()))
}

// export writes one function.
func (e *exports) export(f function) error {
	g, ok := e.core.functions[strings.ReplaceAll(f.name, "_", "")]
	if !ok {
		return fmt.Errorf("package core has no function of this name that returns an error")
	}
	var params []string
	for _, p := range f.params {
		params = append(params, p.name+"_ "+e.cgo(p))
	}
	fmt.Fprintf(e, "\n//export gocclgo_%s\nfunc gocclgo_%s(%s) (r_ C.goccl_result) {\n\tdefer catch(&r_)\n",
		f.name, f.name, strings.Join(params, ", "))
	in := &reader{e: e, rest: f.params}
	var args []string
	for _, t := range g.params {
		a, err := in.next(t)
		if err != nil {
			return err
		}
		args = append(args, a)
	}
	call := fmt.Sprintf("%s(%s)", g.name, strings.Join(args, ", "))
	if !strings.Contains(g.name, ".") {
		call = "core." + call
	}
	if err := e.results(call, g, in.rest); err != nil {
		return err
	}
	e.WriteString("}\n")
	return nil
}

// cgo returns the type of a parameter in a file with cgo.
func (e *exports) cgo(p variable) string {
	base := strings.TrimRight(p.typ, "* ")
	stars := strings.Count(p.typ, "*")
	if p.array != "" {
		stars++
	}
	if base == "void" {
		return strings.Repeat("*", stars-1) + "unsafe.Pointer"
	}
	return strings.Repeat("*", stars) + "C." + base
}

// reader reads the C parameters of a function in their order.
type reader struct {
	e    *exports
	rest []variable
}

func (r *reader) take() (variable, error) {
	if len(r.rest) == 0 {
		return variable{}, fmt.Errorf("the function of core has more parameters")
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v, nil
}

// next returns the expression for the next parameter of core, which has type t.
func (r *reader) next(t string) (string, error) {
	if t == "context.Context" {
		i := slices.IndexFunc(r.rest, func(v variable) bool { return strings.HasPrefix(v.name, "timeout") })
		if i < 0 {
			return "", fmt.Errorf("there is no timeout for a context")
		}
		fmt.Fprintf(r.e, "\tctx, cancel := core.StepContext(time.Duration(%s_))\n\tdefer cancel()\n", r.rest[i].name)
		r.rest = slices.Concat(r.rest[:i], r.rest[i+1:])
		return "ctx", nil
	}
	v, err := r.take()
	if err != nil {
		return "", err
	}
	x, e := v.name+"_", r.e
	switch {
	case readers[t] != "":
		fmt.Fprintf(e, "\tc_, err_ := %s(%s)\n\tif err_ != nil {\n\t\treturn result(err_)\n\t}\n", readers[t], x)
		return "c_", nil
	case e.isObject(v, t), t == "device.Device":
		found, inside := v.name+"Object", ""
		if t == "device.Device" {
			t, inside = "*Device", ".Device"
		}
		fmt.Fprintf(e, "\t%s, err := core.Find[%s](core.Handle(%s))\n", found, e.qualified(t), x)
		e.WriteString("\tif err != nil {\n\t\treturn result(err)\n\t}\n")
		return found + inside, nil
	case t == "bool":
		return x + " != 0", nil
	case t == "string":
		return "C.GoString(" + x + ")", nil
	case t == "unsafe.Pointer":
		return x, nil
	case strings.HasPrefix(t, "[]"):
		n, err := r.take()
		if err != nil {
			return "", err
		}
		if e.h.integer(v.typ) != "" { // the length comes first
			v, n = n, v
		}
		if t == "[]string" {
			return fmt.Sprintf("stringsOf(%s_, %s_)", v.name, n.name), nil
		}
		e.pair(t[2:], v.typ)
		return fmt.Sprintf("slice[%s](unsafe.Pointer(%s_), int(%s_))", e.qualified(t[2:]), v.name, n.name), nil
	case t[0] == '*':
		e.pair(t[1:], v.typ)
		return fmt.Sprintf("(*%s)(unsafe.Pointer(%s))", e.qualified(t[1:]), x), nil
	case strings.HasSuffix(v.typ, "*") && t != "uintptr":
		e.pair(t, v.typ)
		return fmt.Sprintf("value[%s](unsafe.Pointer(%s), %q)", e.qualified(t), x, v.name), nil
	}
	return fmt.Sprintf("%s(%s)", e.qualified(t), x), nil
}

// results writes the call and what stores its results at the last parameters.
func (e *exports) results(call string, g coreFunction, out []variable) error {
	types := g.results
	switch {
	case len(types) == 1 && types[0] == "[]byte" && len(out) == 2:
		fmt.Fprintf(e, "\treturn giveBytes(%s_, %s_)(%s)\n", out[0].name, out[1].name, call)
		return nil
	case len(types) != len(out):
		return fmt.Errorf("%d parameters are left for %d results", len(out), len(types))
	case len(types) == 0 && !g.fails:
		fmt.Fprintf(e, "\t%s\n\treturn C.GOCCL_SUCCESS\n", call)
		return nil
	case len(types) == 0:
		fmt.Fprintf(e, "\treturn result(%s)\n", call)
		return nil
	case strings.HasPrefix(types[0], "*primitive.Future["):
		fmt.Fprintf(e, "\treturn give(%s_)(core.Add(core.Later(%s), nil))\n", out[0].name, call)
		return nil
	case e.isObject(out[0], types[0]):
		fmt.Fprintf(e, "\treturn give(%s_)(core.Add(%s))\n", out[0].name, call)
		return nil
	case types[0] == "Handle":
		fmt.Fprintf(e, "\treturn give(%s_)(%s)\n", out[0].name, call)
		return nil
	case types[0] == "[]Handle":
		fmt.Fprintf(e, "\treturn giveAll(unsafe.Pointer(%s_))(%s)\n", out[0].name, call)
		return nil
	}
	var names []string
	for i := range out {
		names = append(names, fmt.Sprintf("v%d", i))
	}
	if g.fails {
		fmt.Fprintf(e, "\t%s, err := %s\n\tif err != nil {\n\t\treturn result(err)\n\t}\n", strings.Join(names, ", "), call)
	} else {
		fmt.Fprintf(e, "\t%s := %s\n", strings.Join(names, ", "), call)
	}
	for i, v := range out {
		base := strings.TrimSpace(strings.TrimSuffix(v.typ, "*"))
		switch {
		case types[i] == "bool":
			fmt.Fprintf(e, "\tstore(%s_, truth(%s))\n", v.name, names[i])
		case e.h.structure(base) != nil:
			e.pair(types[i], v.typ)
			fmt.Fprintf(e, "\tstore((*%s)(unsafe.Pointer(%s_)), %s)\n", e.qualified(types[i]), v.name, names[i])
		case base == "void *":
			fmt.Fprintf(e, "\tstore((*%s)(unsafe.Pointer(%s_)), %s)\n", types[i], v.name, names[i])
		default:
			fmt.Fprintf(e, "\tstore(%s_, C.%s(%s))\n", v.name, base, names[i])
		}
	}
	e.WriteString("\treturn C.GOCCL_SUCCESS\n")
	return nil
}

// isObject says whether a parameter is a handle in C and the object itself in core.
func (e *exports) isObject(v variable, t string) bool {
	return e.h.base[strings.TrimRight(v.typ, "* ")] != "" && (t[0] == '*' || slices.Contains(states, t))
}

// qualified returns a type of core, or a pointer to one, as another package writes it.
func (e *exports) qualified(t string) string {
	if name := strings.TrimPrefix(t, "*"); ast.IsExported(name) {
		return t[:len(t)-len(name)] + "core." + name
	}
	return t
}

// pair notes that a structure of core is read from, or written to, a structure of C.
func (e *exports) pair(goType, cType string) {
	c := strings.TrimRight(cType, "* ")
	p := [2]string{goType, c}
	if e.core.structs[goType] == nil || e.h.structure(c) == nil || slices.Contains(e.pairs, p) {
		return
	}
	e.pairs = append(e.pairs, p)
	for i, f := range e.h.structure(c).fields {
		if own := e.core.structs[goType]; i < len(own) {
			e.pair(strings.TrimPrefix(own[i].typ, "*"), f.typ)
		}
	}
}

// layouts writes comparisons of the structures: an array has no negative length, so a difference does not compile.
func (e *exports) layouts() error {
	e.WriteString("\n// The structures of core are laid out as the structures of the headers.\nvar (\n")
	for _, p := range e.pairs {
		fields, own := e.h.structure(p[1]).fields, e.core.structs[p[0]]
		if len(fields) != len(own) {
			return fmt.Errorf("%s has %d fields, core.%s has %d", p[1], len(fields), p[0], len(own))
		}
		fmt.Fprintf(e, "\t_ [C.sizeof_%s]struct{} = [unsafe.Sizeof(core.%s{})]struct{}{}\n", p[1], p[0])
		for i, f := range fields {
			name := f.name
			if name == "type" {
				name = "_type" // as cgo has it
			}
			fmt.Fprintf(e, "\t_ [unsafe.Offsetof(C.%s{}.%s)]struct{} = [unsafe.Offsetof(core.%s{}.%s)]struct{}{}\n", p[1], name,
				p[0], own[i].name)
		}
	}
	e.WriteString(")\n")
	return nil
}
