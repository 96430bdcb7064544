package fused

import (
	"encoding/binary"
	"math"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
)

// The threads of a block share a row in groups of 8 elements: group g belongs to thread g mod threads.
const (
	groupElements = 8
	maxThreads    = 512
	warp          = 32
)

// threadsOf is the size of a block for rows of hidden elements: the order of the sums depends on it. kernels/fused gets
// it as blockDim.
func threadsOf(hidden int64) int {
	return int(min(maxThreads, (hidden/groupElements+warp-1)&^(warp-1)))
}

// stage is what of an epilogue is done.
type stage uint8

const (
	normalising stage = 1 << iota // steps 2 and 3
	writing                       // the norm's outputs: step 4
	whole       = normalising | writing
)

// epilogue does steps 2 to 4 on the processor, for devices whose memory it reads, for rows [from, to). Row i of the
// sums is at sums + i rows, which may be r.Sum. Without writing, the norms replace the sums; without normalising, they
// are there already.
func (r *Request) epilogue(do stage, sums device.Ptr, from, to int64) {
	n := int(r.Hidden)
	e := epilogue{r: r, z: make([]float32, n), other: make([]float32, n), packed: make([]byte, r.RowBytes())}
	if r.Weight != 0 && do&normalising != 0 {
		e.weight = make([]float32, n)
		hostreduce.Decode(e.weight, device.Bytes(r.Weight, r.RowBytes()), r.Type)
	}
	for row := from; row < to; row++ {
		in := e.at(sums, row)
		hostreduce.Decode(e.z, in, r.Type)
		if do&normalising != 0 {
			e.combine(in, row)
		}
		switch {
		case !r.normalises():
		case do&writing != 0:
			e.write(row)
		default:
			hostreduce.Encode(in, e.z, r.Type)
		}
	}
}

// epilogue is the scratch of Request.epilogue.
type epilogue struct {
	r                *Request
	z, other, weight []float32
	packed           []byte
}

func (e *epilogue) at(base device.Ptr, row int64) []byte {
	return device.Bytes(base.Add(row*e.r.RowBytes()), e.r.RowBytes())
}

// rounded rounds values to the request's type.
func (e *epilogue) rounded(values []float32) {
	hostreduce.Encode(e.packed, values, e.r.Type)
	hostreduce.Decode(values, e.packed, e.r.Type)
}

// combine is steps 2 and 3 for a row whose sum is in z.
func (e *epilogue) combine(sum []byte, row int64) {
	r := e.r
	if r.Sum != 0 {
		if out := e.at(r.Sum, row); &out[0] != &sum[0] {
			copy(out, sum)
		}
	}
	if r.Residual != 0 {
		hostreduce.Decode(e.other, e.at(r.Residual, row), r.Type)
		for i := range e.z {
			e.z[i] += e.other[i]
		}
		e.rounded(e.z)
	}
	if r.ResidualOut != 0 {
		hostreduce.Encode(e.at(r.ResidualOut, row), e.z, r.Type)
	}
	if r.normalises() {
		e.normalise()
	}
}

// normalise is step 3: z becomes the norm.
func (e *epilogue) normalise() {
	mean := sumOfSquares(e.z) / float32(len(e.z))
	factor := 1 / float32(math.Sqrt(float64(mean+e.r.Epsilon)))
	for i, z := range e.z {
		v := float32(z * factor)
		if e.weight != nil {
			v = float32(v * e.weight[i])
		}
		e.z[i] = v
	}
	e.rounded(e.z)
}

// write stores a normalised row, and is step 4.
func (e *epilogue) write(row int64) {
	r := e.r
	if r.Norm != 0 {
		hostreduce.Encode(e.at(r.Norm, row), e.z, r.Type)
	}
	if r.Quantisation == NoQuantisation {
		return
	}
	scale := e.scale()
	if r.Quantisation == Dynamic {
		binary.NativeEndian.PutUint32(device.Bytes(r.ScaleOut.Add(4*row), 4), math.Float32bits(scale))
	}
	inverse := 1 / scale
	for i := range e.z {
		e.z[i] = float32(e.z[i] * inverse)
	}
	out := device.Bytes(r.Quant.Add(row*r.Hidden), r.Hidden)
	if r.QuantType == datatype.Float8E4M3 {
		hostreduce.Encode(out, e.z, datatype.Float8E4M3)
		return
	}
	for i, v := range e.z {
		out[i] = byte(roundInt8(v))
	}
}

// scale is the scale of the row.
func (e *epilogue) scale() float32 {
	if e.r.Quantisation == Static {
		return math.Float32frombits(binary.NativeEndian.Uint32(device.Bytes(e.r.Scale, 4)))
	}
	largest := float32(0)
	for _, v := range e.z {
		if a := float32(math.Abs(float64(v))); a > largest { // not for NaN
			largest = a
		}
	}
	if largest == 0 {
		return 1
	}
	if e.r.QuantType == datatype.Int8 {
		return largest / 127
	}
	return largest / 448
}

// roundInt8 rounds to nearest even and saturates; NaN becomes 0.
func roundInt8(v float32) int8 {
	if v != v {
		return 0
	}
	return int8(math.RoundToEven(float64(min(max(v, -128), 127))))
}

// sumOfSquares adds the squares of a row in the order of the kernels:
//
//	group    ((a+b)+(c+d)) + ((e+f)+(g+h))
//	thread   its groups, one after the other
//	warp     in pairs of lanes 16, 8, 4, 2 and 1 apart
//	block    its warps, one after the other
func sumOfSquares(row []float32) float32 {
	threads := threadsOf(int64(len(row)))
	lanes := make([]float32, threads)
	square := func(v float32) float32 { return float32(v * v) }
	for g := 0; g < len(row)/groupElements; g++ {
		v := row[g*groupElements:][:groupElements]
		lanes[g%threads] += ((square(v[0]) + square(v[1])) + (square(v[2]) + square(v[3]))) +
			((square(v[4]) + square(v[5])) + (square(v[6]) + square(v[7])))
	}
	total := float32(0)
	for w := 0; w < threads; w += warp {
		l := lanes[w : w+warp]
		for apart := warp / 2; apart > 0; apart /= 2 {
			for i := range apart {
				l[i] += l[i+apart]
			}
		}
		total += l[0]
	}
	return total
}
