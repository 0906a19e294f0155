"""Builds the image of the Dockerfile without a container engine, and resolves the images that it is based on."""
