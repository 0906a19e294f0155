"""What the charts install, under a real control plane and the kubelet of the tests."""
