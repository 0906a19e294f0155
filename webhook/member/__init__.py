"""The agent of a member cluster: it joins the fleet, sends heartbeats with properties, and applies Works."""
