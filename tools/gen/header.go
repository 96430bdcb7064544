package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// header is what the headers declare, in their order.
type header struct {
	text      string            // without comments and directives
	base      map[string]string // typedef'ed integers, such as goccl_comm: uint64_t
	structs   []structure
	functions []function
	results   [][]string // of goccl_result but success: the text, the name, the number and the comment
}

type structure struct {
	name   string
	fields []variable
}

type function struct {
	result, name string // without the prefix goccl_
	params       []variable
}

// calls says whether the function enters Go: the others are written in C.
func (f function) calls() bool { return f.result == "goccl_result" }

// variable is a parameter or a field.
type variable struct {
	text  string // as declared
	typ   string // without const and struct: "uint64_t", "void **"
	name  string
	array string // the length, or ""
}

// callback says whether it is a pointer to a function.
func (v variable) callback() bool { return strings.Contains(v.text, "(*") }

// readOnly says whether the declared type has a const, which types in Go do not have.
func (v variable) readOnly() bool { return strings.Contains(v.text, "const ") }

var (
	comments   = regexp.MustCompile(`(?s)/\*.*?\*/`)
	spaces     = regexp.MustCompile(`\s+`)
	directives = regexp.MustCompile(`(?m)^#.*$`)
	aliases    = regexp.MustCompile(`typedef (u?int\d+_t) (goccl_\w+);`)
	bodies     = regexp.MustCompile(`typedef struct (goccl_\w+) \{([^}]*)\}`)
	prototypes = regexp.MustCompile(`(?:^|[;{}]) ?((?:const )?\w+ \*?)goccl_(\w+)\(([^;]*)\);`)
	declarator = regexp.MustCompile(`^(.*?)(\w+)(?:\[(\w+)\])?$`)
	pointer    = regexp.MustCompile(`\(\*(\w+)\)`)
	failures   = regexp.MustCompile(`(?m)^\tGOCCL_(\w+) = (\d+),?\s+/\* (.*) \*/$`)
)

func readHeaders(root string) (*header, error) {
	h := &header{base: map[string]string{}}
	for _, name := range headers {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		h.results = append(h.results, failures.FindAllStringSubmatch(string(b), -1)...)
		text := directives.ReplaceAllString(comments.ReplaceAllString(string(b), ""), "")
		text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
		for _, m := range aliases.FindAllStringSubmatch(text, -1) {
			h.base[m[2]] = m[1]
		}
		for _, m := range bodies.FindAllStringSubmatch(text, -1) {
			h.structs = append(h.structs, structure{m[1], fields(m[2])})
		}
		h.prototypes(text)
		h.text += text
	}
	if len(h.functions) == 0 || len(h.structs) == 0 {
		return nil, fmt.Errorf("%s: no functions or no structures found in %v", root, headers)
	}
	return h, nil
}

// prototypes reads the functions. A match ends where the next may begin.
func (h *header) prototypes(text string) {
	for {
		m := prototypes.FindStringSubmatchIndex(text)
		if m == nil {
			return
		}
		f := function{result: strings.TrimSpace(text[m[2]:m[3]]), name: text[m[4]:m[5]]}
		if list := text[m[6]:m[7]]; list != "void" {
			for _, p := range splitList(list) {
				f.params = append(f.params, declared(p))
			}
		}
		h.functions = append(h.functions, f)
		text = text[m[1]-1:]
	}
}

// splitList splits at commas outside of parentheses.
func splitList(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		}
	}
	return append(out, strings.TrimSpace(s[from:]))
}

func declared(text string) variable {
	v := variable{text: text}
	if m := pointer.FindStringSubmatch(text); m != nil {
		v.name, v.typ = m[1], "void *"
		return v
	}
	m := declarator.FindStringSubmatch(text)
	v.name, v.array = m[2], m[3]
	v.typ = plain(m[1])
	return v
}

// plain drops what a type in Go does not say.
func plain(typ string) string {
	for _, word := range []string{"const ", "struct ", "const"} {
		typ = strings.ReplaceAll(typ, word, "")
	}
	return strings.TrimSpace(typ)
}

// fields reads the body of a structure, in which a declaration may have several names.
func fields(body string) []variable {
	var out []variable
	for _, declaration := range strings.Split(body, ";") {
		list := splitList(strings.TrimSpace(declaration))
		if list[0] == "" {
			continue
		}
		first := declared(list[0])
		out = append(out, first)
		base := strings.TrimRight(strings.TrimSuffix(list[0], first.name), "* ")
		for _, next := range list[1:] {
			out = append(out, declared(base+" "+next))
		}
	}
	return out
}

// integer returns the integer type that typ stands for, or "".
func (h *header) integer(typ string) string {
	if b := h.base[typ]; b != "" {
		return b
	}
	switch typ {
	case "int32_t", "uint32_t", "int64_t", "uint64_t", "uint16_t", "uintptr_t":
		return typ
	}
	return ""
}

// structure returns the structure of that name.
func (h *header) structure(name string) *structure {
	for i := range h.structs {
		if h.structs[i].name == name {
			return &h.structs[i]
		}
	}
	return nil
}
