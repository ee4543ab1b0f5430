module garboard.local/components/cni

go 1.26

tool (
	example.org/net/plugins/main/bridge
	example.org/net/plugins/main/loopback
)

require (
	example.org/net v1.0.0 // indirect
	example.org/net/plugins v1.10.0 // indirect
)
