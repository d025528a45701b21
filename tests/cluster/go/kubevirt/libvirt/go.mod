module libvirt.org/go/libvirt

go 1.26.0
