// Package models checks the protocols of goccl as small models, in every state that they can reach: epochs and
// parities of packets (packet), slots and room of a ring (ring), how ranks tell each other that they leave (abort),
// the order of work on several streams (order), work in place (direct) and the roles of a block there (pipeline), and
// barriers without kernels (token); packets without flags, in all-reduces and fused ones (lamport), requests to a proxy
// beside direct stores (port) and experts without copies (experts). The code that a model is about names it and its
// property in one sentence.
//
// A model is a state, which is comparable, and a function that lists the states that can follow. The checker visits
// them all. It finds a state that breaks the property, a state that nothing follows although the work is not done, and
// a state from which no end can be reached. Most models are of three ranks and three epochs. Each is checked with
// faults, too, that the checker must find. Package models contains only tests.
package models
