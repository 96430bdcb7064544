package device

import "errors"

// CloseAll closes objects in their order, except for zero values: what was never made.
func CloseAll[T interface {
	comparable
	Close() error
}](all ...T) error {
	var zero T
	var errs []error
	for _, c := range all {
		if c != zero {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
