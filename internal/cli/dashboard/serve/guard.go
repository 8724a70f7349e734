package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"sync"
)

// cookieName is the name of the session's cookie.
const cookieName = "quorate-session"

// guard decides who is let in. Secrets are kept as their sums, so that comparing them takes the same time whatever is guessed.
type guard struct {
	// hosts are the values of the header Host that name this server.
	hosts []string
	// base is the folder of all pages. Its name is random: cookies are sent to each port of a host, so that another user's server on this
	// host would get the session's cookie if its path could be guessed.
	base string

	mu      sync.Mutex
	token   [sha256.Size]byte
	used    bool
	session [sha256.Size]byte
}

// newGuard returns a guard, and the one-time token that it takes.
func newGuard(hosts []string) (g *guard, token string) {
	token = rand.Text()
	return &guard{hosts: hosts, base: "/" + rand.Text() + "/", token: sha256.Sum256([]byte(token))}, token
}

// begin returns the cookie of the session for the token; nil: it is not the token, or was used.
func (g *guard) begin(token string) *http.Cookie {
	sum := sha256.Sum256([]byte(token))
	g.mu.Lock()
	defer g.mu.Unlock()
	if subtle.ConstantTimeCompare(sum[:], g.token[:]) != 1 || g.used {
		return nil
	}
	session := rand.Text() + rand.Text()
	g.used, g.session = true, sha256.Sum256([]byte(session))
	// Without Secure: browsers send such cookies to loopback only over TLS, or not at all.
	return &http.Cookie{
		Name: cookieName, Value: session, Path: g.base, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// knows reports whether a request has the cookie of the session.
func (g *guard) knows(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(cookie.Value))
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used && subtle.ConstantTimeCompare(sum[:], g.session[:]) == 1
}

// refuses returns the status code and the reason with which a request is refused before anything else is looked at; 0: it is not.
func (g *guard) refuses(r *http.Request) (code int, why string) {
	origin := r.Header.Get("Origin")
	switch {
	case !slices.Contains(g.hosts, r.Host):
		// A name of somebody else's that resolves to loopback: DNS rebinding.
		return http.StatusMisdirectedRequest, "this server does not have that name"
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "only GET and HEAD, and POST of forms"
	case origin != "" && origin != "http://"+r.Host, fromElsewhere(r):
		return http.StatusForbidden, "another site must not ask"
	case r.Method == http.MethodPost && origin == "":
		return http.StatusForbidden, "a form must say which site it is of"
	}
	return 0, ""
}

// fromElsewhere reports whether the browser says that a page of another site, or of another port, made the request. It may link to the
// sign-in, which shows nothing.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // old browsers and programs do not say it; none: a person typed the address in
		return false
	}
	return r.Method != http.MethodGet || r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" ||
		r.Header.Get("Sec-Fetch-Dest") != "document"
}

// policy is the Content-Security-Policy of each answer: style, scripts, pictures and data from here alone, nothing inline, no frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// protect sets what keeps browsers from doing with an answer what it is not for.
func protect(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      policy,
		"X-Frame-Options":              "DENY",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "same-origin", // with no-referrer a form would not say which site it is of
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
	} {
		h.Set(name, value)
	}
}
