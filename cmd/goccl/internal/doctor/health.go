package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/cmd/goccl/internal/query"
	"github.com/goccl/goccl/internal/driver/nvml"
)

// check is one look at the state of a GPU. good is "" if NVML does not know; bad describes the fault, "" for none.
type check struct {
	name, mend string
	grade      Status // of a fault
	look       func(h *nvml.Health) (good, bad string)
}

const unread = nvml.Unread

// checks is in the order of the report.
var checks = []check{
	{"GPU memory", "drain the GPU and reset it (nvidia-smi -r, as the administrator); replace it if that does not help",
		Fail, func(h *nvml.Health) (string, string) {
			switch {
			case h.RowsFailed == 1:
				return "", "a row of memory is broken and could not be replaced"
			case h.RowsPending == 1 || h.PagesPending == 1:
				return "", "a row of memory will be replaced at the next reset"
			case h.ECCUncorrected != unread && h.ECCUncorrected > 0:
				return "", fmt.Sprintf("%d uncorrectable ECC errors since the driver was loaded", h.ECCUncorrected)
			case h.RowsFailed < 0 && h.ECCUncorrected == unread:
				return "", ""
			}
			return "no errors that were not corrected", ""
		}},
	{"ECC", "nvidia-smi -e 1, as the administrator, and a reset", Warn,
		func(h *nvml.Health) (string, string) {
			switch {
			case h.ECC == 0:
				return "", "is off: wrong bits in memory reach the results"
			case h.ECCCorrected != unread && h.ECCCorrected > 1000:
				return "", fmt.Sprintf("%d corrected errors since the driver was loaded: the memory is getting worse",
					h.ECCCorrected)
			case h.ECC == 1:
				return "is on", ""
			}
			return "", ""
		}},
	{"PCIe link", "reseat the card or its riser, and look at the slot's setting in the firmware: signals are bad or the " +
		"slot is narrow", Warn, func(h *nvml.Health) (string, string) {
		switch {
		case h.PCIeWidth < 0 || h.PCIeWidthMost < 0:
			return "", ""
		case h.PCIeWidth < h.PCIeWidthMost:
			return "", fmt.Sprintf("runs with %d lanes of %d", h.PCIeWidth, h.PCIeWidthMost)
		case h.PCIeGen < h.PCIeGenMost && h.Throttle&nvml.ThrottleIdle == 0:
			return "", fmt.Sprintf("runs as generation %d of %d although the GPU is busy", h.PCIeGen, h.PCIeGenMost)
		}
		return fmt.Sprintf("generation %d, %d lanes", h.PCIeGenMost, h.PCIeWidth), ""
	}},
	{"PCIe replays", "reseat the card or its riser: signals are bad; look whether the number grows", Warn,
		func(h *nvml.Health) (string, string) {
			switch {
			case h.PCIeReplays == unread:
				return "", ""
			case h.PCIeReplays > 100:
				return "", fmt.Sprintf("%d packets had to be sent again since the driver was loaded", h.PCIeReplays)
			}
			return "few or none", ""
		}},
	{"NVLink errors", "see nvidia-smi nvlink -e: reset the GPUs; a link that goes on failing needs service", Warn,
		func(h *nvml.Health) (string, string) {
			if h.LinkReplays == unread && h.LinkRecoveries == unread && h.LinkCRCFlit == unread {
				return "", ""
			}
			bad := []string{}
			for _, c := range []struct {
				name string
				n    uint64
			}{{"replays", h.LinkReplays}, {"recoveries", h.LinkRecoveries}, {"CRC errors", h.LinkCRCFlit},
				{"CRC errors in data", h.LinkCRCData}} {
				if c.n != unread && c.n > 0 {
					bad = append(bad, fmt.Sprintf("%d %s", c.n, c.name))
				}
			}
			if len(bad) > 0 {
				return "", strings.Join(bad, ", ") + " since the driver was loaded"
			}
			return "none", ""
		}},
	{"BAR1", "turn on Resizable BAR and Above 4G Decoding in the firmware", Warn, bar1},
	{"persistence", "nvidia-smi -pm 1 or nvidia-persistenced, as the administrator", Warn,
		func(h *nvml.Health) (string, string) {
			switch h.Persistence {
			case 0:
				return "", "is off: the first process on an idle GPU waits seconds for the driver, and counters are lost"
			case 1:
				return "is on", ""
			}
			return "", ""
		}},
	{"clocks", "look at cooling, power supply and limits: nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE", Warn, clocks},
	{"compute mode", "nvidia-smi -c 0, as the administrator", Warn, func(h *nvml.Health) (string, string) {
		switch h.ComputeMode {
		case 0:
			return "processes may share the GPU", ""
		case 2:
			return "", "is Prohibited: no process may use the GPU"
		case 1, 3:
			return "", "is Exclusive: a second process on the GPU, also a profiler or a rank, is refused"
		}
		return "", ""
	}},
}

// bar1 compares the window through which other devices reach the GPU's memory with that memory.
func bar1(h *nvml.Health) (string, string) {
	switch {
	case h.BAR1Total == unread || h.BAR1Total == 0:
		return "", ""
	case h.Memory != unread && h.BAR1Total < h.Memory:
		return "", fmt.Sprintf("is %s of %s of memory: over PCIe, peers and NICs cannot reach all buffers", size(h.BAR1Total),
			size(h.Memory))
	case h.BAR1Free < h.BAR1Total/16:
		return "", fmt.Sprintf("has %s of %s left: registering buffers with a NIC will fail", size(h.BAR1Free),
			size(h.BAR1Total))
	}
	return "covers all memory", ""
}

func clocks(h *nvml.Health) (string, string) {
	if h.Throttle == unread {
		return "", ""
	}
	var why []string
	for _, r := range []struct {
		bit  uint64
		text string
	}{{nvml.ThrottleHardwareHeat, "heat (hardware)"}, {nvml.ThrottleThermal, "heat"},
		{nvml.ThrottlePowerBrake, "power brake"}, {nvml.ThrottleHardware, "hardware"}, {nvml.ThrottleSync, "sync boost"}} {
		if h.Throttle&r.bit != 0 {
			why = append(why, r.text)
		}
	}
	if len(why) > 0 {
		return "", fmt.Sprintf("are held down by %s: %d of %d MHz, %d °C", strings.Join(why, ", "), h.SMClock,
			h.SMClockMost, h.Temperature)
	}
	return "not held down", ""
}

// health reports the state of the GPUs: a line for each check, and for each GPU that does not pass one.
func (s Source) health(ctx context.Context, r *report) {
	if s.Health == nil {
		return
	}
	r.area = "health"
	gpus, err := query.Ask(ctx, s.Health)
	if err != nil && len(gpus) > 0 {
		r.fail(fmt.Sprintf("GPU %d", len(gpus)),
			"see dmesg for Xid errors; the GPU may have to be reset by the administrator", "%v", err)
	}
	for _, c := range checks {
		var good []string
		well := 0
		for i := range gpus {
			text, bad := c.look(&gpus[i])
			switch {
			case bad != "":
				r.add(c.grade, c.name, c.mend, "GPU %d (%s): %s", i, gpus[i].BusID, bad)
			case text != "":
				well++
				good = append(good, text)
			}
		}
		if slices.Sort(good); well > 0 {
			r.ok(c.name, "%d GPUs: %s", well, strings.Join(slices.Compact(good), "; "))
		}
	}
}
