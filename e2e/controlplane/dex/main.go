// Dex as a sign-in provider for tests: its server and its pages, with clients and people that a file names.
//
// The program that Dex releases keeps everything in a database of one kind or another, and links all of them; SQLite needs
// a C compiler. This one keeps everything in memory. Its people have groups, which the static users of Dex have not.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/dexidp/dex/connector"
	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
	"github.com/dexidp/dex/web"
)

type person struct {
	Password string   `json:"password"`
	Email    string   `json:"email"`
	Verified bool     `json:"verified"`
	Groups   []string `json:"groups"`
}

type config struct {
	Issuer       string            `json:"issuer"`
	Listen       string            `json:"listen"`
	Client       string            `json:"client"`
	Secret       string            `json:"secret"`
	Redirects    []string          `json:"redirects"`
	TokenSeconds int               `json:"tokenSeconds"`
	People       map[string]person `json:"people"`
}

// people is a connector: the form of Dex asks for name and password.
type people struct {
	known map[string]person
}

func (p people) Open(string, *slog.Logger) (connector.Connector, error) { return p, nil }

func (p people) Prompt() string { return "Name" }

func (p people) Login(_ context.Context, _ connector.Scopes, name, password string) (connector.Identity, bool, error) {
	found, ok := p.known[name]
	if !ok || subtle.ConstantTimeCompare([]byte(found.Password), []byte(password)) != 1 {
		return connector.Identity{}, false, nil
	}
	return connector.Identity{
		UserID:            name,
		Username:          name,
		PreferredUsername: name,
		Email:             found.Email,
		EmailVerified:     found.Verified,
		Groups:            found.Groups,
	}, true, nil
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dex:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var given config
	if err := json.Unmarshal(content, &given); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server.ConnectorsConfig["people"] = func() server.ConnectorConfig { return people{given.People} }
	store := storage.WithStaticClients(memory.New(logger), []storage.Client{{
		ID: given.Client, Secret: given.Secret, Name: "harbormaster", RedirectURIs: given.Redirects,
	}})
	store = storage.WithStaticConnectors(store, []storage.Connector{{
		ID: "people", Type: "people", Name: "People", ResourceVersion: "1",
	}})
	handler, err := server.NewServer(context.Background(), server.Config{
		Issuer:             given.Issuer,
		Storage:            store,
		SkipApprovalScreen: true,
		IDTokensValidFor:   time.Duration(given.TokenSeconds) * time.Second,
		Web:                server.WebConfig{WebFS: web.FS(), Issuer: "Dex"},
		Logger:             logger,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", given.Listen)
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}
