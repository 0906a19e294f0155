"""kubectl's JSONPath templates; the rows that name client-go are those of its own tests."""

import pytest

from webhook.cli.text.jsonpath import JsonPathError, go_text, parse_path, parse_template

STORE = {
    "Name": "jsonpath",
    "Book": [
        {"Category": "reference", "Author": "Nigel Rees", "Title": "Sayings of the Century", "Price": 8.95},
        {"Category": "fiction", "Author": "Evelyn Waugh", "Title": "Sword of Honour", "Price": 12.99},
        {"Category": "fiction", "Author": "Herman Melville", "Title": "Moby Dick", "Price": 8.99},
    ],
    "Bicycle": [{"Color": "red", "Price": 19.95, "IsNew": True}, {"Color": "green", "Price": 20.01, "IsNew": False}],
    "Labels": {"web/html": 15, "k8s-app": 20, "a.b": 1},
    "Employees": {"jason": "manager", "dan": "clerk"},
    "Empty": [],
    "Nothing": None,
}
NODES = {
    "items": [
        {"metadata": {"name": "n1"}, "status": {"addresses": [{"type": "IP", "address": "1"}], "ready": True}},
        {"metadata": {"name": "n2"}, "status": {"addresses": [{"type": "IP", "address": "2"}], "ready": False}},
    ]
}


@pytest.mark.parametrize(
    ("template", "written"),
    [
        pytest.param("hello jsonpath", "hello jsonpath", id="client-go-plain"),
        pytest.param("{.Name}", "jsonpath", id="client-go-field"),
        pytest.param("{$.Name}", "jsonpath", id="client-go-root"),
        pytest.param("{@.Name}", "jsonpath", id="client-go-current"),
        pytest.param("{.Book[*].Author}", "Nigel Rees Evelyn Waugh Herman Melville", id="client-go-array-wildcard"),
        pytest.param("{.Book[1].Category}", "fiction", id="index"),
        pytest.param("{.Book[-1].Title}", "Moby Dick", id="last"),
        pytest.param("{.Book[-2:].Price}", "12.99 8.99", id="from-the-end"),
        pytest.param("{.Book[0:2].Price}", "8.95 12.99", id="slice"),
        pytest.param("{.Book[::2].Price}", "8.95 8.99", id="step"),
        pytest.param("{.Book[0,2].Price}", "8.95 8.99", id="union"),
        pytest.param("{['Name','Name']}", "jsonpath jsonpath", id="union-of-fields"),
        pytest.param("{.Labels.web/html}", "15", id="client-go-slash"),
        pytest.param(r"{.Labels.a\.b}", "1", id="escaped-dot"),
        pytest.param("{.Labels['a.b']}", "1", id="in-quotes"),
        pytest.param("{.Employees.*}", "manager clerk", id="client-go-map-wildcard"),
        pytest.param("{..Color}", "red green", id="client-go-recursive"),
        pytest.param("{..Price}", "8.95 12.99 8.99 19.95 20.01", id="client-go-recursive-order"),
        pytest.param("{.Bicycle[?(@.IsNew==true)].Color}", "red", id="client-go-boolean"),
        pytest.param("{.Bicycle[?(@.IsNew!=true)].Color}", "green", id="client-go-not"),
        pytest.param("{.Book[?(@.Price<9.5)].Title}", "Sayings of the Century Moby Dick", id="less"),
        pytest.param('{.Book[?(@.Title=="Moby Dick")].Price}', "8.99", id="equal"),
        pytest.param("{.Book[?(@.Title>='Sw')].Price}", "12.99", id="texts-in-order"),
        pytest.param("{.Book[?(@.Isbn)].Price}", "", id="exists-nowhere"),
        pytest.param("{.Nowhere.at.all}", "", id="missing"),
        pytest.param("{.Name.deeper}", "", id="below-a-text"),
        pytest.param("{.Empty[*]}", "", id="empty-list"),
        pytest.param("{.Bicycle[0]}", '{"Color":"red","IsNew":true,"Price":19.95}', id="object-as-json"),
        pytest.param('{.Name}{"\\n"}{.Name}{"\\t"}', "jsonpath\njsonpath\t", id="literals"),
        pytest.param("{'a}b'}", "a}b", id="brace-in-quotes"),
        pytest.param("{true} {1} {2.5}", "true 1 2.5", id="client-go-literals"),
        pytest.param("[{.Name}] {{.Name}", None, id="nested-brace"),
    ],
)
def test_templates(template, written):
    if written is None:
        with pytest.raises(JsonPathError, match="unclosed action"):
            parse_template(template)
        return
    assert parse_template(template).write(STORE) == written


