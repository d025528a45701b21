package main

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"sync"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"
	"kubevirt.io/kubevirt/pkg/hooks"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
)

// passes is how often a hook sees the domain of a VM that boots (KubeVirt 1.8: two, three with spare PCIe ports).
const passes = 2

// launcher answers POST / with a VMI as body: {"passes": [{"in", "out"}], "error"}.
type launcher struct {
	hooks hooks.Manager
	turn  sync.Mutex // virt-launcher has one lock for all changes of a domain
}

type pass struct {
	In  string `json:"in"`
	Out string `json:"out,omitempty"`
}

type answer struct {
	Passes []pass `json:"passes"`
	Error  string `json:"error,omitempty"`
}

func (l *launcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.turn.Lock()
	defer l.turn.Unlock()
	vmi, result := &v1.VirtualMachineInstance{}, answer{Passes: []pass{}}
	err := json.NewDecoder(r.Body).Decode(vmi)
	if err == nil {
		result.Passes, err = l.define(vmi)
	}
	if err != nil {
		log.Log.Reason(err).Error("the domain was not defined")
		result.Error = err.Error()
	}
	json.NewEncoder(w).Encode(result)
}

// define lets the hooks change the domain of the VMI as often as virt-launcher does.
//
// Source: pkg/virt-launcher/virtwrap/util/libvirt_helper.go, SetDomainSpecStrWithHooks.
func (l *launcher) define(vmi *v1.VirtualMachineInstance) ([]pass, error) {
	done := []pass{}
	spec, err := domainOf(vmi)
	if err != nil {
		return done, err
	}
	for range passes {
		in, err := xml.MarshalIndent(spec, "", "\t")
		if err != nil {
			return done, err
		}
		out, err := l.hooks.OnDefineDomain(spec, vmi)
		done = append(done, pass{string(in), out})
		if err != nil {
			return done, err
		}
		spec = &api.DomainSpec{}
		if err := xml.Unmarshal([]byte(out), spec); err != nil {
			return done, err
		}
		addressLikeLibvirt(spec)
	}
	return done, nil
}
