// Package ranks runs a job whose ranks are processes of this host, seen from outside: it starts them, reads the reports
// that they print, signals them, and knows how they ended. Tests (commtest) and `goccl chaos` use it.
//
// # Lifetime and threads
//
// Every Job ends with Close, which kills what still runs. Its methods may be called from any goroutine.
package ranks
