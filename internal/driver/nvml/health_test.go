//go:build cgo && linux

package nvml

import "testing"

func TestReadHealth(t *testing.T) {
	t.Setenv("GOCCL_NVML_LIB", mock(t))
	all, err := ReadHealth()
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	well := Health{Name: "Mock 0", BusID: "0000:1a:00.0", State: State{Persistence: 1, ECC: 1, ECCPending: 1,
		Temperature: 40, PCIeGen: 5, PCIeGenMost: 5, PCIeWidth: 16, PCIeWidthMost: 16, SMClock: 1980, SMClockMost: 1980,
		MemoryClock: 2619, MemoryClockMost: 2619, BAR1Total: 256 << 30, BAR1Free: 256<<30 - 1<<20, Memory: 1 << 30}}
	if all[0] != well {
		t.Errorf("%+v", all[0])
	}
	ill := Health{Name: "Mock 1", BusID: "0000:1b:00.0", State: State{ECCPending: 1, ComputeMode: 3, Temperature: 90,
		PCIeGen: 1, PCIeGenMost: 5, PCIeWidth: 8, PCIeWidthMost: 16, SMClock: 990, SMClockMost: 1980, MemoryClock: 1309,
		MemoryClockMost: 2619, RowsPending: 1, RowsFailed: 1, RowsRemapped: 3, BAR1Total: 256 << 20, BAR1Free: 255 << 20,
		Memory: 2 << 30, Throttle: ThrottleHardwareHeat, PCIeReplays: 1234, ECCCorrected: 7, ECCUncorrected: 8,
		LinkReplays: 15, LinkRecoveries: 615, LinkCRCFlit: 1215, LinkCRCData: 1815}}
	if all[1] != ill {
		t.Errorf("%+v", all[1])
	}
	if u := all[2]; u.Persistence != -1 || u.ECC != -1 || u.PCIeReplays != Unread || u.LinkReplays != Unread ||
		u.BAR1Total != Unread || u.Throttle != Unread || u.SMClock != -1 || u.MIG != 1 || u.Memory != 3<<30 {
		t.Errorf("%+v", u)
	}
}
