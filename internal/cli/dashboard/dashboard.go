// Package dashboard is `quorate dashboard`: pages for a browser on this host, with the rights of the user who runs the command. It listens
// and reads; what is drawn is made by package pages, and who is let in decides package serve.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/archive"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/act"
	"github.com/quorate/quorate/internal/cli/dashboard/serve"
	"github.com/quorate/quorate/internal/cli/screen"
)

const (
	// readTimeout, writeTimeout and idleTimeout bound what a connection can take, and mostHeaders how large a request's head may be.
	readTimeout  = 10 * time.Second
	writeTimeout = 40 * time.Second
	idleTimeout  = time.Minute
	mostHeaders  = 16 << 10
	// lastAnswers is how long answers that have begun may take once the command ends.
	lastAnswers = 3 * time.Second
)

// app is the command.
type app struct{ *command.Invocation }

// Commands are `quorate dashboard` and `quorate report`, which writes the same pages into a file.
func Commands(i *command.Invocation) []*cobra.Command {
	return []*cobra.Command{dashboardCommand(i), archive.Command(i)}
}

func dashboardCommand(i *command.Invocation) *cobra.Command {
	a := &app{i}
	var address string
	var noBrowser, readOnly bool
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show all clusters in a browser: by risk, with quorum, next step, plan and history",
		Long: `Serve pages for a browser on this host until interrupted. They show all clusters, the most urgent first. Of each they show the
machines, the members of etcd and how many of them may fail. Then follow the next step with its reason and what ends a wait, backups and
conditions. Other pages have what every rule says, the plan, and what was done. The data are those of status, explain, plan and history.

The pages read with your kubeconfig and your rights. The page "Actions" of a cluster can approve a change, pause, resume, retry and roll
back an upgrade in place, and take a backup. It writes what the commands write. Each action needs the right of its command, shows its plan
first, and waits for you to confirm it. With --read-only the pages offer no action.

The address that is printed has a one-time token: it lets in one browser, once. Only this host can reach the pages.`,
		Example: `  quorate dashboard
  quorate dashboard --no-browser --address 127.0.0.1:9090
  quorate dashboard --read-only                             # without actions
  quorate dashboard --context management                    # of a management cluster of your own`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := loopback(address)
			if err != nil {
				return command.Usage(err)
			}
			return a.run(cmd.Context(), at, !noBrowser, !readOnly)
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:0", "address and port on loopback to listen on; port 0 takes a free one")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address only, and open no browser")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "offer no actions: the pages only show")
	a.AddManagementTo(cmd)
	return cmd
}

// loopback reads --address: others must not reach the pages.
func loopback(address string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() || at.Addr().Zone() != "" {
		return at, fmt.Errorf("invalid --address %q: must be an address of loopback and a port, such as 127.0.0.1:0 or [::1]:9090", address)
	}
	return at, nil
}

// run serves until ctx ends.
func (a *app) run(ctx context.Context, at netip.AddrPort, open, acts bool) error {
	c, err := a.Management()
	if err != nil {
		return err
	}
	host, err := a.OwnMachines()
	if err != nil {
		return err
	}
	if _, err := command.Clusters(ctx, c); err != nil { // better said here than on a page
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err != nil {
		return fmt.Errorf("listening on %s: %w", at, err)
	}
	living, end := context.WithCancel(ctx)
	defer end()
	hosts := names(listener.Addr())
	var actor serve.Actor
	if acts {
		actor = act.New(c, a.Invocation, a.flags())
	}
	handler, token := serve.New(newLooks(living, c, host, a.SettlePlans), actor, hosts...)
	address := "http://" + hosts[0] + "/#" + token
	a.NewScreen().Print(
		screen.Line{{Text: "dashboard  "}, {Text: address, Colour: screen.Strong}},
		screen.Text("It lets in one browser, once. Ctrl-C ends it."))
	if open {
		a.open(ctx, address)
	}
	return serveUntil(ctx, listener, handler)
}

// plain is a word that a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// flags are the flags that name the management cluster, for commands that pages show; empty: the environment of this host.
func (a *app) flags() string {
	var parts []string
	for _, flag := range []struct{ name, value string }{{"--kubeconfig", a.Kubeconfig}, {"--context", a.Context}} {
		switch {
		case flag.value == "":
		case plain.MatchString(flag.value):
			parts = append(parts, flag.name+" "+flag.value)
		default:
			parts = append(parts, flag.name+" '"+strings.ReplaceAll(flag.value, "'", `'\''`)+"'")
		}
	}
	return strings.Join(parts, " ")
}

// names are the values of the header Host by which a browser on this host reaches an address.
func names(at net.Addr) []string {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return []string{at.String()}
	}
	if number, err := strconv.Atoi(port); err == nil && number == 80 { // browsers leave it out
		return []string{host, "localhost"}
	}
	return []string{at.String(), net.JoinHostPort("localhost", port)}
}

// serveUntil answers until ctx ends, and then ends the answers that have begun.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: mostHeaders,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving pages: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving pages: %w", err)
	}
	return nil
}

// open opens the address in the user's browser, where there is one. Who cannot use it has the address that was printed.
func (a *app) open(ctx context.Context, address string) {
	program, err := exec.LookPath("xdg-open")
	if err != nil || a.Environment("DISPLAY") == "" && a.Environment("WAYLAND_DISPLAY") == "" || !a.NewScreen().Live() {
		return
	}
	page, remove, err := redirect(address)
	if err != nil {
		return
	}
	start := exec.CommandContext(ctx, program, page)
	if start.Start() != nil {
		remove()
		return
	}
	go func() {
		_ = start.Wait()
		select {
		case <-time.After(time.Minute): // until the browser has read it
		case <-ctx.Done():
		}
		remove()
	}()
}

// redirect writes a page that only this user can read and that leads to an address. The address has the token, and all users of a host can
// read the arguments of a program.
func redirect(address string) (page string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "quorate-dashboard-")
	if err != nil {
		return "", nil, fmt.Errorf("making a folder: %w", err)
	}
	remove = func() { _ = os.RemoveAll(folder) }
	page = filepath.Join(folder, "dashboard.html")
	text := `<!doctype html><meta charset="utf-8"><title>Quorate</title><meta http-equiv="refresh" content="0; url=` + address + `">` + "\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		remove()
		return "", nil, fmt.Errorf("writing %s: %w", page, err)
	}
	return page, remove, nil
}
