#!/bin/sh
# Prints op_list.go: the operations of op.h as Go constants.
cat <<'END'
// Generated from op.h by go generate. DO NOT EDIT.

package driver

const (
END
grep -v '^//' op.h | grep -o 'OP([A-Z][A-Za-z0-9]*)' | sed 's/OP(/	op/; s/)//; 1s/$/ op = iota/'
printf '\topCount\n)\n'
