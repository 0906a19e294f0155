"""Tests of the image without a container engine, and of the digests of its base images."""
