// Package archtest tests the rules of the design: packages import only their own layer and lower ones, only three
// places use cgo, and the plan and the language for writing plans stay pure. It contains only tests and their tables.
package archtest
