// The least webhook in Go, to compare with: it decodes review and pod with the types of k8s.io/api and answers with two
// JSON Patch operations. Usage: gowebhook ADDRESS CERTIFICATE KEY
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func mutate(writer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(io.LimitReader(request.Body, 7<<20))
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(writer, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	var pod corev1.Pod
	if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	claim := corev1.PodResourceClaim{Name: "gpu"}
	operations := []operation{
		{"add", "/spec/resourceClaims", append(pod.Spec.ResourceClaims, claim)},
		{"add", "/metadata/labels/example.org~1injected", "true"},
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	patchType := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: &patchType,
	}
	review.Request = nil
	writer.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(writer).Encode(review); err != nil {
		log.Print(err)
	}
}

func main() {
	http.HandleFunc("/mutate/pod", mutate)
	log.Fatal(http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], nil))
}
