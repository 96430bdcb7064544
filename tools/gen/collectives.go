package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// request are the places of parameters of NCCL's collectives in a goccl_request.
var request = map[string]string{"sendbuff": "send", "recvbuff": "recv", "buff": "send", "count": "count",
	"sendcount": "count", "recvcount": "count", "datatype": "type", "op": "op", "root": "root", "peer": "root",
	"comm": "comm", "stream": "stream", "config": ""}

var (
	declarations = regexp.MustCompile(`NCCL_API\(ncclResult_t, nccl(\w+), ([^)]*)\)`)
	parts        = regexp.MustCompile(`(?:To|[A-Z])[a-z]*`)
)

// writeCollectives returns the collectives of NCCL's ABI: every function of calls.h whose parameters have the
// names of a request's fields fills one in and submits it.
func writeCollectives(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, "nccl", "calls.h"))
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n", notice)
	for _, m := range declarations.FindAllStringSubmatch(spaces.ReplaceAllString(string(text), " "), -1) {
		name, params := m[1], splitList(m[2])
		kind, config := strings.CutSuffix(name, "Config")
		in, ok := places(params)
		if !ok || in["stream"] == "" || in["type"] == "" {
			continue
		}
		fmt.Fprintf(&b, "\nncclResult_t pnccl%s(%s) {\n\tgoccl_request r = {.collective = GOCCL_%s", name, wrap(params),
			kindOf(kind))
		for _, field := range []string{"comm", "type", "send", "recv", "count", "op", "root", "stream"} {
			switch arg := in[field]; {
			case arg == "buff":
				b.WriteString(",\n\t\t.send = buff, .recv = buff")
			case field == "comm":
				b.WriteString(",\n\t\t.comm = handle(comm)")
			case field == "stream":
				b.WriteString(",\n\t\t.stream = (uintptr_t)stream")
			case arg != "":
				fmt.Fprintf(&b, ",\n\t\t.%s = %s", field, arg)
			}
		}
		b.WriteString("};\n")
		if in["op"] != "" {
			b.WriteString("\tncclResult_t bad = check_op(op, SELF);\n\tif (bad) return bad;\n")
		}
		fmt.Fprintf(&b, "\treturn shim_call(&r, %s, SELF);\n}\nWEAK(nccl%s);\n", map[bool]string{true: "config",
			false: "NULL"}[config], name)
	}
	return []byte(b.String()), nil
}

// places returns the parameters by their fields of the request, if all have one.
func places(params []string) (in map[string]string, ok bool) {
	in = map[string]string{}
	for _, p := range params {
		name := declared(p).name
		field, ok := request[name]
		if !ok || strings.Contains(p, "*") != (strings.HasSuffix(name, "buff") || name == "config") {
			return nil, false
		}
		in[field] = name
	}
	return in, true
}

// kindOf returns ALL_REDUCE for AllReduce.
func kindOf(name string) string {
	switch name {
	case "Bcast":
		return "BROADCAST"
	case "AlltoAll":
		name = "AllToAll"
	}
	return strings.ToUpper(strings.Join(parts.FindAllString(name, -1), "_"))
}
