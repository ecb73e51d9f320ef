"""Transformations of OME-Zarr 0.6: their matrices against the text of the specification."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.ngff_points import NUMBERS, SPEC, point_by_point, transformations, vectors
from xarray_n5.errors import MetadataError
from xarray_n5.model.system_graph import SystemGraph, on_space, space_axes
from xarray_n5.model.systems import (
    CoordinateSystem,
    Reference,
    SystemAxis,
    parse_reference,
    parse_system,
)
from xarray_n5.model.transformations import (
    MOST_PARTS,
    inverse,
    matrix,
    parse_transformation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = [
    ({"type": "identity"}, (1, 2, 3)),
    ({"type": "mapAxis", "mapAxis": [2, 0, 1]}, (3, 1, 2)),
    ({"type": "translation", "translation": [10, 20, 30]}, (11, 22, 33)),
    ({"type": "scale", "scale": [2, 0.5, 4]}, (2, 1, 12)),
    ({"type": "affine", "affine": [[1, 0, 0, 10], [0, 0, 1, 20], [0, -1, 0, 30]]}, (11, 23, 28)),
    ({"type": "affine", "affine": [[1, 0, 0, 10], [0, 0, 1, 20]]}, (11, 23)),
    ({"type": "rotation", "rotation": [[0, -1, 0], [1, 0, 0], [0, 0, 1]]}, (-2, 1, 3)),
    (
        {
            "type": "sequence",
            "transformations": [
                {"type": "translation", "translation": [1, 1, 1]},
                {"type": "scale", "scale": [2, 2, 2]},
            ],
        },
        (4, 6, 8),
    ),
    (
        {
            "type": "byDimension",
            "transformations": [
                {
                    "transformation": {"type": "translation", "translation": [9]},
                    "inputAxes": [0],
                    "outputAxes": [2],
                },
                {
                    "transformation": {"type": "scale", "scale": [2, 3]},
                    "inputAxes": [2, 1],
                    "outputAxes": [0, 1],
                },
            ],
        },
        (6, 6, 10),
    ),
    ({"type": "projectAxis", "droppedInputs": [0], "createdOutputs": [1]}, (2, 0, 3)),
    ({"type": "projectAxis", "createdOutputs": [0, 3]}, (0, 1, 2, 0, 3)),
    (
        {
            "type": "bijection",
            "forward": {"type": "scale", "scale": [2, 2, 2]},
            "inverse": {"type": "scale", "scale": [0.5, 0.5, 0.5]},
        },
        (2, 4, 6),
    ),
]


def moved(rows: np.ndarray, point: Any) -> np.ndarray:
    return np.asarray(rows[:, :-1] @ np.asarray(point) + rows[:, -1])


@pytest.mark.parametrize(("document", "expected"), EXAMPLES)
def test_transformations_map_the_points_of_the_specification(
    document: dict[str, Any], expected: tuple[float, ...]
) -> None:
    parsed = parse_transformation(document)
    assert moved(matrix(parsed, 3), (1, 2, 3)).tolist() == [*expected]
    assert parsed.to_json() == document
    assert pickle.loads(pickle.dumps(parsed)) == parsed  # noqa: S301
    if len(expected) == 3 and document["type"] != "projectAxis":
        np.testing.assert_allclose(moved(inverse(parsed, 3), expected), (1, 2, 3), atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), ndim=st.integers(1, 5))
def test_random_transformations_map_points_as_the_specification_says(
    data: st.DataObject, ndim: int
) -> None:
    document = data.draw(transformations(ndim))
    point = data.draw(vectors(NUMBERS, ndim))
    parsed = parse_transformation(document)
    expected = np.asarray(point_by_point(document, point))
    size = max(1.0, float(np.abs(matrix(parsed, ndim)).max())) * 1e-9 * 500
    np.testing.assert_allclose(moved(matrix(parsed, ndim), point), expected, rtol=0, atol=size)
    assert parse_transformation(json.loads(json.dumps(parsed.to_json()))) == parsed


def test_numbers_in_an_array_are_loaded_relative_to_the_group_if_they_are_few() -> None:
    arrays = {
        "image/m/a": np.array([[2.0, 0, 1], [0, 3, 5]]),
        "image/m/large": np.zeros((2, 10_000)),
        "image/m/text": np.array([["a"]]),
        "image/m/nan": np.array([[np.nan, 0, 0], [0, 1, 0]]),
    }
    parsed = parse_transformation({"type": "affine", "path": "m/a"}).below("image")
    assert matrix(parsed, 2, arrays.__getitem__).tolist() == arrays["image/m/a"].tolist()
    with pytest.raises(MetadataError, match="'image/m/a', which is not read here"):
        matrix(parsed, 2)
    for name, message in (("large", "(2, 10000)"), ("text", "<U1"), ("nan", "too large")):
        other = parse_transformation({"type": "affine", "path": f"m/{name}"}).below("image")
        with pytest.raises(MetadataError, match=message.replace("(", r"\(").replace(")", r"\)")):
            matrix(other, 2, arrays.__getitem__)


@pytest.mark.parametrize("kind", ["displacements", "coordinates", "warp"])
def test_what_is_not_affine_is_kept_verbatim_with_a_reason(kind: str) -> None:
    document = {"type": kind, "path": "field", "interpolation": "linear", "extra": [1]}
    parsed = parse_transformation({"type": "sequence", "transformations": [document]})
    assert parsed.to_json()["transformations"] == [document]
    assert kind in str(parsed.reason)
    with pytest.raises(MetadataError, match=kind):
        matrix(parsed, 3)


WRONG = [
    ({}, "'type'"),
    ("scale", "'type'"),
    ({"type": 3}, "'type'"),
    ({"type": "scale"}, "'scale' is None; expected a list"),
    ({"type": "scale", "scale": [1, 0]}, "non-zero"),
    ({"type": "scale", "scale": [1, float("nan")]}, "'scale'"),
    ({"type": "scale", "scale": [1, True]}, "'scale'"),
    ({"type": "translation", "translation": [float("inf")]}, "'translation'"),
    ({"type": "translation", "translation": [10**400]}, "'translation'"),
    ({"type": "translation", "translation": [0] * 1000}, "'translation'"),
    ({"type": "mapAxis", "mapAxis": [0, 2]}, "each axis exactly once"),
    ({"type": "mapAxis", "mapAxis": [0, 0]}, "unique"),
    ({"type": "mapAxis", "mapAxis": {"x": "y"}}, "'mapAxis'"),
    ({"type": "affine"}, "'affine'"),
    ({"type": "affine", "affine": [[1, 2], [3]]}, "a matrix"),
    ({"type": "affine", "path": "../elsewhere"}, "'path'"),
    ({"type": "affine", "path": "/elsewhere"}, "'path'"),
    ({"type": "rotation", "rotation": [[1, 0]]}, "square"),
    ({"type": "projectAxis"}, "'droppedInputs' or 'createdOutputs'"),
    ({"type": "projectAxis", "droppedInputs": [-1]}, "'droppedInputs'"),
    ({"type": "sequence"}, "'transformations'"),
    ({"type": "sequence", "transformations": [3]}, "'transformations'"),
    ({"type": "bijection", "forward": {"type": "identity"}}, "'type'"),
    ({"type": "identity", "input": 3}, "'name'"),
    ({"type": "identity", "input": {"name": "a", "path": "../b"}}, "relative path"),
    ({"type": "identity", "input": {"path": "/b"}}, "relative path"),
]


@pytest.mark.parametrize(("document", "message"), WRONG)
def test_invalid_transformations_are_errors_that_name_the_member(
    document: Any, message: str
) -> None:
    with pytest.raises(MetadataError, match=message) as caught:
        parse_transformation(document, "scene[0]")
    assert str(caught.value).startswith("scene[0]")


def test_huge_transformations_are_refused() -> None:
    wide = {"type": "sequence", "transformations": [{"type": "identity"}] * MOST_PARTS}
    with pytest.raises(MetadataError, match="at most"):
        parse_transformation(wide)


def test_sizes_that_do_not_fit_are_errors() -> None:
    wrong: list[dict[str, Any]] = [
        {"type": "scale", "scale": [1, 2]},
        {"type": "mapAxis", "mapAxis": [1, 0]},
        {"type": "rotation", "rotation": [[1, 0], [0, 1]]},
        {"type": "affine", "affine": [[1, 0, 0]]},
        {"type": "projectAxis", "droppedInputs": [3]},
        {"type": "projectAxis", "createdOutputs": [4]},
    ]
    for document in wrong:
        with pytest.raises(MetadataError, match=document["type"]):
            matrix(parse_transformation(document), 3)


def test_references_of_drafts_are_read_and_parts_for_some_axes_refused() -> None:
    parsed = parse_transformation({"type": "identity", "input": "in", "output": "out"})
    assert (parsed.input, parsed.output) == (Reference("in"), Reference("out"))
    part = {"type": "scale", "scale": [2.0], "inputAxes": ["j"], "outputAxes": ["y"]}
    for kind, member in (("byDimension", "'inputAxes'"), ("sequence", "for some axes")):
        with pytest.raises(MetadataError, match=member):
            parse_transformation({"type": kind, "transformations": [part]})


def test_systems_and_references_are_the_same_after_json() -> None:
    document = {
        "name": "world",
        "axes": [
            {"name": "c", "type": "channel", "discrete": True, "longName": "stain"},
            {"name": "y", "type": "space", "unit": "micrometer"},
            {"name": "x"},
        ],
    }
    parsed = parse_system(document)
    assert parsed.to_json() == document
    assert parsed.axes[0] == SystemAxis("c", "channel", discrete=True, long_name="stain")
    lists: list[Any] = [[], [{}], [{"name": "x"}, {"name": "x"}], {}, [{"name": "x"}] * 100]
    for axes in lists:
        with pytest.raises(MetadataError, match="axes"):
            parse_system({"name": "world", "axes": axes})
    for reference in ({"name": "a"}, {"path": "p/q"}, {"path": "p", "name": "a"}):
        assert parse_reference(reference).to_json() == reference
    assert parse_reference({"name": "a", "path": None}) == Reference("a")
    references: list[Any] = [None, 3, {}, {"name": 1}, {"path": []}]
    for wrong in references:
        with pytest.raises(MetadataError, match="an object"):
            parse_reference(wrong)


def system(name: str, axes: str = "zyx") -> CoordinateSystem:
    return CoordinateSystem(name, tuple(SystemAxis(axis, "space") for axis in axes))


def edge(start: str, end: str, document: dict[str, Any]) -> Any:
    return parse_transformation(document).between(Reference(start), Reference(end))


def graph(*edges: Any, **axes: str) -> SystemGraph:
    names = {name for e in edges for name in (e.input.name, e.output.name)}
    known = {Reference(name): system(name, axes.get(name, "zyx")) for name in names}
    return SystemGraph(edges, known)


def shift(*numbers: float) -> dict[str, Any]:
    return {"type": "translation", "translation": [*numbers]}


def test_the_shortest_way_inverts_edges() -> None:
    edges = (edge("a", "b", shift(1, 0, 0)), edge("c", "b", {"type": "scale", "scale": [2, 2, 2]}))
    routes = graph(*edges).routes(Reference("c"))
    assert moved(routes.matrix(Reference("a")), (3, 4, 6)).tolist() == [2, 2, 3]
    assert [back for _, back in routes.steps(Reference("a"))] == [False, True]
    assert [*routes.steps(Reference("c"))] == []
    assert routes.conflicts == []
    outward = graph(*edges).routes(Reference("a"), outward=True)
    assert np.array_equal(outward.matrix(Reference("c")), routes.matrix(Reference("a")))


@pytest.mark.parametrize("outward", [False, True])
def test_ways_that_differ_are_reported(*, outward: bool) -> None:
    def routes(*edges: Any) -> tuple[np.ndarray, list[str]]:
        ends = [Reference("a"), Reference("c")][:: 1 if outward else -1]
        found = graph(*edges).routes(ends[0], outward=outward)
        return moved(found.matrix(ends[1]), (0, 0, 0)), found.conflicts

    direct = edge("a", "c", shift(2, 0, 0))
    ways = (edge("a", "b", shift(1, 0, 0)), edge("b", "c", shift(1, 0, 0)))
    other = (edge("a", "b", shift(1, 0, 0)), edge("b", "c", shift(1, 0, 0.01)))
    assert routes(*ways, direct)[1] == []
    position, (conflict,) = routes(*other, direct)
    assert position.tolist() == [2, 0, 0]
    assert "lead to other positions" in conflict
    position, (conflict,) = routes(direct, edge("a", "c", shift(3, 0, 0)))
    assert position.tolist() == [2, 0, 0]
    position, (conflict,) = routes(direct, edge("c", "a", shift(-3, 0, 0)))
    assert position.tolist() == [2, 0, 0]


def searched_again(
    edges: Sequence[Any], start: Reference, end: Reference, without: int | None = None
) -> tuple[np.ndarray, list[int]] | None:
    """The matrix and the edges of the first of the shortest ways, by a search from its start."""
    reached: dict[Reference, tuple[np.ndarray, list[int]]] = {start: (np.eye(4), [])}
    queue = [start]
    for node in queue:
        for number, each in enumerate(edges):
            if number == without or node not in (each.input, each.output):
                continue
            far = each.output if node == each.input else each.input
            if far not in reached:
                rows = np.vstack([matrix(each, 3), [0, 0, 0, 1]])
                rows = rows if node == each.input else np.linalg.inv(rows)
                reached[far] = rows @ reached[node][0], [*reached[node][1], number]
                queue.append(far)
    return reached.get(end)


@settings(max_examples=80, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from([0, 0, 0, 0.5])),
        min_size=1,
        max_size=12,
    ),
    outward=st.booleans(),
)
def test_one_search_finds_the_ways_and_conflicts_of_many(
    pairs: list[tuple[int, int, float]], *, outward: bool
) -> None:
    # The system s3 is at 3, so that most edges agree.
    edges = [edge(f"s{a}", f"s{b}", shift(b - a + wrong, 0, 0)) for a, b, wrong in pairs if a != b]
    edges.append(edge("s0", "s1", shift(1, 0, 0)))
    whole, hub = graph(*edges), Reference("s0")
    routes = whole.routes(hub, outward=outward)
    for node in whole.systems:
        ends = (hub, node) if outward else (node, hub)
        expected = searched_again(edges, *ends)
        assert (expected is None) == (node not in routes.matrices)
        if expected is None:
            continue
        rows, steps = expected
        assert np.array_equal(routes.matrix(node), rows[:3])
        if not outward:
            assert [step for step, _ in routes.steps(node)] == [edges[n] for n in steps]
        for other in filter(None, (searched_again(edges, *ends, n) for n in steps)):
            assert np.array_equal(other[0], rows) or routes.conflicts
    if not any(wrong for _, _, wrong in pairs):
        assert routes.conflicts == []


def test_each_matrix_is_computed_once_however_many_ways_there_are() -> None:
    loaded: list[str] = []

    def load(path: str) -> np.ndarray:
        loaded.append(path)
        return np.eye(3, 4)

    layers = [[f"{layer} {n}" for n in range(3)] for layer in range(40)]
    edges = [
        parse_transformation({"type": "affine", "path": f"m{a} {b}"}).between(
            Reference(a), Reference(b)
        )
        for here, there in pairwise([*layers, ["world"]])
        for a in here
        for b in there
    ]
    known = {Reference(name): system(name) for layer in [*layers, ["world"]] for name in layer}
    whole = SystemGraph(tuple(edges), known, load)
    for end in ("world", "3 1", "39 0"):
        routes = whole.routes(Reference(end))
        assert len(routes.matrices) == 3 * 40 + 1
        assert routes.conflicts == []
    # Two directions of an edge have two matrices, of which the inverse takes two.
    assert max(Counter(loaded).values()) <= 3
    whole.routes(Reference("world"))
    assert len(loaded) <= 3 * len(edges)


def test_systems_that_are_not_listed_are_passed() -> None:
    edges = [edge(f"s{n}", f"s{n + 1}", shift(0, n, 0)) for n in range(5)]
    known = {Reference(name): system(name) for name in ("s0", "s5")}
    routes = SystemGraph(tuple(edges), known).routes(Reference("s5"))
    assert moved(routes.matrix(Reference("s0")), (0, 0, 0)).tolist() == [0, 10, 0]
    known[Reference("flat")] = system("flat", "yx")
    flat = edge("s2", "flat", {"type": "identity"})
    routes = SystemGraph((*edges, flat), known).routes(Reference("s5"))
    assert moved(routes.matrix(Reference("s0")), (0, 0, 0)).tolist() == [0, 10, 0]
    assert Reference("flat") not in routes.matrices
    lifted = edge("flat", "s5", {"type": "projectAxis", "createdOutputs": [0]})
    routes = SystemGraph((*edges, flat, lifted), known).routes(Reference("s5"))
    assert len(routes.conflicts) == 1


def test_numbers_that_are_too_large_together_are_a_reason() -> None:
    large = {"type": "scale", "scale": [1e200, 1, 1]}
    routes = graph(edge("a", "b", large), edge("b", "c", large)).routes(Reference("c"))
    with pytest.raises(MetadataError, match="too large"):
        routes.matrix(Reference("a"))
    tiny = graph(edge("a", "b", {"type": "scale", "scale": [1e-310, 1, 1]}))
    with pytest.raises(MetadataError, match="no inverse"):
        tiny.routes(Reference("a")).matrix(Reference("b"))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"type": "affine", "affine": [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]}, "singular"),
        ({"type": "projectAxis", "droppedInputs": [0]}, "no inverse from 2 to 3 axes"),
        ({"type": "coordinates", "path": "field"}, "coordinates"),
        ({"type": "scale", "scale": [1, 1]}, "2 axes"),
    ],
)
def test_edges_that_cannot_be_inverted_are_reasons_why_there_is_no_way(
    document: dict[str, Any], reason: str
) -> None:
    axes = {"b": "yx"} if document["type"] == "projectAxis" else {}
    with pytest.raises(MetadataError, match=f"from 'b' to 'a': .*{reason}"):
        graph(edge("a", "b", document), **axes).routes(Reference("a")).matrix(Reference("b"))


def test_an_edge_to_another_number_of_axes_than_its_system_is_not_followed() -> None:
    wrong = edge("a", "b", {"type": "affine", "affine": [[1, 0, 0, 0], [0, 1, 0, 0]]})
    with pytest.raises(MetadataError, match="leads to 2 axes, expected the 3 of 'b'"):
        graph(wrong).routes(Reference("b")).matrix(Reference("a"))


def test_names_that_a_transformation_by_position_exchanges_are_reported() -> None:
    turned = graph(edge("tile", "world", shift(1, 2)), tile="yx", world="xy")
    assert "['y', 'x'] to ['x', 'y']" in turned.exchanged()[0]
    mapped = {"type": "mapAxis", "mapAxis": [1, 0]}
    assert graph(edge("tile", "world", mapped), tile="yx", world="xy").exchanged() == []


def test_the_part_on_space_is_in_the_order_z_y_x() -> None:
    axes = (SystemAxis("t", "time"), *system("", "yx").axes)
    world = system("world", "xyz")
    rows = np.array([[0, 0, 3.0, 7], [0, 2.0, 0, 8], [0, 0, 0, 9]])
    assert on_space(rows, axes, world).tolist() == [[0, 0, 9], [2, 0, 8], [0, 3, 7]]
    assert space_axes(system("other", "ji").axes) == [0, 1]
    rows[0, 0] = 0.5
    with pytest.raises(MetadataError, match="'x' of 'world' depends on 't'"):
        on_space(rows, axes, world)


@pytest.mark.skipif(not SPEC.is_dir(), reason="the specification is not here")
def test_each_transformation_of_the_specification_is_computed_or_has_a_reason() -> None:
    computed, refused = 0, list[tuple[str, str]]()
    for path in sorted(SPEC.glob("examples/transformations/[a-z]*.json")):
        document = json.loads(path.read_text())
        listed = document.get("coordinateSystems", [])
        sizes = {each["name"]: [a["name"] for a in each["axes"]] for each in listed}
        for one in document.get("coordinateTransformations", [document]):
            start, end = (parse_reference(one[key]).name for key in ("input", "output"))
            names = (sizes.get(start, ["j", "i"]), sizes.get(end, ["y", "x"]))
            try:
                rows = matrix(parse_transformation(one), len(names[0]))
            except MetadataError as error:
                refused.append((path.stem, str(error)))
                continue
            point = [0.25, 3.0, -2.0, 5.0][: len(names[0])]
            np.testing.assert_allclose(moved(rows, point), point_by_point(one, point), atol=1e-9)
            assert len(rows) == len(names[1])
            computed += 1
    known = ("Invalid", "'coordinates' is not affine", "'inputAxes'", "'type'")
    assert [one for one in refused if not any(text in "".join(one) for text in known)] == []
    assert (computed, len(refused)) == (15, 7)
