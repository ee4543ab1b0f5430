package preload

import (
	"fmt"
	"regexp"
	"strings"
)

// The grammar is that of github.com/distribution/reference.
var (
	domainRE = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]+)?$`)
	partRE   = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	tagRE    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
)

// CheckName says whether an image name is one that can be looked up in the
// store as it stands: registry, repository and tag, all of them written out.
// The store compares names byte for byte and every client completes a short
// name first, so a short name in the store would never be found. The error
// proposes the full name.
func CheckName(name string) error {
	bad := func(why, proposal string) error {
		if proposal != "" && proposal != name && CheckName(proposal) == nil {
			return fmt.Errorf("image name %q %s; did you mean %q?", name, why, proposal)
		}
		return fmt.Errorf("image name %q %s; write it as registry/repository:tag, such as localhost/garboard/hello:1", name, why)
	}
	if name == "" {
		return bad("is empty", "")
	}
	if i := strings.IndexByte(name, '@'); i >= 0 {
		return bad("has a digest; the store computes digests itself", name[:i])
	}
	repo, tag, tagged := name, "latest", false
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repo, tag, tagged = name[:i], name[i+1:], true
	}
	domain, rest, ok := strings.Cut(repo, "/")
	if !ok || !(strings.ContainsAny(domain, ".:") || domain == "localhost") {
		full := "docker.io/" + repo
		if !ok {
			full = "docker.io/library/" + repo
		}
		return bad("names no registry", full+":"+tag)
	}
	if domain == "index.docker.io" || domain == "registry-1.docker.io" {
		return bad("names Docker Hub by an address that clients rewrite", "docker.io/"+rest+":"+tag)
	}
	if domain == "docker.io" && !strings.Contains(rest, "/") {
		return bad("lacks the library/ that clients put in", "docker.io/library/"+rest+":"+tag)
	}
	if !tagged {
		return bad("has no tag", repo+":"+tag)
	}
	if lower := strings.ToLower(rest); lower != rest {
		return bad("has upper-case letters in its repository", domain+"/"+lower+":"+tag)
	}
	if !domainRE.MatchString(domain) {
		return bad(fmt.Sprintf("has a malformed registry %q", domain), "")
	}
	for _, part := range strings.Split(rest, "/") {
		if !partRE.MatchString(part) {
			return bad(fmt.Sprintf("has a malformed repository part %q", part), "")
		}
	}
	if !tagRE.MatchString(tag) {
		return bad(fmt.Sprintf("has a malformed tag %q", tag), "")
	}
	if len(repo) > 255 {
		return bad("is longer than 255 bytes", "")
	}
	return nil
}
