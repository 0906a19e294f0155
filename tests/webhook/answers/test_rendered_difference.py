"""The difference of one rendered object: exact, and bounded however alike its lines are."""

from random import Random

import pytest

from webhook.answers import rendering


def applied(before, diff):
    """Return the lines that a unified diff makes of *before*."""
    lines, at = [], 0
    for line in diff:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - (count != "0")
            lines += before[at:first]
            at = first
        elif line[0] in " -":
            assert before[at] == line[1:]
            at += 1
            lines += [line[1:]] * (line[0] == " ")
        else:
            lines.append(line[1:])
    return lines + before[at:]


@pytest.mark.parametrize("seed", range(30))
def test_one_hunk_leads_from_one_text_to_the_other(seed):
    random = Random(seed)
    before = random.choices("abc", k=random.randrange(1, 12))
    after = [line for line in before if random.random() < 0.8] + random.choices("abc", k=random.randrange(3))
    if before != after:
        assert applied(before, rendering._one_hunk(before, after)) == after


def test_the_hunk_has_three_lines_of_context():
    before = [str(number) for number in range(20)]
    after = [*before[:10], "new", *before[11:]]
    expected = ["@@ -8,7 +8,7 @@", " 7", " 8", " 9", "-10", "+new", " 11", " 12", " 13"]
    assert rendering._one_hunk(before, after) == expected
