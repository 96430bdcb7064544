// Package programs contains the collectives that goccl ships as programs of package dsl.
//
// Each program is registered by name with a generator over the number of ranks and hosts; Build compiles one. Ranks of
// a host are consecutive and access each other by memory channels; ranks of different hosts use port channels. Every
// program follows these rules:
//
//   - Simple programs begin with a handshake with every rank whose memory they access, because kernels start at
//     different times. They end with a handshake if peers may still read or write this rank's buffers;
//   - LL programs write each packet once per launch and alternate between two halves of scratch. That alone is enough
//     only if every rank both sends to and receives from every other; one-way programs handshake first;
//   - a sum is computed in one place and distributed, or computed everywhere in rank order, so that all ranks have the
//     same bits.
//
// The package is pure, like dsl. Its registry is filled at initialization and never changes.
package programs
