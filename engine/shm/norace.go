//go:build !race

package shm

func (m *meeting) released() {}

func (m *meeting) acquired() {}

func writes([]byte) {}
