package fabric

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccl/goccl/plan/internal/shipped"
)

// Document is the JSON form of a graph. Host is written once and repeated Hosts times: its node "x" is "0/x", "1/x" and
// so on in the graph. Links of the document may name a node of every host as "*/x".
type Document struct {
	Name   string         `json:"name"`
	Source string         `json:"source,omitempty"` // origin of the values
	Hosts  int            `json:"hosts,omitempty"`
	Host   *Part          `json:"host,omitempty"`
	Nodes  []DocumentNode `json:"nodes,omitempty"`
	Links  []DocumentLink `json:"links"`
}

// Part is the inside of a host.
type Part struct {
	Nodes []DocumentNode `json:"nodes"`
	Links []DocumentLink `json:"links"`
}

// DocumentNode is one node. Host is for nodes that are not written as part of a host; GPUs have host 0 without it.
type DocumentNode struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Host *int   `json:"host,omitempty"`
}

// DocumentLink is a link with its rate in GB/s, in each direction unless OneWay, and its latency.
type DocumentLink struct {
	A      string  `json:"a"`
	B      string  `json:"b"`
	GBps   float64 `json:"gbps"`
	Micros float64 `json:"us,omitempty"`
	OneWay bool    `json:"one_way,omitempty"` // from A to B
}

//go:embed examples/*.json
var exampleFiles embed.FS

var examples = shipped.Folder{Files: exampleFiles, Path: "examples"}

// Examples returns the names of the topologies that ship with the package.
func Examples() []string { return examples.Names() }

// Example returns a topology that ships with the package, such as "dgx-h100x2".
func Example(name string) (*Graph, error) {
	data, err := examples.Read(name, "topology", ErrInvalid)
	if err != nil {
		return nil, fmt.Errorf("fabric: %w", err)
	}
	return Parse(data)
}

// Parse reads a graph from JSON. Unknown keys are rejected, so that a misspelt key is not ignored.
func Parse(data []byte) (*Graph, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var doc Document
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("fabric: %w: %w", ErrInvalid, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("fabric: %w: more than one JSON value", ErrInvalid)
	}
	return doc.Graph()
}

// Graph expands a document.
func (doc *Document) Graph() (*Graph, error) {
	x := &expander{g: &Graph{Name: doc.Name, Source: doc.Source}, byName: map[string]int{}}
	if doc.Hosts < 0 || doc.Hosts > maxNodes || (doc.Hosts > 0) != (doc.Host != nil) {
		return nil, x.g.bad("%d hosts: give both \"hosts\" and \"host\", or neither", doc.Hosts)
	}
	for h := range doc.Hosts {
		for _, n := range doc.Host.Nodes {
			if err := x.node(strconv.Itoa(h)+"/"+n.Name, n.Kind, h); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range doc.Nodes {
		host := -1
		if n.Host != nil {
			host = *n.Host
		} else if n.Kind == GPU {
			host = 0
		}
		if err := x.node(n.Name, n.Kind, host); err != nil {
			return nil, err
		}
	}
	for h := range doc.Hosts {
		for _, l := range doc.Host.Links {
			l.A, l.B = strconv.Itoa(h)+"/"+l.A, strconv.Itoa(h)+"/"+l.B
			if err := x.link(l); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range doc.Links {
		if !strings.HasPrefix(l.A, "*/") && !strings.HasPrefix(l.B, "*/") {
			if err := x.link(l); err != nil {
				return nil, err
			}
			continue
		}
		for h := range doc.Hosts {
			each := l
			for _, end := range []*string{&each.A, &each.B} {
				if rest, ok := strings.CutPrefix(*end, "*"); ok {
					*end = strconv.Itoa(h) + rest
				}
			}
			if err := x.link(each); err != nil {
				return nil, err
			}
		}
	}
	return x.g, x.g.finish()
}

type expander struct {
	g      *Graph
	byName map[string]int
}

func (x *expander) node(name string, k Kind, host int) error {
	if _, ok := x.byName[name]; ok || name == "" {
		return x.g.bad("node %q: names are unique and not empty", name)
	}
	if len(x.g.Nodes) == maxNodes {
		return x.g.bad("more than %d nodes", maxNodes)
	}
	x.byName[name] = len(x.g.Nodes)
	x.g.Nodes = append(x.g.Nodes, Node{Name: name, Kind: k, Host: host})
	return nil
}

func (x *expander) link(l DocumentLink) error {
	a, okA := x.byName[l.A]
	b, okB := x.byName[l.B]
	if !okA || !okB || a == b {
		return x.g.bad("link %q to %q: name two different nodes", l.A, l.B)
	}
	x.g.Edges = append(x.g.Edges, Edge{From: a, To: b, GBps: l.GBps, Micros: l.Micros})
	if !l.OneWay {
		x.g.Edges = append(x.g.Edges, Edge{From: b, To: a, GBps: l.GBps, Micros: l.Micros})
	}
	return nil
}
