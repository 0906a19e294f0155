"""The columns say what a plain loop over the nodes says, which is written from the documents, rule by rule."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.node_disruption.cluster.reader import read_cluster
from scorer.node_disruption.scheduling.node_filter import ClusterCapacity
from tests.builders.pod import REQUIRED
from tests.builders.random_pods import NAMESPACES, OVERHEAD, VOLUMES, RandomPods, make_volumes
from tests.thoroughness import examples

NOW = datetime(2026, 7, 1, tzinfo=UTC)
CPU = {"": 1000, "m": 1}
BYTES = {"": 1, "Mi": 2**20, "Gi": 2**30}


@settings(max_examples=examples(200))
@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 12), gone=st.sets(st.integers(0, 11), max_size=3))
def test_columns_agree_with_a_loop_over_the_nodes(seed, nodes, gone):
    """Also when pods have come and gone, nodes have gone, and pods end."""
    made = RandomPods(seed)
    world = Loop([made.node(f"node-{number:02}") for number in range(nodes)], {f"node-{number:02}" for number in gone})
    before = [(made.pod(), made.random.choice(world.names), made.random.random() < 0.1) for _ in range(nodes)]
    for pod, node, ends in before:
        world.put(pod, node, ends)
    fitting = ClusterCapacity(read_cluster(world.documents(), NOW)).without(world.gone)
    for _ in range(3 * nodes):
        document = complete(made.pod())
        pod = pod_of(document)
        found = [name for name, fits in zip(fitting.names, fitting.feasible(pod), strict=True) if fits]
        assert found == [name for name in world.names if world.fits(document, name)]
        assert sum(fitting.reasons(pod).values()) >= fitting.size - len(found)
        if found and made.random.random() < 0.9:
            node = made.random.choice(found)
            fitting.place(pod, node)
            world.put(document, node)
        if made.random.random() < 0.15 and (running := world.running()):
            document, node = made.random.choice(running)
            fitting.remove(pod_of(document), node)
            world.pods[node].remove(document)
    anew = ClusterCapacity(read_cluster(world.documents(), NOW), without=world.gone)
    last = pod_of(complete(made.pod()))
    assert anew.feasible(last).tolist() == fitting.feasible(last).tolist()


def pod_of(document):
    """The pod as a cluster with its volumes has it."""
    (pod,) = read_cluster([*make_volumes(), {**document, "spec": {**document["spec"], "nodeName": ""}}], NOW).pending
    return replace(pod, node=document["spec"].get("nodeName", ""))


def complete(pod):
    """Fill in what the API server does."""
    if "runtimeClassName" in pod["spec"]:
        pod["spec"]["overhead"] = OVERHEAD
    return pod


class Loop:
    """Nodes and the pods on them, as documents; what fits is asked node by node."""

    def __init__(self, nodes, gone):
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.names = sorted(self.nodes)
        self.gone = gone
        self.pods = {name: [] for name in self.names}

    def put(self, pod, node, ends=False):
        complete(pod)["spec"]["nodeName"] = node
        if ends:
            pod["metadata"]["deletionTimestamp"] = "2026-06-30T00:00:00Z"
        self.pods[node].append(pod)

    def running(self):
        return [(pod, node) for node, pods in self.pods.items() if node not in self.gone for pod in pods]

    def documents(self):
        spaces = [{"kind": "Namespace", "metadata": {"name": name, "labels": space(name)}} for name in NAMESPACES]
        nodes = [{**node, "kind": "Node"} for node in self.nodes.values()]
        return [
            *spaces,
            *nodes,
            *make_volumes(),
            *({**pod, "kind": "Pod"} for pods in self.pods.values() for pod in pods),
        ]

    def fits(self, pod, name):
        node = self.nodes[name]
        return (
            name not in self.gone
            and (not node["spec"].get("unschedulable") or tolerates(pod, "node.kubernetes.io/unschedulable", ""))
            and untainted(pod, node)
            and selected(pod, node)
            and reached(pod, node)
            and self.has_ports(pod, name)
            and self.has_room(pod, name)
            and self.is_even(pod, node)
            and self.has_beside(pod, node)
            and self.is_apart(pod, node)
            and self.is_welcome(pod, node)
        )

    def has_ports(self, pod, name):
        taken = [port for other in self.pods[name] for port in host_ports(other)]
        return not any(
            port == other and (ip == other_ip or "0.0.0.0" in (ip, other_ip))
            for ip, *port in host_ports(pod)
            for other_ip, *other in taken
        )

    def has_room(self, pod, name):
        has = {key: amount(key, text) for key, text in self.nodes[name]["status"]["allocatable"].items()}
        used = sum((needs(other) for other in self.pods[name]), Counter())
        return all(value <= 0 or used[key] + value <= has.get(key, 0) for key, value in needs(pod).items())

    def is_even(self, pod, node):
        listed = pod["spec"].get("topologySpreadConstraints", ())
        constraints = [each for each in listed if each["whenUnsatisfiable"] == "DoNotSchedule"]
        return all(self.is_even_by(each, constraints, pod, node) for each in constraints)

    def is_even_by(self, constraint, constraints, pod, node):
        key, about = constraint["topologyKey"], pod["metadata"]
        selector = with_keys(constraint, about["labels"])
        counted = Counter()
        for name, other in self.nodes.items():
            if name in self.gone or not all(has(other, each["topologyKey"]) for each in constraints):
                continue
            if constraint.get("nodeAffinityPolicy") != "Ignore" and not selected(pod, other):
                continue
            if constraint.get("nodeTaintsPolicy") == "Honor" and not untainted(pod, other):
                continue
            counted[label(other, key)] += sum(
                each["metadata"]["namespace"] == about["namespace"]
                and "deletionTimestamp" not in each["metadata"]
                and matches(selector, each["metadata"]["labels"])
                for each in self.pods[name]
                if selector != {"matchExpressions": []}
            )
        fewest = 0 if len(counted) < constraint.get("minDomains", 1) else min(counted.values())
        own = matches(selector, about["labels"])
        return has(node, key) and counted[label(node, key)] + own - fewest <= constraint["maxSkew"]

    def has_beside(self, pod, node):
        terms = affinity(pod, "podAffinity").get(REQUIRED, ())
        if not all(has(node, term["topologyKey"]) for term in terms):
            return False
        beside = [
            (other_node, term["topologyKey"])
            for other, other_node in self.running()
            if terms and all(means(term, pod, other, own=True) for term in terms)
            for term in terms
            if has(self.nodes[other_node], term["topologyKey"])
        ]
        if not beside and all(means(term, pod, pod, own=True) for term in terms):
            return True
        domains = {(key, label(self.nodes[name], key)) for name, key in beside}
        return all((term["topologyKey"], label(node, term["topologyKey"])) in domains for term in terms)

    def is_apart(self, pod, node):
        return not any(
            self.together(node, name, term["topologyKey"]) and means(term, pod, other, own=True)
            for term in affinity(pod, "podAntiAffinity").get(REQUIRED, ())
            for other, name in self.running()
        )

    def is_welcome(self, pod, node):
        return not any(
            self.together(node, name, term["topologyKey"]) and means(term, other, pod, own=False)
            for other, name in self.running()
            for term in affinity(other, "podAntiAffinity").get(REQUIRED, ())
        )

    def together(self, node, name, key):
        return has(node, key) and label(node, key) == label(self.nodes[name], key)


def label(node, key):
    return node["metadata"]["labels"].get(key)


def has(node, key):
    return key in node["metadata"]["labels"]


def space(name):
    return {**NAMESPACES[name], "kubernetes.io/metadata.name": name}


def affinity(pod, kind):
    return pod["spec"].get("affinity", {}).get(kind, {})


def tolerates(pod, key, value, effect="NoSchedule"):
    return any(
        each.get("effect", effect) == effect
        and each.get("key", key) == key
        and (each.get("operator") == "Exists" or each.get("value", "") == value)
        for each in pod["spec"].get("tolerations", ())
    )


def untainted(pod, node):
    taints = [each for each in node["spec"]["taints"] if each["effect"] != "PreferNoSchedule"]
    return all(tolerates(pod, each["key"], each["value"], each["effect"]) for each in taints)


def selected(pod, node):
    wanted = pod["spec"].get("nodeSelector", {})
    if any(label(node, key) != value for key, value in wanted.items()):
        return False
    required = affinity(pod, "nodeAffinity").get(REQUIRED)
    return required is None or any(
        all(holds(each, label(node, each["key"])) for each in term.get("matchExpressions", ()))
        and all(holds(each, node["metadata"]["name"]) for each in term.get("matchFields", ()))
        for term in required["nodeSelectorTerms"]
    )


def reached(pod, node):
    """Whether the volumes of a pod can be reached."""
    claims = [
        each["persistentVolumeClaim"] for each in pod["spec"].get("volumes", ()) if "persistentVolumeClaim" in each
    ]
    needed = [VOLUMES[each["claimName"]] for each in claims]
    return all(holds(each, label(node, each["key"])) for each in needed)


def holds(expression, value):
    values = expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(values[0])
        case _:
            return value is not None and value.isdigit() and int(value) < int(values[0])


def with_keys(term, labels):
    """A selector as expressions, with the own values of the keys that are to match, or not; None: nothing."""
    selector = term.get("labelSelector")
    if selector is None:
        return None
    listed = [
        {"key": key, "operator": "In", "values": [value]} for key, value in selector.get("matchLabels", {}).items()
    ]
    listed += selector.get("matchExpressions", [])
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        own = [key for key in term.get(keys, ()) if key in labels]
        listed += [{"key": key, "operator": operator, "values": [labels[key]]} for key in own]
    return {"matchExpressions": listed}


def matches(selector, labels):
    return selector is not None and all(
        holds(each, labels.get(each["key"])) for each in with_keys({"labelSelector": selector}, {})["matchExpressions"]
    )


def means(term, owner, other, own):
    """Whether a term of *owner* means *other*; its own terms go by an empty namespace as well."""
    named, spaces = term.get("namespaces", []), term.get("namespaceSelector")
    namespace = other["metadata"]["namespace"]
    if not named and spaces is None:
        named = [owner["metadata"]["namespace"]]
    in_other = spaces is not None and (matches(spaces, space(namespace)) or (own and matches(spaces, {})))
    return (namespace in named or in_other) and matches(
        with_keys(term, owner["metadata"]["labels"]), other["metadata"]["labels"]
    )


def host_ports(pod):
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    for port in (port for each in containers for port in each.get("ports", ())):
        yield port.get("hostIP", "0.0.0.0"), port.get("protocol", "TCP"), port["hostPort"]


def needs(pod):
    spec = pod["spec"]
    running = sum((requests(each) for each in spec["containers"]), Counter())
    sidecars, starting = Counter(), Counter()
    for each in spec.get("initContainers", ()):
        if each.get("restartPolicy") == "Always":
            sidecars += requests(each)
            starting |= sidecars
        else:
            starting |= requests(each) + sidecars
    total = (running + sidecars) | starting
    asked = {key: amount(key, text) for key, text in spec.get("resources", {}).get("requests", {}).items()}
    total = Counter({**total, **asked})
    return total + Counter({key: amount(key, text) for key, text in spec.get("overhead", {}).items()}) + Counter(pods=1)


def requests(container):
    return Counter({key: amount(key, text) for key, text in container["resources"]["requests"].items()})


def amount(key, text):
    number, units = text.rstrip("mMGi"), CPU if key == "cpu" else BYTES
    return int(number) * units[text[len(number) :]]
