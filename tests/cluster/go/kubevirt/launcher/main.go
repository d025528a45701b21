// Command launcher stands in for virt-launcher where there is neither libvirt nor virt-handler.
//
// It takes the arguments that virt-controller gives virt-launcher and does with the hook sidecars what virt-launcher
// does, by KubeVirt's own code: collect their sockets, build the domain of a VMI, let the hooks change it, tell them to
// shut down. The VMI comes over a socket in the volume through which virt-handler would send it.
package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"kubevirt.io/client-go/log"
	"kubevirt.io/kubevirt/pkg/hooks"
)

const socketName = "stand-in.sock"

func main() {
	log.InitializeLogging("launcher-stand-in")
	flags := pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	hookSidecars := flags.Uint("hook-sidecars", 0, "hook sidecars to wait for")
	timeout := flags.Duration("qemu-timeout", 4*time.Minute, "how long to wait for them")
	shareDir := flags.String("kubevirt-share-dir", "/var/run/kubevirt", "where virt-handler's socket is")
	if err := flags.Parse(os.Args[1:]); err != nil {
		panic(err)
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()

	manager := hooks.GetManager()
	if err := manager.Collect(*hookSidecars, *timeout); err != nil {
		panic(err) // as virt-launcher does
	}
	serve(stop, filepath.Join(*shareDir, "sockets", socketName), &launcher{hooks: manager})
	if err := manager.Shutdown(); err != nil {
		log.Log.Reason(err).Error("the hooks' shutdown failed")
	}
}

func serve(stop context.Context, path string, handler http.Handler) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: handler}
	go func() {
		<-stop.Done()
		server.Close()
	}()
	log.Log.Infof("collected the hooks, listening on %s", path)
	server.Serve(listener)
}
