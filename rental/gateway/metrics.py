"""What the gateway counts, for Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

LINKS = Gauge("tessera_gateway_links", "Open connections of agents")
NODES = Gauge("tessera_gateway_nodes", "Nodes that said hello on an open connection")
FRAMES = Counter("tessera_gateway_frames", "Frames received, by type", ["type"])
REFUSED = Counter("tessera_gateway_refused", "Frames refused, by reason", ["code"])
TURNED_AWAY = Counter("tessera_gateway_turned_away", "Connections refused", ["reason"])
USAGE_WAITING = Gauge("tessera_gateway_usage_waiting", "Usage frames not yet committed")
USAGE_DROPPED = Counter("tessera_gateway_usage_dropped", "Usage frames dropped, to be sent again")
USAGE_FLUSH = Histogram("tessera_gateway_usage_flush_seconds", "One batch of usage, to its commit")
USAGE_ACK = Histogram("tessera_gateway_usage_ack_seconds", "A usage frame, from receipt to ack")
FACTS_WAITING = Gauge("tessera_gateway_facts_waiting", "Hellos and phases not yet committed")
PULSES = Counter("tessera_gateway_pulses_written", "Pulses written to node_liveness")
SAMPLES = Counter("tessera_gateway_samples_written", "Points put into the last hour")
SAMPLES_DROPPED = Counter("tessera_gateway_samples_dropped", "Samples let go, by why", ["reason"])
DESIRED = Counter("tessera_gateway_desired_sent", "Desired sets sent")
LANE_FAILURES = Counter("tessera_gateway_lane_failures", "Failed turns, by lane", ["lane"])
