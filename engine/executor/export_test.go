package executor

// Live counts this rank's directory entries and its mappings of peers' buffers.
func (e *Executor) Live() (entries, mappings int) {
	if e.buffers == nil {
		return 0, 0
	}
	return e.buffers.Live()
}
