package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// call is one line of cu:call or cu:queue.
type call struct {
	doc      string // of the Go function
	ordered  bool
	name     string
	receiver string     // "c Context", or ""
	params   []variable // of the Go function; nil, as results, if there is none
	results  []variable
	goFunc   bool
	gone     bool
	function string   // of the driver or of dispatch.c
	args     []string // of the function
}

type variable struct{ name, typ string }

var line = regexp.MustCompile(`^//cu:(call|queue) (?:\((\w+ \w+)\) )?(\w+)(\(.*)? = (gone )?(\w+)\((.*)\)$`)

// readCalls returns the calls of the Go files of a folder, the ordered ones first.
func readCalls(root string) ([]call, error) {
	paths, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		return nil, err
	}
	var calls []call
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, group := range file.Comments {
			got, err := readGroup(group)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			calls = append(calls, got...)
		}
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(number(b.ordered), number(a.ordered)) })
	return calls, nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func readGroup(group *ast.CommentGroup) (calls []call, err error) {
	var doc strings.Builder
	for _, c := range group.List {
		m := line.FindStringSubmatch(c.Text)
		switch {
		case m != nil:
			one := call{doc: strings.TrimSuffix(doc.String(), "//\n"), ordered: m[1] == "queue", receiver: m[2], name: m[3],
				goFunc: m[4] != "", gone: m[5] != "", function: m[6], args: split(m[7])}
			if one.params, one.results, err = signature(m[4]); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Text, err)
			}
			calls = append(calls, one)
			doc.Reset()
		case strings.HasPrefix(c.Text, "//cu:nocgo "):
		case strings.HasPrefix(c.Text, "//cu:"):
			return nil, fmt.Errorf("%q is no call", c.Text)
		default:
			doc.WriteString(c.Text + "\n")
		}
	}
	return calls, nil
}

func split(list string) (out []string) {
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// signature reads the parameters and the results of a Go function: "(p Ptr) (size int64)".
func signature(text string) (params, results []variable, err error) {
	if text == "" {
		return nil, nil, nil
	}
	e, err := parser.ParseExpr("func" + text)
	if err != nil {
		return nil, nil, err
	}
	f := e.(*ast.FuncType)
	return variables(f.Params), variables(f.Results), nil
}

func variables(l *ast.FieldList) (out []variable) {
	if l == nil {
		return nil
	}
	for _, f := range l.List {
		for _, n := range f.Names {
			out = append(out, variable{n.Name, types.ExprString(f.Type)})
		}
	}
	return out
}

var (
	prototype = regexp.MustCompile(`[RO]\((cu\w+), \(([^()]*)\)`)
	joined    = regexp.MustCompile(`\s*\\\n\s*`)
)

// prototypes returns the types of the parameters of the driver's functions.
func prototypes(api string) map[string][]string {
	out := map[string][]string{}
	for _, m := range prototype.FindAllStringSubmatch(joined.ReplaceAllString(api, " "), -1) {
		if out[m[1]] = split(m[2]); m[2] == "void" {
			out[m[1]] = nil
		}
	}
	return out
}
