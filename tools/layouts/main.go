// Command layouts writes Go's side of structures and constants of C and CUDA headers, so that they are stated once:
// zz_layout.go of each of the folders of targets. `go generate` in one of them runs it.
//
// Pointers are addresses, of type uint64. Fields have the names of the header, in Go's form if the target wants
// them exported; those named pad, unused and reserved have none. A structure that another one extends is embedded, and
// an alias of a template is a structure with the template's arguments. A static_assert of a structure's size becomes
// one of Go's.
package main

import (
	"cmp"
	"fmt"
	"go/format"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// target is a folder and the names that its Go file takes from headers, each with its name in Go: structures,
// constants, macros and values of enumerations. A name of one of several namespaces is ns::name.
type target struct {
	folder   string
	exported bool // the fields
	headers  []string
	wanted   [][2]string
}

var targets = []target{
	{"plan/executor", false,
		[]string{"kernels/executor/program.cuh", "kernels/executor/far.cuh", "kernels/executor/quick.cuh",
			"kernels/executor/bulk_copy.cuh"},
		[][2]string{{"maxRanks", "gpuRanks"}, {"maxRegions", "gpuRegions"}, {"controlInbound", "gpuControlBytes"},
			{"inboundStride", "gpuInboundStride"}, {"callersOp", "gpuCallersOp"}, {"flagRaw", "gpuRaw"},
			{"flagInner", "gpuInner"}, {"flagPackets", "gpuPackets"}, {"flagRelaxed", "gpuRelaxed"},
			{"flagMeet", "gpuMeet"}, {"flagStatic", "gpuStatic"}, {"flagCounted", "gpuCounted"}, {"codePush", "gpuPush"},
			{"codePushSignal", "gpuPushSignal"}, {"bulkBytes", "gpuBulkBytes"}, {"bulkChunk", "gpuBulkChunk"},
			{"bulkStages", "gpuBulkStages"}, {"Op", "gpuOp"}, {"Operand", "gpuItem"}, {"Header", "gpuHeader"},
			{"Rank", "gpuRank"}, {"Args", "gpuArgs"}, {"Far", "gpuFar"}, {"QuickArgs", "gpuQuickArgs"}}},
	{"watch/observe/records", true, []string{"capi/profiler/records.h"},
		[][2]string{{"RECORDS_MAGIC", "magic"}, {"RECORDS_VERSION", "version"}, {"RECORDS_NAMES", "nameCount"},
			{"RECORDS_COMMS", "commCount"}, {"KIND_COLLECTIVE", "Collective"}, {"KIND_MESSAGE", "Message"},
			{"FLAG_CAPTURED", "Captured"}, {"COMM_OPEN", "commOpen"}, {"record_op", "Op"}, {"record_proxy", "Proxy"},
			{"record_sum", "Sum"}, {"record_comm", "rawComm"}, {"records", "rawHeader"}}},
	{"engine/hosts/cudawire", false,
		[]string{"kernels/hosts/ring.cuh", "kernels/hosts/wire.cuh", "kernels/include/goccl/reduce.cuh"},
		[][2]string{{"header", "header"}, {"sends", "kindSend"}, {"receives", "kindRecv"}, {"reduces", "kindReduce"},
			{"sendsCounted", "kindSendCounted"}, {"stays", "ownStays"}, {"sent", "ownSent"}, {"leads", "ownLeads"},
			{"unsignedBit", "unsignedBit"}, {"local", "localPeer"}, {"scaledTerms", "scaledTerms"},
			{"Counters", "counters"}, {"Link", "linkWords"}, {"Item", "item"}, {"Reduction", "reduction"}, {"Task", "task"},
			{"Head", "head"}, {"Args", "args"}, {"FewArgs", "fewArgs"}}},
	{"engine/fused", false, []string{"kernels/fused/args.cuh", "kernels/collective/args.cuh"},
		[][2]string{{"maxRanks", "maxRanks"}, {"areas", "areas"}, {"passStride", "passStride"},
			{"fused::Args", "kernelArgs"}}},
	{"engine/nvlink", false,
		[]string{"kernels/collective/args.cuh", "kernels/collective/p2p.cuh", "kernels/collective/all_to_all_v.cuh",
			"kernels/collective/stream.cuh", "kernels/collective/ring.cuh", "kernels/collective/ring_fold.cuh",
			"kernels/collective/direct.cuh", "kernels/collective/lamport.cuh", "kernels/include/goccl/pipe.cuh",
			"kernels/include/goccl/reduce.cuh", "kernels/probe/probe.cuh"},
		[][2]string{{"maxRanks", "maxRanks"}, {"epochStride", "epochWords"}, {"everyone", "everyone"},
			{"unsignedBit", "unsignedBit"}, {"p2pChannels", "p2pChannels"}, {"p2pDepth", "p2pDepth"},
			{"p2pSlotBytes", "p2pSlotBytes"}, {"p2pMaxMessages", "p2pMaxMessages"}, {"p2pFewMessages", "p2pFewMessages"},
			{"p2pMaxLanes", "p2pMaxLanes"}, {"streamChannels", "streamChannels"}, {"streamRingBytes", "streamRingBytes"},
			{"streamPieceBytes", "streamPieceBytes"}, {"streamWorkers", "streamWorkers"}, {"ringChannels", "ringChannels"},
			{"ringParts", "ringParts"}, {"ringLine", "ringLine"}, {"ringWorkers", "ringWorkers"}, {"foldLag", "foldLag"},
			{"launchCopies", "lamportBlocks"}, {"pipeSignalers", "pipeSignalers"}, {"directLine", "directLine"},
			{"directShared", "directShared"}, {"directHelpers", "directHelpers"}, {"pullBytes", "directPullBytes"},
			{"half", "probeHalf"}, {"works", "probeWorks"}, {"collective::Args", "collectiveArgs"}, {"Message", "message"},
			{"Lane", "lane"}, {"P2PHead", "p2pHead"}, {"P2PArgs", "p2pArgs"}, {"P2PFewArgs", "p2pFewArgs"},
			{"AllToAllVArgs", "allToAllVArgs"}, {"StreamArgs", "streamArgs"}, {"DirectArgs", "directArgs"},
			{"probe::Args", "probeArgs"}}},
	{"engine/moe", false,
		[]string{"kernels/moe/memory.cuh", "kernels/moe/notify.cuh", "kernels/moe/dispatch.cuh", "kernels/moe/combine.cuh",
			"kernels/moe/local.cuh"},
		[][2]string{{"maxRanks", "maxRanks"}, {"Region", "region"}, {"Head", "headArgs"}, {"Row", "rowArgs"},
			{"NotifyArgs", "notifyArgs"}, {"DispatchArgs", "dispatchArgs"}, {"CombineArgs", "combineArgs"},
			{"QuantizeArgs", "quantizeArgs"}, {"CountArgs", "countArgs"}}},
	{"internal/driver/nvml", true, []string{"internal/driver/nvml/health.h"},
		[][2]string{{"goccl_nvml_state", "State"}}},
	{"internal/driver/verbs", true, []string{"internal/driver/verbs/calls.h"},
		[][2]string{{"goccl_attributes", "Attributes"}, {"goccl_path", "Path"}, {"goccl_work", "Work"},
			{"goccl_completion", "Completion"}, {"goccl_gid", "GIDEntry"}}},
}

func main() {
	root, err := repository()
	for _, t := range targets {
		var text []byte
		if err == nil {
			text, err = t.generate(root)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, t.folder, file), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "layouts:", err)
		os.Exit(1)
	}
}

