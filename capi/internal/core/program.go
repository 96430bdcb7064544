package core

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
)

// PlanCompile turns a document of package dsl into a plan file.
func PlanCompile(document []byte) ([]byte, error) {
	p, err := dsl.CompileJSON(document)
	if err != nil {
		return nil, wrong(err)
	}
	file := p.Encode()
	origins.Lock()
	defer origins.Unlock()
	if len(origins.of) >= maxOrigins || origins.of == nil {
		origins.of = map[[sha256.Size]byte]*plan.Origins{}
	}
	origins.of[sha256.Sum256(file)] = p.Origins
	return file, nil
}

// origins remembers where the plan files that this process has compiled come from, so that a counterexample names the
// author's lines. When it is full, it is cleared.
var origins struct {
	sync.Mutex
	of map[[sha256.Size]byte]*plan.Origins
}

const maxOrigins = 256

// decodePlan decodes a plan file.
func decodePlan(file []byte) (*plan.Plan, error) {
	p, err := plan.Decode(file)
	if err != nil {
		return nil, err
	}
	origins.Lock()
	defer origins.Unlock()
	p.Origins = origins.of[sha256.Sum256(file)]
	return p, nil
}

// PlanBuild compiles a program that ships with goccl.
func PlanBuild(name string, options []byte) ([]byte, error) {
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
	p, err := programs.Build(name, programs.Options{Ranks: o.Ranks, Hosts: o.Hosts, Instances: o.Instances,
		InPlace: o.InPlace, Root: o.Root,
		ThreadsPerBlock: o.ThreadsPerBlock, MinMessageSize: o.MinMessageSize, MaxMessageSize: o.MaxMessageSize})
	if err != nil {
		return nil, wrong(err)
	}
	return p.Encode(), nil
}

// planReport describes a plan, with the names of the plan format. The fields from EvenOnly on are the verifier's.
type planReport struct {
	Name       string `json:"name"`
	Collective string `json:"collective"`
	Protocol   string `json:"protocol"`
	InPlace    bool   `json:"inplace"`
	Ranks      int    `json:"num_ranks"`
	Root       int    `json:"root"`
	MinSize    uint64 `json:"min_message_size"`
	MaxSize    uint64 `json:"max_message_size"`
	Verified   bool   `json:"verified"`
	EvenOnly   bool   `json:"even_only"`
	Operator   string `json:"reduce_op"`
	Steps      int64  `json:"verified_steps"`
}

func describe(p *plan.Plan) *planReport {
	return &planReport{Name: p.Name, Collective: string(p.Collective), Protocol: string(p.Protocol), InPlace: p.InPlace,
		Ranks: len(p.GPUs), Root: p.Root,
		MinSize: p.MinSize, MaxSize: p.MaxSize}
}

// PlanCheck decodes and verifies a plan file and describes it as JSON. The error is the fault, or the counterexample.
func PlanCheck(file []byte) ([]byte, error) {
	p, err := decodePlan(file)
	if err != nil {
		return nil, wrong(err)
	}
	r, err := verify.Check(p, verify.Options{})
	if err != nil {
		return nil, wrong(err)
	}
	d := describe(p)
	d.Verified, d.EvenOnly, d.Operator, d.Steps = true, r.EvenOnly, string(r.Operator), r.Steps
	return json.Marshal(d)
}

// PlanDescribe is CheckPlan without the verifier: only the structure of the plan is checked.
func PlanDescribe(file []byte) ([]byte, error) {
	p, err := plan.Decode(file)
	if err != nil {
		return nil, wrong(err)
	}
	return json.Marshal(describe(p))
}
