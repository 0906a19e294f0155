"""What changes on a cluster when it gets another resource snapshot."""

import pytest

from scorer.api.values.quoting import LONGEST_QUOTE
from scorer.rollout.envelopes import EnvelopeKey
from scorer.staged_update.views.content_diff import (
    MOST_FIELDS,
    MOST_OBJECTS,
    REDACTED,
    ChangeKind,
    FieldChange,
    content_diff,
)

HIDDEN = "c2VjcmV0"


def made(kind="ConfigMap", name="settings", version="v1", **members):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, **members}


def envelope(**data):
    return {**made("ResourceEnvelope", "wrapped", "placement.kubernetes-fleet.io/v1beta1"), "data": data}


def fields(before, after):
    """Return the fields in which two versions of an object differ."""
    found = content_diff([before], [after])
    return [(field.path, field.before, field.after) for change in found.objects for field in change.fields]


def said(diff):
    return [(str(change.change), change.place.kind, change.place.name) for change in diff.objects]


class TestObjects:
    """Which objects come, go and change."""

    def test_equal_contents_do_not_differ(self):
        assert not content_diff([made(data={"a": "1"})], [made(data={"a": "1"})])

    def test_what_comes_and_changes_is_told_in_the_order_of_placing_and_then_what_goes(self):
        before = [made(name="gone"), made(data={"a": "1"})]
        after = [made("Deployment", "api", "apps/v1"), made(data={"a": "2"})]
        assert said(content_diff(before, after)) == [
            ("Added", "Deployment", "api"),
            ("Changed", "ConfigMap", "settings"),
            ("Removed", "ConfigMap", "gone"),
        ]

    def test_the_same_name_in_another_namespace_is_another_object(self):
        other = made()
        other["metadata"] = {"name": "settings", "namespace": "bank"}
        found = content_diff([made()], [other])
        assert [(change.change, change.place.namespace) for change in found.objects] == [
            (ChangeKind.ADDED, "bank"),
            (ChangeKind.REMOVED, "shop"),
        ]

    def test_objects_beyond_the_limit_are_counted(self):
        found = content_diff([], [made(name=f"n{number}") for number in range(MOST_OBJECTS + 7)])
        assert (len(found.objects), found.more) == (MOST_OBJECTS, 7)


class TestFields:
    """Which fields of an object change."""

    def test_paths_and_values_are_as_kubectl_writes_them(self):
        one, two = ({"spec": {"containers": [{"name": "api", "image": image}]}} for image in ("a:1", "a:2"))
        assert fields(made(**one), made(**two)) == [("spec.containers[0].image", '"a:1"', '"a:2"')]

    def test_a_field_that_comes_or_goes_has_no_value_on_that_side(self):
        before, after = made(data={"old": "1"}), made(data={"a/b": "2"})
        assert fields(before, after) == [("data[a/b]", "", '"2"'), ("data.old", '"1"', "")]

    def test_null_is_the_same_as_absent(self):
        assert fields(made(data=None), made()) == []

    @pytest.mark.parametrize(("before", "after"), [(1, True), (0, False), (1, "1"), ([], {}), ("", None)])
    def test_values_of_different_types_differ(self, before, after):
        assert [path for path, _, _ in fields(made(value=before), made(value=after))] == ["value"]

    def test_values_are_cut_and_fields_beyond_the_limit_counted(self):
        before = made(data={f"k{number:03}": "" for number in range(MOST_FIELDS + 5)})
        after = made(data=dict.fromkeys(before["data"], "long" * 100))
        (change,) = content_diff([before], [after]).objects
        assert (len(change.fields), change.more) == (MOST_FIELDS, 5)
        assert all(len(field.after) <= LONGEST_QUOTE + 2 for field in change.fields)

    def test_what_is_nested_very_deeply_is_compared_as_a_whole(self):
        def nested(leaf):
            value = leaf
            for _ in range(5000):
                value = [value]
            return made(value=value)

        assert len(fields(nested(1), nested([]))) == 1