// file is the name of a generated file.
const file = "zz_layout.go"

// repository returns the folder with go.work, from the working directory upwards.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// header is the text of a target's headers, without comments.
type header struct {
	target
	texts []string
}

// generate returns the file of a target.
func (t target) generate(root string) ([]byte, error) {
	h := &header{target: t}
	for _, name := range t.headers {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		h.texts = append(h.texts, comments.ReplaceAllString(string(b), ""))
	}
	var constants, structures strings.Builder
	for _, w := range t.wanted {
		if value := h.constant(w[0]); value != "" {
			fmt.Fprintf(&constants, "\t%s = %s\n", w[1], value)
		} else if err := h.structure(&structures, w[0], w[1]); err != nil {
			return nil, fmt.Errorf("%s: %w", t.folder, err)
		}
	}
	from := strings.Join(t.headers, ", ")
	if len(t.headers) > 3 {
		from = fmt.Sprintf("%s and %d other headers", t.headers[0], len(t.headers)-1)
	}
	out := fmt.Sprintf("// Code generated by tools/layouts from %s; DO NOT EDIT.\n\npackage %s\n\n", from,
		filepath.Base(t.folder))
	if strings.Contains(structures.String(), "unsafe.") {
		out += "import \"unsafe\"\n\n"
	}
	if constants.Len() > 0 {
		out += "const (\n" + constants.String() + ")\n"
	}
	return format.Source([]byte(out + structures.String()))
}

