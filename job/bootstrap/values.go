package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
)

// GatherJSON gathers a value of each rank by all, an AllGather. What names the values in the error for one that cannot
// be read.
func GatherJSON[T any](ctx context.Context, all func(context.Context, []byte) ([][]byte, error), what string, mine T) (
	[]T, error,
) {
	b, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	blobs, err := all(ctx, b)
	if err != nil {
		return nil, err
	}
	values := make([]T, len(blobs))
	for r, b := range blobs {
		if err := json.Unmarshal(b, &values[r]); err != nil {
			return nil, fmt.Errorf("%s of rank %d: %w", what, r, err)
		}
	}
	return values, nil
}
