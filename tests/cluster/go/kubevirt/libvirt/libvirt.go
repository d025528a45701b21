// Package libvirt holds the names that KubeVirt's device packages mention when they unplug a host device.
//
// The launcher stand-in never unplugs one, and with these names alone it builds without cgo and libvirt's headers, into
// one static binary.
package libvirt

// DomainDeviceModifyFlags says which configuration of a domain a change is made to.
type DomainDeviceModifyFlags uint32

// Source: libvirt-domain.h, virDomainDeviceModifyFlags.
const (
	DOMAIN_DEVICE_MODIFY_LIVE   DomainDeviceModifyFlags = 1
	DOMAIN_DEVICE_MODIFY_CONFIG DomainDeviceModifyFlags = 2
)