@pytest.mark.parametrize(
    ("template", "written"),
    [
        pytest.param('{range .items[*]}{.metadata.name}{"\\n"}{end}', "n1\nn2\n", id="the-kubectl-cheat-sheet"),
        pytest.param(
            "{range .items[*]}[{.metadata.name}, {.status.ready}] {end}", "[n1, true] [n2, false] ", id="text"
        ),
        pytest.param(
            "{range .items[*]}{range .status.addresses[*]}{.type}={.address};{end}{end}", "IP=1;IP=2;", id="two"
        ),
        pytest.param("{range .none[*]}x{end}", "", id="over-nothing"),
        pytest.param("{.items[?(@.status.ready==true)].metadata.name}", "n1", id="filter"),
    ],
)
def test_ranges(template, written):
    assert parse_template(template).write(NODES) == written


@pytest.mark.parametrize(
    ("template", "why"),
    [
        pytest.param("{.Name", "unclosed action", id="unclosed"),
        pytest.param("{.Book[}", "unterminated array", id="open-bracket"),
        pytest.param("{.Book[x]}", "invalid array index x", id="no-index"),
        pytest.param("{.Book[-]}", "invalid array index -", id="minus"),
        pytest.param("{.Book[0:2:0]}", "step must be > 0", id="no-step"),
        pytest.param("{hello}", "unrecognized identifier hello", id="client-go-identifier"),
        pytest.param("{end}", "not in range, nothing to end", id="client-go-end"),
        pytest.param("{range .Book[*]}", "a range has no {end}", id="no-end"),
        pytest.param('{.Book[?(@.Title="x")]}', "unrecognized filter operator =", id="one-equals"),
        pytest.param("{.Book[?()]}", "an action is empty", id="empty-filter"),
        pytest.param("{%}", "unrecognized identifier %", id="character"),
        pytest.param("{.a" + "[0]" * 300 + "}", "more than 256 steps", id="too-deep"),
        pytest.param("{range .a}" * 300, "more than 256 ranges inside each other", id="too-many-ranges"),
    ],
)
def test_what_is_no_template(template, why):
    with pytest.raises(JsonPathError, match=f"^{why.replace('{', '[{]').replace('(', '[(]')}"):
        parse_template(template)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        pytest.param("{.Book[3]}", "array index out of bounds: index 3, length 3", id="beyond"),
        pytest.param("{.Book[-4]}", "array index out of bounds: index -1, length 3", id="before"),
        pytest.param("{.Book[2:1]}", "starting index 2 is greater than ending index 1", id="backwards"),
        pytest.param("{.Name[0]}", "jsonpath is not a list", id="client-go-no-list"),
        pytest.param("{.Name[?(@.a)]}", "jsonpath is not a list and cannot be filtered", id="filter"),
        pytest.param('{.Book[?(@.Price=="x")]}', "incompatible types for comparison", id="types"),
        pytest.param("{.Bicycle[?(@.IsNew>true)]}", "invalid type for comparison", id="no-order"),
        pytest.param("{.Book[?(@.*==1)]}", "can only compare one element at a time", id="many"),
    ],
)
def test_what_does_not_fit_the_object(template, why):
    read = parse_template(template)
    with pytest.raises(JsonPathError, match=f"^{why}"):
        read.write(STORE)


@pytest.mark.parametrize(
    "text", ["metadata.name", ".metadata.name", "{.metadata.name}", "{metadata.name}", "$.metadata.name"]
)
def test_paths_of_columns_are_written_in_several_ways(text):
    assert parse_path(text).find([NODES["items"][0]]) == ["n1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "<nil>"),
        (True, "true"),
        (8, "8"),
        (8.5, "8.5"),
        (1e21, "1e+21"),
        (["a", 1], "[a 1]"),
        ({"b": 1, "a": ["x"]}, "map[a:[x] b:1]"),
    ],
)
def test_values_in_columns_are_written_as_go_does(value, text):
    assert go_text(value) == text
