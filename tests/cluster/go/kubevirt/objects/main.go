// Command objects prints what virt-operator would install: KubeVirt's CRDs, API services and webhook
// configurations, as a JSON list.
package main

import (
	"encoding/json"
	"log"
	"os"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
)

const namespace = "kubevirt"

var crds = []func() (*extv1.CustomResourceDefinition, error){
	components.NewKubeVirtCrd,
	components.NewMigrationPolicyCrd,
	components.NewPresetCrd,
	components.NewReplicaSetCrd,
	components.NewVirtualMachineBackupCrd,
	components.NewVirtualMachineBackupTrackerCrd,
	components.NewVirtualMachineCloneCrd,
	components.NewVirtualMachineClusterInstancetypeCrd,
	components.NewVirtualMachineClusterPreferenceCrd,
	components.NewVirtualMachineCrd,
	components.NewVirtualMachineExportCrd,
	components.NewVirtualMachineInstanceCrd,
	components.NewVirtualMachineInstanceMigrationCrd,
	components.NewVirtualMachineInstancetypeCrd,
	components.NewVirtualMachinePoolCrd,
	components.NewVirtualMachinePreferenceCrd,
	components.NewVirtualMachineRestoreCrd,
	components.NewVirtualMachineSnapshotContentCrd,
	components.NewVirtualMachineSnapshotCrd,
}

func main() {
	items := []any{
		components.NewKubeVirtPriorityClassCR(),
		components.NewVirtAPIMutatingWebhookConfiguration(namespace),
		components.NewVirtAPIValidatingWebhookConfiguration(namespace),
		components.NewVirtLauncherPodMutatingWebhookConfiguration(namespace),
	}
	for _, service := range components.NewVirtAPIAPIServices(namespace) {
		items = append(items, service)
	}
	for _, build := range crds {
		crd, err := build()
		if err != nil {
			log.Fatal(err)
		}
		items = append(items, crd)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		log.Fatal(err)
	}
}
