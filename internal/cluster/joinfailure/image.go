package joinfailure

import (
	"regexp"
	"strings"
)

// Lines about images. kubeadm, the kubelet and containerd each have words of their own for a pull that failed.
const (
	pullFails = `[Ff]ailed to pull (?:and unpack )?image|failed to resolve (?:image|reference)|PullImage from image ` +
		`service|ErrImagePull|ImagePullBackOff|` +
		`[Ff]ailed to get sandbox image`
	imageCheck = `\[ERROR ImagePull\]`
)

var (
	imageLine = regexp.MustCompile(imageCheck + `|` + pullFails)
	// controlPlaneImage matches the images without which no control plane starts, among them that of each pod's sandbox. The kubelet also
	// logs failed pulls of other pods, which keep no machine from joining.
	controlPlaneImage = regexp.MustCompile(`sandbox image|/(?:kube-apiserver|kube-controller-manager|kube-scheduler|etcd|pause)[:@]`)
	// quotedImage and plainImage match a reference, with and without quotes.
	quotedImage = regexp.MustCompile(`image \\*"([^\s"\\]+)\\*"`)
	plainImage  = regexp.MustCompile(`image ([^\s"\\]+): `)
	// registryCall matches a request to a registry or to a mirror of one.
	registryCall = regexp.MustCompile(`https?://([^/"\s\\]+)/v2/`)
	// runtimeFails matches what a container runtime answers, or fails to answer, without having asked a registry.
	runtimeFails = regexp.MustCompile(`dial unix|code = Unimplemented|unknown service|unknown method`)
)

// refusal is a way in which a registry does not deliver an image.
type refusal struct {
	pattern *regexp.Regexp
	// says continues "registry R"; help is what to do.
	says, help string
}

// refusals are in the order in which they are looked for: a request that fails may quote a more general failure after its own.
var refusals = []refusal{
	{regexp.MustCompile(`proxyconnect`), "was not asked, because the machine's proxy does not answer", "correct containerd's proxy settings"},
	{regexp.MustCompile(`x509: certificate has expired or is not yet valid`),
		"has a certificate that is not valid at the time of the machine's clock",
		"renew the registry's certificate, or set the clock by NTP"},
	{regexp.MustCompile(`x509: certificate signed by unknown authority`), "has a certificate of an authority that the machine does not trust",
		"add that authority to the machine, in the system's store or in containerd's hosts.toml"},
	{regexp.MustCompile(`x509: `), "has a certificate for other names",
		"use a name of the certificate, or give the registry another certificate"},
	{regexp.MustCompile(`\b429 Too Many Requests|toomanyrequests`), "limits how often it is asked",
		"give the machine credentials, or use a mirror"},
	{regexp.MustCompile(
		`\b401 Unauthorized|\b403 Forbidden|authorization failed|no basic auth credentials|insufficient_scope|pull access denied`),
		"refuses the machine's credentials, or gets none", "give containerd credentials that may pull the image"},
	{regexp.MustCompile(`: not found|\b404 Not Found|manifest unknown`), "does not have it",
		"correct the repository and the version, or push the image"},
	{regexp.MustCompile(`: 5\d\d [A-Z]`), "reports an error of its own", "repair the registry"},
	{regexp.MustCompile(`server gave HTTP response to HTTPS client`), "speaks HTTP and not HTTPS",
		"correct its address, or configure it in containerd's hosts.toml"},
	{regexp.MustCompile(`unexpected commit digest|failed size validation|unexpected EOF`), "sends damaged content",
		"repair the registry, or what lies between"},
	{regexp.MustCompile(`dial tcp: lookup|no such host|server misbehaving`), "has a name that the machine cannot resolve",
		"correct the name or the machine's DNS"},
	{regexp.MustCompile(`dial tcp|deadline exceeded|[Tt]imeout|connection reset|\bEOF|no route to host|first record does not look like`),
		"does not answer the machine", "check its address, routes and firewalls"},
}

// unavailable returns the sentence about the first image of a line that could not be pulled because of its registry. It returns an empty
// text for a line about something else, and for a pull that failed before a registry was asked.
func unavailable(line string) string {
	if !imageLine.MatchString(line) {
		return ""
	}
	line = firstPull(line)
	if runtimeFails.MatchString(line) {
		return ""
	}
	image := ""
	for _, pattern := range []*regexp.Regexp{quotedImage, plainImage} {
		if m := pattern.FindStringSubmatch(line); m != nil && image == "" {
			image = m[1]
		}
	}
	registry, _, _ := strings.Cut(image, "/")
	if m := registryCall.FindStringSubmatch(line); m != nil {
		registry = m[1]
	}
	for _, r := range refusals {
		if r.pattern.MatchString(line) && image != "" {
			return "the machine cannot pull image " + image + ": registry " + registry + " " + r.says + ": " + r.help + "; then replace the machine"
		}
	}
	return ""
}

// firstPull returns a line up to the second image that it is about: kubeadm names all that it could not pull in one line.
func firstPull(line string) string {
	first, _, _ := strings.Cut(line, ", failed to pull image ")
	return first
}
