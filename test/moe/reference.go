package moe

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/engine/moe"
)

// copyOf is one row that a rank gets: token t of rank s, in the layout Experts for an expert of the rank.
type copyOf struct{ s, t, expert int }

// on returns the ranks of a token in the order of its list.
func (c *Case) on(s, t int) (ranks []int) {
	if c.Shape.TopK == 0 {
		for p := range c.Ranks {
			if c.Index[s][t*c.Ranks+p] != 0 {
				ranks = append(ranks, p)
			}
		}
		return ranks
	}
	for _, e := range c.list(s, t) {
		if p := int(e) / (c.Shape.Experts / c.Ranks); e >= 0 && !slices.Contains(ranks, p) {
			ranks = append(ranks, p)
		}
	}
	return ranks
}

// given is what a rank gives as Index.
func (c *Case) given(s int) []int64 {
	if c.Given != nil {
		return c.Given[s]
	}
	return c.Index[s]
}

func (c *Case) list(s, t int) []int64 { return c.Index[s][t*c.Shape.TopK:][:c.Shape.TopK] }

// got are the rows of a rank in the layout Rows.
func (c *Case) got(rank int) (rows []copyOf) {
	for s := range c.Ranks {
		for t := range c.Tokens[s] {
			if slices.Contains(c.on(s, t), rank) {
				rows = append(rows, copyOf{s, t, -1})
			}
		}
	}
	return rows
}

// gotBy are the rows of an expert of a rank.
func (c *Case) gotBy(rank, expert int) (rows []copyOf) {
	global := int64(rank*c.Shape.Experts/c.Ranks + expert)
	for s := range c.Ranks {
		for t := range c.Tokens[s] {
			if slices.Contains(c.list(s, t), global) {
				rows = append(rows, copyOf{s, t, expert})
			}
		}
	}
	return rows
}

// row is a token as it arrives: its elements and scales.
func (c *Case) row(s, t int) (data, scales []byte) {
	x := c.X[s][t*c.Shape.Hidden:][:c.Shape.Hidden]
	if !c.Quantize {
		for _, v := range x {
			data = binary.LittleEndian.AppendUint16(data, v)
		}
		return data, nil
	}
	for g := 0; g < len(x); g += 128 {
		most := float32(1e-4)
		for _, v := range x[g : g+128] {
			most = max(most, float32(math.Abs(float64(wide(v)))))
		}
		scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(most/448))
		for _, v := range x[g : g+128] {
			data = append(data, e4m3(wide(v)*(448/most)))
		}
	}
	return data, scales
}

// result is element j of what an expert, or a rank, makes of a token.
func (c *Case) result(rank int, from copyOf, j int) uint16 {
	from.t = c.number(from.s, from.t)
	return c.value(rank, from, j)
}

func (c *Case) value(rank int, from copyOf, j int) uint16 {
	h := c.Seed + uint64(rank)<<48 + uint64(from.s)<<40 + uint64(from.t)<<20 + uint64(from.expert+1)<<56 + uint64(j)
	h = (h ^ h>>31) * 0x9e3779b97f4a7c15
	h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
	switch h % 3 { // large values cancel each other, so that the order of a sum can be seen in its result
	case 0:
		return bfloat16(0x1p30)
	case 1:
		return bfloat16(-0x1p30)
	}
	return bfloat16(float32(int32(h>>32)) * 0x1p-30)
}

// combined is element j of what returns for a token. bias are added first.
func (c *Case) combined(s, t, j int, bias [2]uint16) uint16 {
	sum := wide(bias[0])
	sum += wide(bias[1])
	for _, p := range c.on(s, t) {
		if c.Shape.Layout != moe.Experts {
			sum += wide(c.result(p, copyOf{s, t, -1}, j))
			continue
		}
		part, local := float32(0), c.Shape.Experts/c.Ranks
		for k, e := range c.list(s, t) {
			if e >= 0 && int(e)/local == p {
				product := c.Weights[s][t*c.Shape.TopK+k] * wide(c.result(p, copyOf{s, t, int(e) % local}, j))
				part += float32(product)
			}
		}
		sum += wide(bfloat16(part))
	}
	return bfloat16(sum)
}

// weights returns a weight for each expert of a rank: the token's weight for it, 0 if the token does not go there.
func (c *Case) weights(rank, s, t int) (w []float32) {
	for k, e := range c.list(s, t) {
		f := float32(0)
		if e >= 0 && int(e)/(c.Shape.Experts/c.Ranks) == rank {
			f = c.Weights[s][t*c.Shape.TopK+k]
		}
		w = append(w, f)
	}
	return w
}

func rowBytes(d *moe.DispatchArgs) int {
	if d.Quantize || d.Type == datatype.Float8E4M3 {
		return d.Hidden
	}
	return 2 * d.Hidden
}

func scaleBytes(d *moe.DispatchArgs) int {
	if d.Quantize || d.Type == datatype.Float8E4M3 {
		return d.Hidden / 128 * 4
	}
	return 0
}
