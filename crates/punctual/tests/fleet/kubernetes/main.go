// Decodes manifests as the API server of Kubernetes does with strict field validation: an unknown or repeated field, or
// a value of the wrong type, is an error. Prints the objects as JSON, one a line.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func decoded(text []byte) (any, error) {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	var object any
	switch kind.APIVersion + " " + kind.Kind {
	case "batch/v1 Job":
		object = &batch.Job{}
	case "apps/v1 DaemonSet":
		object = &apps.DaemonSet{}
	case "v1 Pod":
		object = &core.Pod{}
	case "v1 Namespace":
		object = &core.Namespace{}
	default:
		return nil, fmt.Errorf("unknown kind %s %s", kind.APIVersion, kind.Kind)
	}
	return object, yaml.UnmarshalStrict(text, object)
}

func main() {
	status := 0
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err == nil {
			var object any
			if object, err = decoded(text); err == nil {
				err = json.NewEncoder(os.Stdout).Encode(object)
			}
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			status = 1
		}
	}
	os.Exit(status)
}
