package nvlink

import (
	"fmt"
	"strings"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels"
)

// reduction is a family of kernels that reduce data. It determines the prefix of their names.
type reduction uint8

const (
	oneShot reduction = iota
	twoShot
	scattered
	rooted
	numReductions
)

var reductionNames = [numReductions]string{"all_reduce_one_shot", "all_reduce_two_shot", "reduce_scatter", "reduce"}

// movement is a family of kernels that move data, independent of its type.
type movement uint8

const (
	exchanging movement = iota
	broadcasting
	numMovements
)

var movementNames = [numMovements]string{"exchange", "broadcast"}

// kernelTable holds every kernel that an engine may launch; kernels that do not exist are nil. The last index is 1 for
// the kernels specialized for this number of ranks, which need addresses and sizes that are multiples of 8.
type kernelTable struct {
	reduce [numReductions][numProtocols][datatype.NumTypes][2]*cuda.Function
	move   [numMovements][numProtocols][2]*cuda.Function

	// Point-to-point kernels for messages whose addresses and sizes are multiples of 8, and for others. The index is 1 for
	// few messages. Without NVLink both are the LL kernels, which take messages of any address and size.
	aligned, unaligned [2]*cuda.Function
	stream             *cuda.Function

	counted *cuda.Function // all-to-all-v with the counts on the device
}

func reductionName(what reduction, p protocol, t datatype.Type, specialised, ranks int) string {
	name := fmt.Sprintf("%s_%s_%s", reductionNames[what], p, typeNames[t])
	if specialised != 0 {
		name += fmt.Sprintf("_sum_n%d", ranks)
	}
	return name
}

func movementName(what movement, p protocol, specialised, ranks int) string {
	name := fmt.Sprintf("%s_%s", movementNames[what], p)
	if specialised != 0 {
		name += fmt.Sprintf("_n%d", ranks)
	}
	return name
}

// carveout is 32 KiB of an SM as shared memory, in percent of its L1 cache. It is one for all kernels: the blocks of
// different communicators must fit on one SM together, since a peer may wait for either.
const carveout = 14

// function finds a kernel of the collectives.
func function(m *cuda.Module, name string) (*cuda.Function, error) {
	f, err := m.Function(name)
	if err != nil {
		return nil, err
	}
	if name == kernels.Entry("point_to_point_stream") {
		return f, nil // 8 % faster with the driver's choice, from 32 MiB on an H200; its grid leaves SMs free
	}
	return f, f.SetSharedCarveout(carveout)
}

// load finds the kernels for a number of ranks in the modules that have them. It loads each kernel onto the device now.
// Otherwise the driver would load it at its first use, and might then wait until the device is idle, which never
// happens while another rank's kernel waits for ours.
func (k *kernelTable) load(where map[string]*cuda.Module, ranks int, noLL128 bool) error {
	var err error
	find := func(name string) (f *cuda.Function) {
		name = kernels.Entry(name)
		if m := where[name]; err == nil && m != nil {
			f, err = function(m, name)
		}
		return f
	}
	for p := range numProtocols {
		for specialised := range 2 {
			for what := range numReductions {
				for t := range datatype.NumTypes {
					k.reduce[what][p][t][specialised] = find(reductionName(what, p, t, specialised, ranks))
				}
			}
			for what := range numMovements {
				k.move[what][p][specialised] = find(movementName(what, p, specialised, ranks))
			}
		}
	}
	aligned, unaligned, counted := "words", "bytes", "all_to_all_v_device"
	if noLL128 {
		aligned, unaligned, counted = "ll", "ll", counted+"_ll"
	}
	for _, x := range []struct {
		f    **cuda.Function
		name string
	}{{&k.aligned[0], "point_to_point_" + aligned}, {&k.aligned[1], "point_to_point_few_" + aligned},
		{&k.unaligned[0], "point_to_point_" + unaligned}, {&k.unaligned[1], "point_to_point_few_" + unaligned},
		{&k.stream, "point_to_point_stream"}, {&k.counted, counted}} {
		if *x.f = find(x.name); *x.f == nil && err == nil {
			err = fmt.Errorf("%w: no kernel %s in the embedded module", collective.ErrUnsupported, x.name)
		}
	}
	return err
}

// missing is the error of a launch whose kernel does not exist.
func missing(parts ...any) error {
	return fmt.Errorf("%w: no kernel for %s", collective.ErrUnsupported, strings.TrimSpace(fmt.Sprintln(parts...)))
}
