package core

import (
	"encoding/json"

	"github.com/goccl/goccl/dsl"
	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/plan"
)

// CompileProgram turns a document of package dsl into a plan file.
func CompileProgram(document []byte) ([]byte, error) {
	out, err := dsl.CompileJSON(document)
	return out, wrong(err)
}

// BuildProgram compiles a program that ships with goccl.
func BuildProgram(name string, options []byte) ([]byte, error) {
	var o struct {
		Ranks, Hosts, Instances, Root, ThreadsPerBlock int
		InPlace                                        bool
		MinMessageSize, MaxMessageSize                 uint64
	}
	if len(options) > 0 {
		if err := json.Unmarshal(options, &o); err != nil {
			return nil, wrong(err)
		}
	}
	p, err := programs.Build(name, programs.Options{Ranks: o.Ranks, Hosts: o.Hosts, Instances: o.Instances, InPlace: o.InPlace, Root: o.Root,
		ThreadsPerBlock: o.ThreadsPerBlock, MinMessageSize: o.MinMessageSize, MaxMessageSize: o.MaxMessageSize})
	if err != nil {
		return nil, wrong(err)
	}
	return p.Encode(), nil
}

// planReport describes a correct plan, with the names of the plan format.
type planReport struct {
	Name       string `json:"name"`
	Collective string `json:"collective"`
	Protocol   string `json:"protocol"`
	InPlace    bool   `json:"inplace"`
	Ranks      int    `json:"num_ranks"`
	MinSize    uint64 `json:"min_message_size"`
	MaxSize    uint64 `json:"max_message_size"`
	EvenOnly   bool   `json:"even_only"`
	Operator   string `json:"reduce_op"`
	Steps      int64  `json:"verified_steps"`
}

// CheckPlan decodes and verifies a plan file and describes it as JSON. The error is the fault, or the counterexample.
func CheckPlan(file []byte) ([]byte, error) {
	p, err := plan.Decode(file)
	if err != nil {
		return nil, wrong(err)
	}
	r, err := plan.Check(p, plan.VerifyOptions{})
	if err != nil {
		return nil, wrong(err)
	}
	return json.Marshal(planReport{Name: p.Name, Collective: string(p.Collective), Protocol: string(p.Protocol), InPlace: p.InPlace, Ranks: len(p.GPUs),
		MinSize: p.MinSize, MaxSize: p.MaxSize, EvenOnly: r.EvenOnly, Operator: string(r.Operator), Steps: r.Steps})
}
