package nvml

// The layout of health.h is in zz_layout.go.
//
//go:generate go run ../../../tools/layouts

// Health is the state of one GPU. -1 means that NVML does not know; so does Unread for counters.
type Health struct {
	Name, BusID string
	State
}

// Unread is a counter that NVML does not have.
const Unread = ^uint64(0)

// The bits of State.Throttle: reasons why clocks are lower than they could be.
const (
	ThrottleIdle         = 1 << 0
	ThrottleHardware     = 1 << 3
	ThrottleSync         = 1 << 4
	ThrottleThermal      = 1 << 5
	ThrottleHardwareHeat = 1 << 6
	ThrottlePowerBrake   = 1 << 7
)
