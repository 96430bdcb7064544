// Package moe compares dispatches and combines of experts with a plain reference, bit for bit: on the host device, in
// one process and in several, and on GPUs.
package moe

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/goccl/goccl/engine/moe"
)

// Case is one routing of all ranks' tokens. Every rank draws the same case from its seed.
type Case struct {
	Shape    moe.Shape
	Ranks    int
	Tokens   []int     // by rank
	Index    [][]int64 // by rank: [token][k]; without TopK the ranks, as 0 or 1: [token][rank]
	Weights  [][]float32
	X        [][]uint16 // by rank: bfloat16
	Quantize bool
	Seed     uint64
	Name     string
	Given    [][]int64 // what the ranks give as Index under a mask; nil: Index
	Number   [][]int   // by rank and token: which token of the whole case it is; nil: the case is whole
}

// Part is a case of some tokens of c, in another order.
func (c *Case) Part(r *rand.Rand) *Case {
	p := *c
	p.Name, p.Tokens, p.Index, p.Weights, p.X = c.Name+", a part", nil, nil, nil, nil
	for s, n := range c.Tokens {
		p.Number = append(p.Number, r.Perm(n)[:r.IntN(n+1)])
		p.Tokens = append(p.Tokens, len(p.Number[s]))
		p.Index, p.Weights, p.X = append(p.Index, nil), append(p.Weights, nil), append(p.X, nil)
		for _, t := range p.Number[s] {
			p.Index[s] = append(p.Index[s], c.Index[s][t*len(c.Index[s])/n:][:len(c.Index[s])/n]...)
			p.Weights[s] = append(p.Weights[s], c.Weights[s][t*len(c.Weights[s])/n:][:len(c.Weights[s])/n]...)
			p.X[s] = append(p.X[s], c.X[s][t*c.Shape.Hidden:][:c.Shape.Hidden]...)
		}
	}
	return &p
}

// number is token t of rank s in the whole case.
func (c *Case) number(s, t int) int {
	if c.Number == nil {
		return t
	}
	return c.Number[s][t]
}

// Routings are the ways to draw the experts of tokens.
var Routings = []string{"random", "one expert", "none", "some", "one rank silent", "last rank only", "twice"}

// Draw makes a case. Each has up to most tokens of a rank.
func Draw(seed uint64, ranks, most int, shape moe.Shape, routing string, quantize bool) *Case {
	r := rand.New(rand.NewPCG(seed, 17))
	c := &Case{Shape: shape, Ranks: ranks, Quantize: quantize, Seed: seed,
		Name: fmt.Sprintf("%s, %d ranks, %+v, quantize %v, seed %d", routing, ranks, shape, quantize, seed)}
	for s := range ranks {
		n := r.IntN(most + 1)
		if routing == "one rank silent" && s == ranks-1 {
			n = 0
		}
		c.Tokens = append(c.Tokens, n)
		c.X = append(c.X, make([]uint16, n*shape.Hidden))
		for i := range c.X[s] {
			c.X[s][i] = bfloat16(float32(r.NormFloat64()))
		}
		if shape.TopK == 0 {
			c.Index = append(c.Index, drawRanks(r, n, ranks, routing))
			c.Weights = append(c.Weights, nil)
			continue
		}
		index, weights := make([]int64, n*shape.TopK), make([]float32, n*shape.TopK)
		for t := range n {
			drawExperts(r, index[t*shape.TopK:][:shape.TopK], shape.Experts, ranks, routing)
		}
		for i := range weights {
			weights[i] = r.Float32() - 0.3
		}
		c.Index, c.Weights = append(c.Index, index), append(c.Weights, weights)
	}
	return c
}

func drawRanks(r *rand.Rand, tokens, ranks int, routing string) []int64 {
	in := make([]int64, tokens*ranks)
	for i := range in {
		switch routing {
		case "none":
		case "last rank only", "one expert":
			in[i] = int64((i%ranks + 1) / ranks)
		default:
			in[i] = int64(r.IntN(2))
		}
	}
	return in
}

func drawExperts(r *rand.Rand, list []int64, experts, ranks int, routing string) {
	for k, e := range r.Perm(experts)[:len(list)] {
		list[k] = int64(e)
		switch routing {
		case "one expert":
			list[k] = -1
			if k == len(list)/2 {
				list[k] = int64(experts / 2)
			}
		case "none":
			list[k] = -1
		case "some":
			if r.IntN(3) > 0 {
				list[k] = -1
			}
		case "last rank only":
			local := experts / ranks
			list[k] = int64(experts - 1 - e%local)
			if k > 0 && k >= local {
				list[k] = -1
			}
		case "twice":
			if k > 0 && r.IntN(2) == 0 {
				list[k] = list[k-1]
			}
		}
	}
}

// bfloat16 rounds to nearest, ties to even.
func bfloat16(f float32) uint16 {
	u := math.Float32bits(f)
	low, high := u&0xffff, u>>16
	if low > 0x8000 || low == 0x8000 && high&1 == 1 {
		high++
	}
	return uint16(high)
}

func wide(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// eight is the value of each float8e4m3 below the sign.
var eight = func() (v [127]float64) {
	for i := range v {
		if e := i >> 3; e == 0 {
			v[i] = float64(i) / 8 / 64
		} else {
			v[i] = (1 + float64(i&7)/8) * math.Ldexp(1, e-7)
		}
	}
	return v
}()

// e4m3 finds the nearest float8e4m3 by trying all; of two, the even one.
func e4m3(f float32) uint8 {
	best, x := 0, math.Abs(float64(f))
	for i, v := range eight {
		d, b := math.Abs(v-x), math.Abs(eight[best]-x)
		if d < b || d == b && i%2 == 0 {
			best = i
		}
	}
	if math.Signbit(float64(f)) {
		best |= 0x80
	}
	return uint8(best)
}
