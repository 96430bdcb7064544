package executor

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/algorithm"
)

func newCUDAEngine(ctx context.Context, x *ExecutionPlan) (engine, error) {
	return nil, fmt.Errorf("%w: plans on %v", algorithm.ErrUnsupported, x.e.dev.ID())
}
