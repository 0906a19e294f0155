"""The fields of node classes that providers hash, read from the providers' own Go modules."""

import re

import pytest
import yaml

from e2e.karpenter.module_files import read_files
from e2e.nodes.providers import AWS, AZURE
from scorer.api.node_class import AKS_NODE_CLASS, EC2_NODE_CLASS, HASHED_FIELDS

_FIELD = re.compile(r'^\t\w+ +\S+ +`json:"([^",]+)[^"]*"(?: hash:"(\w+)")?`', re.MULTILINE)
_NESTED_IGNORE = re.compile(r'json:"([^",]+)[^"]*" hash:"ignore"')


def struct_of(text, name):
    """Return the body of a Go struct."""
    return re.search(rf"^type {name} struct \{{$(.*?)^\}}$", text, re.DOTALL | re.MULTILINE)[1]


def defaults_of(definition, version):
    """Return the defaults of ``spec`` in a CustomResourceDefinition, by path."""
    versions = {each["name"]: each for each in definition["spec"]["versions"]}
    spec = versions[version]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found = {}

    def walk(schema, path):
        if path and "default" in schema:
            found[".".join(path)] = schema["default"]
        for name, member in schema.get("properties", {}).items():
            walk(member, (*path, name))
        if isinstance(schema.get("items"), dict):
            walk(schema["items"], (*path, "*"))

    walk(spec, ())
    return found


CLASSES = [
    pytest.param(
        AKS_NODE_CLASS, AZURE, "pkg/apis/v1beta1/aksnodeclass.go", "karpenter.azure.com_aksnodeclasses", [], id="aks"
    ),
    pytest.param(
        EC2_NODE_CLASS,
        AWS,
        "pkg/apis/v1/ec2nodeclass.go",
        "karpenter.k8s.aws_ec2nodeclasses",
        ["amiFamily", "kubelet"],
        id="ec2",
    ),
]


@pytest.mark.parametrize(("kind", "module", "source", "definition", "separately"), CLASSES)
def test_the_fields_are_those_of_the_provider(kind, module, source, definition, separately):
    """*separately* names the fields that the struct ignores, and that ``Hash`` adds in another form."""
    text = read_files(module, [source])
    fields = {name: ignored == "ignore" for name, ignored in _FIELD.findall(struct_of(text, f"{kind.kind}Spec"))}
    fields.pop("-", None)
    own = HASHED_FIELDS[kind.group_kind]
    families = {own.family[0]} if own.family else set()
    assert {name for name, ignored in fields.items() if not ignored} == own.hashed - set(separately)
    assert {name for name, ignored in fields.items() if ignored} == (
        own.resolved | own.ignored | set(separately) | families
    )
    assert set(_NESTED_IGNORE.findall(text)) == {name for name, ignored in fields.items() if ignored}
    hashing = re.search(r"^func \(in \*\w+\) Hash\(.*?^\}$", text, re.DOTALL | re.MULTILINE)[0]
    assert ("in.AMIFamily()" in hashing, "in.Spec.Kubelet.String()" in hashing) == (bool(separately),) * 2
    assert "SlicesAsSets:    true" in hashing


@pytest.mark.parametrize(("kind", "module", "source", "definition", "separately"), CLASSES)
def test_the_defaults_are_those_of_the_definition(kind, module, source, definition, separately):
    found = defaults_of(yaml.safe_load(read_files(module, [f"pkg/apis/crds/{definition}.yaml"])), kind.versions[0])
    own = {**HASHED_FIELDS[kind.group_kind].defaults}
    whole = {name: value for name, value in found.items() if isinstance(value, dict)}
    for name, value in whole.items():
        assert own.pop(name) == {}
        assert value == {key.partition(".")[2]: each for key, each in own.items() if key.startswith(f"{name}.")}
    assert own == {name: value for name, value in found.items() if name not in whole}
