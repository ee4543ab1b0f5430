package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

func connect(ctx context.Context, network, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return c.Close()
}

// maxBody is how much of an answer is read, so that its connection ends in order.
const maxBody = 10 << 10

// maxRedirects is a kubelet's.
const maxRedirects = 10

func newHTTP(url string, headers []string) (Check, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "garboard-probe")
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ": ")
		if !ok {
			return nil, fmt.Errorf("%q is not a header", h)
		}
		if strings.EqualFold(name, "Host") {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	client := &http.Client{
		Transport: &http.Transport{
			// A probe asks whether the service answers, not who it is: as in Kubernetes.
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true,
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if next.URL.Hostname() != via[0].URL.Hostname() || len(via) >= maxRedirects {
				return http.ErrUseLastResponse // another host's health is not this one's
			}
			return nil
		},
	}
	return func(ctx context.Context) error {
		resp, err := client.Do(req.Clone(ctx))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, _ = io.CopyN(io.Discard, resp.Body, maxBody)
		if resp.StatusCode < 200 || resp.StatusCode >= 400 {
			return fmt.Errorf("%s: status %s", url, resp.Status)
		}
		return nil
	}, nil
}

// serving is HealthCheckResponse.SERVING of grpc.health.v1.
const serving = 1

// health asks grpc.health.v1.Health/Check over unencrypted HTTP/2. The two
// messages are one field each, so that no gRPC library is needed: request
// field 1 (the service's name), response field 1 (the status).
func health(ctx context.Context, address, service string) error {
	message := []byte{}
	if service != "" {
		message = append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service))), service...)
	}
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/grpc.health.v1.Health/Check", bytes.NewReader(frame))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &only}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return err
	}
	status := resp.Trailer.Get("Grpc-Status")
	if status == "" { // an answer of trailers alone
		status = resp.Header.Get("Grpc-Status")
	}
	if resp.StatusCode != http.StatusOK || status != "0" {
		return fmt.Errorf("%s: HTTP status %d, gRPC status %q %s", address, resp.StatusCode, status, resp.Trailer.Get("Grpc-Message"))
	}
	return answer(body)
}

// answer reads a HealthCheckResponse in its frame.
func answer(body []byte) error {
	if len(body) < 5 || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:5])) != len(body)-5 {
		return errors.New("gRPC: the answer is not one uncompressed message")
	}
	state := uint64(0)
	for rest := body[5:]; len(rest) > 0; {
		key, n := binary.Uvarint(rest)
		if n <= 0 || key&7 != 0 {
			return errors.New("gRPC: the answer is no HealthCheckResponse")
		}
		v, m := binary.Uvarint(rest[n:])
		if m <= 0 {
			return errors.New("gRPC: the answer is cut off")
		}
		if key>>3 == 1 {
			state = v
		}
		rest = rest[n+m:]
	}
	if state != serving {
		return fmt.Errorf("gRPC: health %d, not SERVING", state)
	}
	return nil
}
