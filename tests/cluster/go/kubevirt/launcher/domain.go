package main

import (
	"fmt"

	v1 "kubevirt.io/api/core/v1"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/types"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/gpu"
)

// domainOf builds the domain that virt-launcher would hand to its hooks first, the GPUs taken from the environment.
//
// Source: pkg/virt-launcher/virtwrap/manager.go, generateConverterContext and SyncVMI.
func domainOf(vmi *v1.VirtualMachineInstance) (*api.DomainSpec, error) {
	gpus, err := gpu.CreateHostDevices(vmi.Spec.Domain.Devices.GPUs)
	if err != nil {
		return nil, err
	}
	permanent := map[string]v1.VolumeStatus{}
	for _, volume := range vmi.Spec.Volumes {
		permanent[volume.Name] = v1.VolumeStatus{Name: volume.Name}
	}
	domain := &api.Domain{}
	err = converter.Convert_v1_VirtualMachineInstance_To_api_Domain(vmi, domain, &types.ConverterContext{
		Architecture:              arch.NewConverter("amd64"),
		VirtualMachine:            vmi,
		HypervisorDeviceAvailable: true,
		HypervisorName:            v1.KvmHypervisorName,
		AllowEmulation:            true,
		SMBios:                    &cmdv1.SMBios{},
		GPUHostDevices:            gpus,
		PermanentVolumes:          permanent,
	})
	if err != nil {
		return nil, fmt.Errorf("conversion failed: %w", err)
	}
	api.NewDefaulter("amd64").SetObjectDefaults_Domain(domain)
	return &domain.Spec, nil
}

// addressLikeLibvirt gives each host device a guest address, as libvirt has done by the time of the second pass.
func addressLikeLibvirt(spec *api.DomainSpec) {
	for i := range spec.Devices.HostDevices {
		device := &spec.Devices.HostDevices[i]
		if device.Address == nil {
			bus := fmt.Sprintf("0x%02x", 8+i)
			device.Address = &api.Address{Type: "pci", Domain: "0x0000", Bus: bus, Slot: "0x00", Function: "0x0"}
		}
	}
}
