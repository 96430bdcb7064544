// Command docgen generates the parts of the documentation that are derived from other files, so that figures in the
// text always match the measurements: tables between markers in README.md and docs/, and the pictures in docs/images.
//
//	go run ./tools/docgen          writes them (go generate does that)
//	go run ./tools/docgen -check   fails when one is not up to date, as the package's test does
//	go run ./tools/docgen -chaos FOLDER   adds results of `goccl chaos` to the scoreboard, and writes
//
// A marker is a comment alone on its line; the text between it and the next end marker is replaced:
//
//	<!-- docgen: measured FOLDER COLLECTIVE TYPE -->   times beside another library, from
//	                                                   FOLDER/perf.COLLECTIVE.TYPE.{eager,graph}.json
//	<!-- docgen: chosen COLLECTIVE -->                 which algorithm runs by size, from engine/nvlink/tables
//	<!-- docgen: primitives FILE -->                   figures of primitives and their targets
//	<!-- docgen: training FILE -->                     training steps on both libraries, from bench/training's FILE
//	<!-- docgen: beside FILE -->                       collectives beside GEMMs, from bench/overlap's FILE
//	<!-- docgen: alone FILE -->                        collectives alone, likewise
//	<!-- docgen: ops WHICH -->                         the ops of plans, from plan/op_table.go: synchronization or data
//	<!-- docgen: chaos PART FOLDER… -->                of the scoreboard, from bench/results/FOLDER/chaos*.json, of
//	                                                   which later ones replace cells of earlier ones: summary, classes,
//	                                                   cells or times on the host device; gpus; fuzz, from the last
//	                                                   fuzz.json
//	<!-- docgen: end -->
//
// docs/images/steps.svg shows the newest bench/results/*/training.steps.json, if there is one.
//
// It also writes into plan/schema.json the names of the ops and what each of them requires.
package main

//go:generate go run .
