// Package observe shows what the collectives of running jobs do, and names what holds them up.
//
//  1. A Source returns the ranks that it sees: the records of libgoccl-profiler.so in the processes of this host, dumps
//     of PyTorch's flight recorder, another host's watch.
//  2. Look puts the ranks of each communicator together: a Snapshot.
//  3. Judge compares the ranks and returns the faults that it finds: Verdicts. It is a function of the snapshot alone.
//  4. A snapshot is written as a table, as JSON, as a page, in the formats of NCCL's RAS, or as metrics.
//
// Nothing here talks to the watched processes or stops them. Values may be used by one goroutine at a time; a Server
// shares one Watcher between its clients.
package observe
