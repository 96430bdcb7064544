package shm

// Distant makes the engine treat its peers as if they were in other processes: buffers are registered and mapped. All
// ranks must do so.
func (e *Engine) Distant() { e.local = false }

// Live counts the directory entries of this rank and its mappings of peers' buffers.
func (e *Engine) Live() (entries, mappings int) { return e.buffers.Live() }
