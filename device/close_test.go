package device_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goccl/goccl/device"
)

type closed struct {
	err error
	log *[]error
}

func (c *closed) Close() error {
	*c.log = append(*c.log, c.err)
	return c.err
}

func TestCloseAll(t *testing.T) {
	var log []error
	first, second := &closed{errors.New("first"), &log}, &closed{errors.New("second"), &log}
	err := device.CloseAll(first, nil, second, &closed{nil, &log})
	if !slices.Equal(log, []error{first.err, second.err, nil}) {
		t.Errorf("closed %v", log)
	}
	if !errors.Is(err, first.err) || !errors.Is(err, second.err) {
		t.Errorf("%v", err)
	}
	if err := device.CloseAll[*closed](nil); err != nil {
		t.Errorf("nothing was made: %v", err)
	}
}
