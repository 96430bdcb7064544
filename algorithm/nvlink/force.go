package nvlink

// Force makes what spec says, in GOCCL_ALGO's form, the choice for all later requests, so that one Engine can measure every algorithm. It is called
// where Enqueue may be, and with the same spec on every rank.
func (e *Engine) Force(spec string) error {
	if err := e.table.force(spec, true); err != nil {
		return err
	}
	return e.loadChosen()
}
