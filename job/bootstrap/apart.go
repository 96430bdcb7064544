package bootstrap

// apart is a group whose ranks count as hosts of their own.
type apart struct{ *group }

// Apart returns b with every rank on a host of its own, for ranks of one host that share no memory.
func Apart(b Bootstrap) Bootstrap {
	if g, ok := b.(*group); ok {
		return apart{g}
	}
	return b
}

// Hosts implements Bootstrap.
func (a apart) Hosts() []int {
	hosts := make([]int, a.WorldSize())
	for r := range hosts {
		hosts[r] = r
	}
	return hosts
}
