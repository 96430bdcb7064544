// Package contract tests what package goccl promises, through its public API only.
package contract
