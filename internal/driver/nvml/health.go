package nvml

// Health is the state of one GPU. -1 means that NVML does not know; so does Unread for counters.
type Health struct {
	Name, BusID string
	// Persistence, ECC and MIG are 1 when they are on; ECCPending is ECC after the next start.
	Persistence, ECC, ECCPending, MIG int
	// ComputeMode is NVML's: 0 all processes, 2 none, 3 one.
	ComputeMode int
	Temperature int // °C
	// The PCIe link now, and what device and slot can do.
	PCIeGen, PCIeGenMost, PCIeWidth, PCIeWidthMost int
	// Clocks in MHz.
	SMClock, SMClockMost, MemoryClock, MemoryClockMost int
	// Rows of memory that were replaced; Pending needs a reset, Failed a new GPU.
	RowsPending, RowsFailed, RowsRemapped, PagesPending int
	BAR1Total, BAR1Free, Memory                         uint64 // bytes
	Throttle                                            Throttle
	// Counters since the driver was loaded.
	PCIeReplays, ECCCorrected, ECCUncorrected             uint64
	LinkReplays, LinkRecoveries, LinkCRCFlit, LinkCRCData uint64
}

// Unread is a counter that NVML does not have.
const Unread = ^uint64(0)

// Throttle is NVML's set of reasons why clocks are lower than they could be.
type Throttle uint64

// The reasons.
const (
	ThrottleIdle         Throttle = 1 << 0
	ThrottleHardware     Throttle = 1 << 3
	ThrottleSync         Throttle = 1 << 4
	ThrottleThermal      Throttle = 1 << 5
	ThrottleHardwareHeat Throttle = 1 << 6
	ThrottlePowerBrake   Throttle = 1 << 7
)
