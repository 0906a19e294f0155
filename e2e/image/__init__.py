"""Makes the image that the Dockerfile describes, by its own steps and without a container engine."""
