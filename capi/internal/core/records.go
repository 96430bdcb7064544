package core

import (
	"bytes"
	"fmt"

	"github.com/goccl/goccl"
)

// Records returns the records of this process's communicators in one of record.Formats.
func Records(format string) ([]byte, error) {
	var b bytes.Buffer
	if err := goccl.WriteRecords(&b, format); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	return b.Bytes(), nil
}
