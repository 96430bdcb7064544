package record

// publish stores v after all earlier stores. The processor keeps the order of stores, and the compiler keeps the order
// of stores to memory. An atomic store would also wait until they have reached the cache, which costs more than all of
// them.
func publish(p *uint64, v uint64) { *p = v }
