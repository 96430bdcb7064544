package executor

import (
	"fmt"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/programs"
)

// kernelShapes are the hosts of the ranks in kernelHosts.
var kernelShapes = [][]int{{0, 1}, {0, 0, 1, 1}, {0, 1, 2, 3}}

// kernelHosts runs the programs for several hosts. Between these is a network that delivers in random order. messages
// are for each rank; a slot holds 64 bytes.
func kernelHosts(t *testing.T, program string, shapes [][]int, messages []uint64) {
	for _, shape := range shapes {
		messages := messages
		if len(shape) == 4 && shape[1] == 1 && setting.Lenient().Full == "" { // as two hosts, with more of the same links
			messages = messages[len(messages)/2:][:1]
		}
		n := len(shape)
		OverHosts(t, shape[n-1]+1, n/(shape[n-1]+1), func(name string, p *plan.Plan) {
			for i, m := range messages {
				c := emulation{plan: p, message: m * uint64(n), t: datatype.Float32, threads: 3, launches: 3, hosts: shape}
				if i == 0 {
					c.first = 0xfffffffe
				}
				if _, err := p.NewLayout(c.message); err != nil {
					continue
				}
				if err := c.run(t, program); err != nil {
					t.Errorf("%s, %d bytes: %v", name, c.message, err)
				}
			}
		})
		for _, raw := range []bool{false, true} {
			if shape[n-1]+1 != n {
				continue // ranks of one host use memory channels
			}
			p := PortPackets(t, n, raw)
			c := emulation{plan: p, message: 1200, t: datatype.Float32, threads: 3, launches: 3, hosts: shape}
			if err := c.run(t, program); err != nil {
				t.Errorf("%s, raw %v, on %v: %v", p.Name, raw, shape, err)
			}
		}
	}
}

// OverHosts builds the programs for hosts of per ranks: in place or not, which alternates with the program and the
// shape, or both with GOCCL_FULL.
func OverHosts(t testing.TB, hosts, per int, f func(name string, p *plan.Plan)) {
	for i, prog := range programs.All() {
		options := func(inPlace bool) programs.Options {
			return programs.Options{Ranks: hosts * per, Hosts: hosts, InPlace: inPlace}
		}
		other := (i+hosts+per)%2 == 0
		for _, inPlace := range []bool{false, true} {
			o := options(inPlace)
			if prog.Supports(o) != nil {
				continue
			}
			if inPlace == other && prog.Supports(options(!other)) == nil && setting.Lenient().Full == "" {
				continue
			}
			p, err := prog.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			f(fmt.Sprintf("%s/%dx%d/%v", prog.Name, hosts, per, inPlace), p)
		}
	}
}

// PortPackets is an all-reduce of n ranks that push packets into port channels, which no shipped program does.
func PortPackets(t testing.TB, n int, raw bool) *plan.Plan {
	c := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "allreduce_port_ll", RanksPerNode: 1, Protocol: plan.LL,
		Collective: dsl.AllReduce(n, 1, false), UseDoubleScratchBuffer: true, MaxMessageSize: 1 << 20})
	var scratch []*dsl.Buffer
	for r := range n {
		scratch = append(scratch, c.Rank(r).Scratch(n*n))
	}
	for r := range n {
		rank, tb := c.Rank(r), dsl.TB(0)
		from := func(at, of int) dsl.Chunk { return scratch[at].Slice(of*n, of*n+n) }
		rank.CopyPackets(from(r, r), rank.Input().Slice(0, n), tb)
		for k := 1; k < n; k++ {
			q := (r + k) % n
			if port := c.PortChannel(q, r); raw {
				port.PutPackets(from(q, r), from(r, r), tb)
			} else {
				port.ReadPutPackets(from(q, r), from(r, r), tb)
			}
		}
		out := rank.Output().Slice(0, n)
		rank.UnpackPackets(out, from(r, 0), tb)
		var others []dsl.Chunk
		for k := 1; k < n; k++ {
			others = append(others, from(r, k))
		}
		rank.Reduce(out, others, dsl.Packet(), tb)
	}
	p, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
