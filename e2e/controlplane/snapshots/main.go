// Prints the resource hash that KubeFleet would write for the objects of each line of its input, a JSON list.
//
// An object takes the way that it takes there: read from an API server as unstructured content, written as the raw
// extension of a resource snapshot, and hashed with the others as JSON.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

type snapshotSpec struct {
	SelectedResources []runtime.RawExtension `json:"selectedResources"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		digest, err := digestOf(lines.Bytes())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(digest)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func digestOf(line []byte) (string, error) {
	var objects []any
	if err := utiljson.Unmarshal(line, &objects); err != nil {
		return "", err
	}
	spec := snapshotSpec{SelectedResources: make([]runtime.RawExtension, len(objects))}
	for i, content := range objects {
		object := unstructured.Unstructured{Object: content.(map[string]any)}
		raw, err := object.MarshalJSON()
		if err != nil {
			return "", err
		}
		spec.SelectedResources[i].Raw = raw
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}
