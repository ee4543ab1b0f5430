package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The ceilings of calls, on an emulated machine whose disk or runtime may be gone.
const (
	callCeiling = time.Minute
	pullCeiling = 3 * time.Minute
)

// runtime is what is asked of the container runtime (CRI).
type runtime struct {
	images     cri.ImageServiceClient
	containers cri.RuntimeServiceClient
}

func connect(socket string) (runtime, error) {
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return runtime{cri.NewImageServiceClient(c), cri.NewRuntimeServiceClient(c)}, err
}

func (r runtime) pull(ctx context.Context, ref string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pullCeiling)
	defer cancel()
	a, err := r.images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: ref}})
	return a.GetImageRef(), err
}

// list returns the tags of all images, with the ID of each.
func (r runtime) list(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callCeiling)
	defer cancel()
	a, err := r.images.ListImages(ctx, &cri.ListImagesRequest{})
	ids := map[string]string{}
	for _, i := range a.GetImages() {
		for _, t := range i.RepoTags {
			ids[t] = i.Id
		}
	}
	return ids, err
}

func (r runtime) remove(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, callCeiling)
	defer cancel()
	_, err := r.images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: ref}})
	return err
}

// running returns the names of pods with a running container.
func (r runtime) running(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callCeiling)
	defer cancel()
	a, err := r.containers.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}})
	pods := map[string]bool{}
	for _, c := range a.GetContainers() {
		pods[c.Labels["io.kubernetes.pod.name"]] = true
	}
	return pods, err
}
