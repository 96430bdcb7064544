package nvlink

// Force makes the algorithms of spec, in the format of GOCCL_ALGO, the choice for all later requests, so that one
// Engine can measure every algorithm. It follows the threading rule of Enqueue and gets the same spec on every rank.
func (e *Engine) Force(spec string) error {
	if err := e.table.force(spec, true); err != nil {
		return err
	}
	return e.loadChosen()
}