class TestSecrets:
    """Of a Secret nothing is told but that it differs."""

    @pytest.mark.parametrize("member", ["data", "stringData"])
    def test_neither_values_nor_keys_of_a_secret_are_shown(self, member):
        found = content_diff(
            [made("Secret", **{member: {"token": HIDDEN}})], [made("Secret", **{member: {"pin": "x"}})]
        )
        (change,) = found.objects
        assert change.fields == (FieldChange(member, REDACTED, REDACTED),)

    def test_annotations_of_a_secret_may_hold_its_content_and_are_not_shown_either(self):
        after = made("Secret")
        after["metadata"] = {**after["metadata"], "annotations": {"copy": HIDDEN}}
        assert fields(made("Secret"), after) == [("metadata", REDACTED, REDACTED)]

    def test_a_secret_in_an_envelope_is_not_shown_either(self):
        before, after = (envelope(key=made("Secret", "key", stringData={"token": text})) for text in (HIDDEN, "new"))
        found = content_diff([before], [after])
        assert HIDDEN not in repr(found)
        assert [(change.place.name, change.fields) for change in found.objects] == [
            ("key", (FieldChange("stringData", REDACTED, REDACTED),))
        ]

    def test_a_secret_in_an_envelope_in_an_envelope_which_is_never_placed_is_not_shown_either(self):
        before, after = (envelope(e=envelope(key=made("Secret", data={"t": text}))) for text in (HIDDEN, "new"))
        found = content_diff([before], [after])
        assert HIDDEN not in repr(found)
        assert found

    def test_a_secret_that_comes_or_goes_is_only_named(self):
        found = content_diff([made("Secret", "old", data={"t": HIDDEN})], [made("Secret", "new", data={"t": HIDDEN})])
        assert said(found) == [("Added", "Secret", "new"), ("Removed", "Secret", "old")]
        assert HIDDEN not in repr(found)

    @pytest.mark.parametrize("member", ["data", "stringData"])
    def test_a_secret_inside_another_object_is_not_shown_either(self, member):
        def listed(text):
            return made("List", version="v1", items=[made(), {"kind": "Secret", member: {"token": text}}])

        assert fields(listed(HIDDEN), listed("new")) == [("items[1]", REDACTED, REDACTED)]
        assert fields(made("List"), listed(HIDDEN)) == [("items", "", REDACTED)]

    def test_a_template_that_becomes_one_of_a_secret_is_not_shown(self):
        before = made("Policy", spec={"generate": {"kind": "ConfigMap", "data": {"a": "b"}}})
        after = made("Policy", spec={"generate": {"kind": "Secret", "data": {"a": HIDDEN}}})
        [(path, _, new)] = fields(before, after)
        assert (path, new) == ("spec.generate", REDACTED)

    def test_the_name_of_a_secret_is_shown(self):
        before, after = (made("App", spec={"ref": {"kind": "Secret", "name": name}}) for name in ("old", "new"))
        assert fields(before, after) == [("spec.ref.name", '"old"', '"new"')]


class TestEnvelopes:
    """Objects in an envelope are compared one by one."""

    def test_an_object_in_an_envelope_is_named_with_it(self):
        found = content_diff([envelope(a=made(data={"x": "1"}))], [envelope(a=made(data={"x": "2"}))])
        (change,) = found.objects
        assert change.place.envelope == EnvelopeKey("ResourceEnvelope", "shop", "wrapped")
        assert [field.path for field in change.fields] == ["data.x"]

    def test_the_key_under_which_an_object_is_wrapped_makes_no_difference(self):
        assert not content_diff([envelope(a=made())], [envelope(b=made())])

    def test_an_object_that_leaves_its_envelope_goes_and_comes(self):
        found = content_diff([envelope(a=made())], [envelope(), made()])
        assert said(found) == [("Added", "ConfigMap", "settings"), ("Removed", "ConfigMap", "settings")]
