package setting

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	for name, value := range map[string]string{"GOCCL_TEST_SAME": "1", "GOCCL_TEST_OTHER": "old", "GOCCL_TEST_GONE": "x"} {
		t.Setenv(name, value)
	}
	t.Setenv("GOCCL_TEST_NEW", "") // restored at the end
	if err := os.Unsetenv("GOCCL_TEST_NEW"); err != nil {
		t.Fatal(err)
	}
	entries := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "GOCCL_TEST_OTHER=") || strings.HasPrefix(e, "GOCCL_TEST_GONE=")
	})
	Load(append(entries, "GOCCL_TEST_OTHER=a=b", "GOCCL_TEST_OTHER=second", "GOCCL_TEST_NEW=", "nonsense", "=nameless"))
	for name, want := range map[string]string{"GOCCL_TEST_SAME": "1", "GOCCL_TEST_OTHER": "a=b", "GOCCL_TEST_NEW": ""} {
		if got, is := os.LookupEnv(name); got != want || !is {
			t.Errorf("%s is %q, %v; want %q", name, got, is, want)
		}
	}
	if _, is := os.LookupEnv("GOCCL_TEST_GONE"); is {
		t.Error("what the program unset is there again")
	}
}
