// Command manifests decodes manifests of Kubernetes into its own types, and refuses fields that these do not have.
package main

import (
	"fmt"
	"os"
	"strings"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "manifests: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i, document := range strings.Split(string(text), "\n---\n") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return err
		}
		var object any
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 Service":
			object = &core.Service{}
		case "batch/v1 Job":
			object = &batch.Job{}
		default:
			return fmt.Errorf("document %d: %s %s is of no kind that this program knows", i+1, kind.APIVersion, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	return nil
}
