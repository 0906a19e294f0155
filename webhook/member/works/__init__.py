"""The controller of Works: queue, backoff, watches on applied objects, and the pass over one Work with its status."""
