"""What the agent in a member cluster runs: heartbeat and figures, applying Works."""
