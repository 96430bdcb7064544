package wait

// Signal wakes the goroutine that waits for c, now or later. c has room for one signal.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