// find returns the first match of a pattern in the headers, or in those that open the namespace of a name.
func (h *header) find(name string, pattern func(name string) string) []string {
	space, own, spaced := strings.Cut(name, "::")
	if !spaced {
		own = name
	}
	r := regexp.MustCompile(pattern(own))
	for _, text := range h.texts {
		if spaced && !strings.Contains(text, "namespace "+space+" {") {
			continue
		}
		if m := r.FindStringSubmatch(text); m != nil {
			return m
		}
	}
	return nil
}

var (
	comments = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	field    = regexp.MustCompile(`^(?:const )?(?:struct )?([\w:]+)\b(.*)$`)
	named    = regexp.MustCompile(`^\s*([*]?)\s*(\w+)((?:\[\w*\])*)$`)
	length   = regexp.MustCompile(`\[(\w*)\]`)
	literal  = regexp.MustCompile(`^(?:0x[0-9a-f]+|\d+)$`)
	names    = regexp.MustCompile(`\b[A-Za-z_]\w*`)
	suffix   = regexp.MustCompile(`\b(\d+|0x[0-9a-f]+)[uU][lL]*\b`)
)

// integers are Go's types for C's.
var integers = map[string]string{"uint8_t": "uint8", "uint16_t": "uint16", "uint32_t": "uint32", "uint64_t": "uint64",
	"int32_t": "int32", "int64_t": "int64", "char": "byte", "float": "float32"}

// goName returns the Go name of what the target wants; "" if it does not.
func (t target) goName(name string) string {
	for _, w := range t.wanted {
		if w[0] == name || strings.HasSuffix(w[0], "::"+name) {
			return w[1]
		}
	}
	return ""
}

// constant returns the value of a constant, a macro or a value of an enumeration; "" if there is none of that name.
func (h *header) constant(name string) string {
	for _, form := range []string{`\bconstexpr \w+ (?:[^;(]*, )?%s = ([^;,]+)[;,]`,
		`(?m)^#define %s\s+(?:UINT64_C\()?([^\n)]+)`, `[{,]\s*%s = ([^,}]+)[,}\s]`} {
		m := h.find(name, func(own string) string { return fmt.Sprintf(form, own) })
		if m != nil {
			return h.value(strings.TrimSpace(m[1]), nil)
		}
	}
	return ""
}

// value returns an expression of constants and of a template's parameters as a literal; "" if it has other names.
func (h *header) value(expression string, parameters map[string]string) string {
	expression = suffix.ReplaceAllString(expression, "$1")
	if literal.MatchString(expression) {
		return expression
	}
	known := true
	expression = names.ReplaceAllStringFunc(expression, func(name string) string {
		v := cmp.Or(parameters[name], h.constant(name))
		known = known && v != ""
		return v
	})
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
	if !known || err != nil || v.Value == nil {
		return ""
	}
	return v.Value.ExactString()
}

