// Package metrics counts the collectives of communicators for Prometheus and OpenTelemetry: operations, bytes, times
// and what bus bandwidth follows from, by collective, size class, algorithm, communicator and rank; deaths, aborts and
// network retries; memory. It reads existing records when metrics are gathered, and adds no work to an operation.
//
//	Collector   a prometheus.Collector over a function that returns communicators
//	OpenTelemetry   sends the metrics of a gatherer by OTLP
//
// `goccl watch --http` serves them for the processes of a host; a Go program can register a Collector. Nothing
// that goccl's root imports imports this package, so a user of the library does not get its modules.
//
// Values may be used by several goroutines at a time.
package metrics
