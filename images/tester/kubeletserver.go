package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/websocket"
)

const (
	kubeletServer = "127.0.0.1:10250"
	// kubeletServes has the kubelet serve on loopback, to anybody: on the node of a
	// test, until its end.
	kubeletServes = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
enableServer: true
address: 127.0.0.1
authentication:
  anonymous: {enabled: true}
`
)

// letKubeletServe takes effect when the kubelet is next started.
func (g *guest) letKubeletServe() error {
	return os.WriteFile(filepath.Join(g.host, "etc/kubernetes/kubelet.d/90-test.conf"), []byte(kubeletServes), 0o644)
}

// insecure: the kubelet's certificate is its own.
var insecure = &tls.Config{InsecureSkipVerify: true}

// kubeletLog is what `kubectl logs` would print.
func kubeletLog(pod, container string) (string, error) {
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}}
	r, err := c.Get(fmt.Sprintf("https://%s/containerLogs/default/%s/%s", kubeletServer, pod, container))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", r.Status, b)
	}
	return string(b), err
}

// kubeletExec is what `kubectl exec` would print: the streams of a command in a
// container, through the kubelet and the runtime. In the channel protocol the first
// byte of a message names the stream: 1 is standard output, 3 how it ended.
func kubeletExec(pod, container string, command ...string) (string, error) {
	query := url.Values{"command": command, "output": {"1"}}
	c, err := websocket.NewConfig(fmt.Sprintf("wss://%s/exec/default/%s/%s?%s", kubeletServer, pod, container, query.Encode()), "https://"+kubeletServer)
	if err != nil {
		return "", err
	}
	c.Protocol, c.TlsConfig = []string{"v4.channel.k8s.io"}, insecure
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := c.DialContext(ctx)
	if err != nil {
		return "", errors.Join(err, refusal(c.Location))
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		var m []byte
		if err := websocket.Message.Receive(conn, &m); err != nil {
			return out.String(), fmt.Errorf("the command's streams end without its status: %w", err)
		}
		if len(m) == 0 {
			continue
		}
		switch m[0] {
		case 1:
			out.Write(m[1:])
		case 3:
			var status struct{ Status, Message string }
			if err := json.Unmarshal(m[1:], &status); err != nil {
				return out.String(), err
			}
			if status.Status != "Success" {
				return out.String(), errors.New(status.Message)
			}
			return out.String(), nil
		}
	}
}

// refusal asks again for what a handshake did not get, for the reason: the library
// keeps the status and the text to itself.
func refusal(u *url.URL) error {
	r, err := http.NewRequest(http.MethodGet, "https"+strings.TrimPrefix(u.String(), "wss"), nil)
	if err != nil {
		return err
	}
	for k, v := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "v4.channel.k8s.io"} {
		r.Header.Set(k, v)
	}
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("without an Origin it is let in")
	}
	b, _ := io.ReadAll(io.LimitReader(answer.Body, 512))
	return fmt.Errorf("%s: %s", answer.Status, bytes.TrimSpace(b))
}

// logsAndExec demands that the container's whole log, from its first line on, and a
// command in it are to be had under the pod's name.
func (g *guest) logsAndExec(pod, container, firstLine string) error {
	log, err := kubeletLog(pod, container)
	if err != nil {
		return fmt.Errorf("logs of %s: %w", pod, err)
	}
	if !strings.HasPrefix(log, firstLine+"\n") {
		return fmt.Errorf("the log of %s begins with %.40q, want %q", pod, log, firstLine)
	}
	const word = "a word through exec"
	if out, err := kubeletExec(pod, container, "/tester", "say", word); err != nil || out != word+"\n" {
		return fmt.Errorf("exec in %s: %q, %v", pod, out, err)
	}
	if out, err := kubeletExec(pod, container, "/tester", "no-such-pod"); err == nil {
		return fmt.Errorf("exec in %s of a command that fails: %q and success", pod, out)
	}
	g.say("tester: logs and exec of %s/%s", pod, container)
	return nil
}
