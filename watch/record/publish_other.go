//go:build !amd64

package record

import "sync/atomic"

// publish stores v after all earlier stores.
func publish(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
