package bootstrap

import "context"

// MostAlike returns the largest number of ranks that give the same key, such as the name of their GPU. It is
// collective.
func MostAlike(ctx context.Context, b Bootstrap, key string) (most int, err error) {
	all, err := b.AllGather(ctx, []byte(key))
	count := map[string]int{}
	for _, k := range all {
		count[string(k)]++
		most = max(most, count[string(k)])
	}
	return most, err
}
