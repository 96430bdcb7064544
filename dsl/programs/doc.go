// Package programs holds the collectives that goccl ships as programs of package dsl.
//
// Each is registered by name with a generator over the number of ranks and hosts; Build compiles one. Ranks of a host are consecutive and
// reach each other by memory channels, ranks of different hosts by port channels. Every program keeps the rules of plan writers:
//
//   - Simple programs begin with a handshake with every rank whose memory they touch, because kernels start at different times, and end with
//     one if peers still read or write this rank's buffers;
//   - LL programs write each packet once per launch and alternate between two halves of scratch. That alone is enough only where every rank
//     both sends to and receives from every other; one-way programs handshake first;
//   - a sum is computed in one place and distributed, or computed everywhere in rank order, so that all ranks hold the same bits.
//
// The package is pure like dsl. Its registry is filled at initialisation and never changes.
package programs
