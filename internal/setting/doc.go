// Package setting is the only reader of the environment. One table names every variable and its allowed values;
// docs/environment.md explains each.
//
//	Read       parses the variables into a Config; the error names every bad value and the allowed ones
//	Get        the text of one variable that is not goccl's, such as a launcher's
//	Variables  the table
//
// # Lifetime and threads
//
// Read takes the values at the time of the call and keeps nothing. Any function except Load may be called from any
// goroutine.
package setting
