package cuda

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/internal/driver/nvml"
)

// The CUDA driver reports the links of visible GPUs; NVML reports the links of other GPUs and of pairs without native
// atomics.
func TestLinkTo(t *testing.T) {
	if !mocked {
		t.Skip("this test needs the mock driver")
	}
	d := open(t, 0)
	const seen, hidden = "0000:02:00.0", "0000:77:00.0"
	info := func(link nvml.Link, p2p bool) *nvml.Info {
		i := &nvml.Info{GPUs: []nvml.GPU{{BusID: hidden}, {BusID: seen}, {BusID: d.Properties().BusID}},
			P2P: make([][]bool, 3), Known: make([][]bool, 3)}
		for a := range i.GPUs {
			i.GPUs[a].Links = []nvml.Link{link}
			i.P2P[a], i.Known[a] = []bool{p2p, p2p, p2p}, []bool{true, true, true}
		}
		return i
	}
	toSwitch, none := nvml.Link{Kind: nvml.ToSwitch, Remote: "0000:07:00.0"}, nvml.Link{Kind: nvml.ToOther}
	before := readNVML
	defer func() { readNVML = before }()
	for name, c := range map[string]struct {
		noPeer, noNVLink string
		info             *nvml.Info
		bus              string
		want             Link
	}{
		"itself":                     {bus: d.Properties().BusID, want: SameGPU},
		"seen, no NVML":              {bus: seen, want: NVLink},
		"seen, PCIe, no NVML":        {noNVLink: "1", bus: seen, want: PCIe},
		"seen, PCIe":                 {noNVLink: "1", info: info(none, true), bus: seen, want: PCIe},
		"seen, NVML knows better":    {noNVLink: "1", info: info(toSwitch, true), bus: seen, want: NVLink},
		"seen, no access":            {noPeer: "1", info: info(toSwitch, true), bus: seen, want: NoLink},
		"hidden, no NVML":            {bus: hidden, want: PCIe},
		"hidden, NVLink":             {info: info(toSwitch, true), bus: hidden, want: NVLink},
		"hidden, PCIe":               {info: info(none, true), bus: hidden, want: PCIe},
		"hidden, no access":          {info: info(none, false), bus: hidden, want: NoLink},
		"hidden, NVML does not know": {info: info(toSwitch, true), bus: "0000:99:00.0", want: PCIe},
	} {
		t.Setenv("MOCKCUDA_NO_PEER", c.noPeer)
		t.Setenv("MOCKCUDA_NO_NVLINK", c.noNVLink)
		readNVML = func() (*nvml.Info, error) {
			if c.info == nil {
				return nil, errors.New("no NVML")
			}
			return c.info, nil
		}
		if got, err := d.LinkTo(c.bus); got != c.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
