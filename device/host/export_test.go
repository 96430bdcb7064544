package host

// ClearError makes the stream usable again after an error and returns that error. Work that was enqueued after the
// failure stays skipped.
func (s *Stream) ClearError() error {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	err := s.q.err
	s.q.err = nil
	return err
}