func (h *header) structure(b *strings.Builder, name, goName string) error {
	of, parameters := name, map[string]string{}
	if m := h.find(name, func(own string) string { return `\busing ` + own + ` = (\w+)<([^>]*)>;` }); m != nil {
		of = m[1]
		t := h.find(of, func(own string) string { return `template <([^>]*)>\nstruct ` + own + `\b` })
		if t == nil {
			return fmt.Errorf("no template %s", of)
		}
		values := strings.Split(m[2], ",")
		for i, p := range strings.Split(t[1], ",") {
			kind := strings.Fields(p)
			parameters[kind[len(kind)-1]] = h.value(strings.TrimSpace(values[i]), nil)
		}
	}
	m := h.find(of, func(own string) string { return `(?s)\bstruct ` + own + ` (?:: (\w+) )?\{(.*?)\n\};` })
	if m == nil {
		return fmt.Errorf("no structure and no constant %s", name)
	}
	fmt.Fprintf(b, "\n// %s is %s.\ntype %[1]s struct {\n", goName, name)
	if m[1] != "" {
		fmt.Fprintf(b, "\t%s\n", h.goName(m[1]))
	}
	for declaration := range strings.SplitSeq(m[2], ";") {
		declaration = strings.Join(strings.Fields(declaration), " ")
		if declaration == "" {
			continue
		}
		if err := h.fields(b, declaration, parameters); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Fprintf(b, "}\n")
	size := h.find(name, func(own string) string { return `sizeof\(` + own + `\) == ([\w *+]+)` })
	if size != nil {
		if value := h.value(strings.TrimSpace(size[1]), nil); value != "" {
			fmt.Fprintf(b, "\nvar _ = [1]struct{}{}[unsafe.Sizeof(%s{})-%s]\n", goName, value)
		}
	}
	return nil
}

// fields writes the fields of a declaration, which may have several names.
func (h *header) fields(b *strings.Builder, declaration string, parameters map[string]string) error {
	m := field.FindStringSubmatch(declaration)
	if m == nil {
		return fmt.Errorf("no field: %s", declaration)
	}
	for _, one := range strings.Split(m[2], ",") {
		f := named.FindStringSubmatch(one)
		if f == nil {
			return fmt.Errorf("no field: %s", declaration)
		}
		if strings.Contains(f[3], "[]") { // what follows the structure
			continue
		}
		t := cmp.Or(integers[m[1]], h.goName(m[1]))
		if f[1] != "" {
			t = "uint64"
		}
		if t == "" {
			return fmt.Errorf("type %s is not wanted: %s", m[1], declaration)
		}
		lengths := ""
		for _, n := range length.FindAllStringSubmatch(f[3], -1) {
			lengths += "[" + h.value(n[1], parameters) + "]"
		}
		fmt.Fprintf(b, "\t%s %s%s\n", fieldName(f[2], h.exported), lengths, t)
	}
	return nil
}

// initialisms are words that Go writes otherwise than with a capital and small letters.
var initialisms = map[string]string{"id": "ID", "pid": "PID", "gpu": "GPU", "ecc": "ECC", "mig": "MIG", "pcie": "PCIe",
	"sm": "SM", "bar1": "BAR1", "crc": "CRC", "mtu": "MTU", "lid": "LID", "gid": "GID", "qpn": "QPN", "psn": "PSN",
	"lkey": "LKey", "rkey": "RKey"}

// fieldName returns the Go name of a field: GPUEnded for gpu_ended if it is exported.
func fieldName(name string, exported bool) string {
	switch {
	case strings.HasPrefix(name, "pad") || name == "unused" || name == "reserved":
		return "_"
	case !exported:
		return name
	}
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(cmp.Or(initialisms[word], strings.ToUpper(word[:1])+word[1:]))
	}
	return b.String()
}
