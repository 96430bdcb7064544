package topo

import "path/filepath"

// Nearest returns the places in adapters of those that are nearest to the device at a PCI address, in their order. An
// adapter is the path of its PCI device in sysfs (transport.NIC.PCI). Adapters of unknown place are farther than all
// others; if no distance is known, all are nearest. Ranks whose devices have the same nearest adapters share them in
// turn.
func Nearest(busID string, adapters []string) []int { return sysfs{"/"}.nearest(busID, adapters) }

func (s sysfs) nearest(busID string, adapters []string) []int {
	best := PathSys + 1
	distance := make([]Path, len(adapters))
	for i, path := range adapters {
		if distance[i] = s.path(busID, pciOf(path)); distance[i] == PathUnknown {
			distance[i] = PathSys + 1
		}
		best = min(best, distance[i])
	}
	var near []int
	for i, d := range distance {
		if d == best {
			near = append(near, i)
		}
	}
	return near
}

// pciOf returns the last PCI address in a path of sysfs; virtio devices and network interfaces lie below theirs.
func pciOf(path string) string {
	for ; path != "" && path != "/" && path != "."; path = filepath.Dir(path) {
		if base := filepath.Base(path); pciAddress.MatchString(base) {
			return base
		}
	}
	return ""
}
