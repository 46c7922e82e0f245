"""The benchmark harness, without measuring anything: its programs are stand-ins with made-up figures."""

from __future__ import annotations

import importlib.util
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from benchmarks import __main__ as command
from benchmarks.harness import Runner, measure_all
from benchmarks.launch import Broken, parse_output
from benchmarks.model import BYTES, RATE, SLOWDOWN, Build, Comparison, Program, Row, Setting, at_least, at_most
from benchmarks.plot import draw
from benchmarks.program import Report, Unavailable
from benchmarks.progress import Progress
from benchmarks.report import as_json, closing, render, table
from benchmarks.results import Figure, Mark, RowResult, figure_of, judge
from benchmarks.rows import ROWS, UnknownRow, select

COMPILED = Setting(python="python", compiled=True)


def program(name: str) -> Program:
    return Program(name, lambda setting, size: [name, str(size)], size=1000, quick_size=10)


OURS = program("Greenroom")
ERLANG = program("Erlang")
PYKKA = program("Pykka")


def row(*comparisons: Comparison, **changes: object) -> Row:
    values = {"id": "P1", "work": "ping-pong", "unit": RATE, "ours": OURS, "comparisons": comparisons, "rounds": 3}
    return Row(**(values | changes))  # type: ignore[arg-type]


def figures(**given: list[float | Exception]) -> tuple[Runner, list[str]]:
    """A runner that hands out the given figures in turn, and the order in which it was asked."""
    left: dict[str, Iterator[float | Exception]] = {name: iter(values) for name, values in given.items()}
    asked: list[str] = []

    def run(which: Program, setting: Setting) -> Report:
        asked.append(which.name)
        figure = next(left[which.name])
        if isinstance(figure, Exception):
            raise figure
        return Report(figure)

    return run, asked


def measure(work: Row, run: Runner, setting: Setting = COMPILED) -> RowResult:
    [result] = measure_all([work], setting, Progress(io.StringIO()), run)
    return result


# -- rounds


def test_contenders_take_turns_and_the_best_round_of_each_counts() -> None:
    run, asked = figures(Greenroom=[4.0, 6.0, 5.0], Erlang=[1.0, 2.0, 1.5])
    result = measure(row(Comparison(ERLANG, at_least(2.5))), run)
    assert asked == ["Greenroom", "Erlang"] * 3
    assert result.ours is not None
    assert result.ours.value == 6.0
    assert result.lines[0].score == 3.0
    assert result.lines[0].mark is Mark.MEETS


def test_a_quick_run_uses_the_quick_sizes_and_rounds() -> None:
    quick = Setting(python="python", compiled=True, quick=True)
    run, asked = figures(Greenroom=[1.0], Erlang=[1.0])
    measure(row(Comparison(ERLANG), quick_rounds=1), run, quick)
    assert asked == ["Greenroom", "Erlang"]
    assert ERLANG.command(quick) == ["Erlang", "10"]
    assert ERLANG.command(COMPILED) == ["Erlang", "1000"]


def test_a_missing_peer_is_asked_once_and_becomes_a_skipped_line_with_its_reason() -> None:
    run, asked = figures(Greenroom=[4.0, 4.0, 4.0], Pykka=[Unavailable("pykka is not installed")])
    result = measure(row(Comparison(PYKKA, at_least(15.0))), run)
    assert asked.count("Pykka") == 1
    assert result.lines[0].mark is Mark.SKIPPED
    assert "skipped: pykka is not installed" in table([result])


def test_a_failing_peer_is_skipped_and_the_others_are_still_compared() -> None:
    run, _ = figures(Greenroom=[4.0] * 3, Erlang=[Broken("killed by SIGSEGV")], Pykka=[1.0] * 3)
    result = measure(row(Comparison(ERLANG, at_least(2.5)), Comparison(PYKKA)), run)
    assert [line.mark for line in result.lines] == [Mark.SKIPPED, Mark.ORIENTATION]
    assert result.lines[0].reason == "killed by SIGSEGV"
    assert result.lines[1].score == 4.0


def test_a_failure_of_our_own_program_fails_the_row_and_spares_the_peers() -> None:
    run, asked = figures(Greenroom=[Broken("TypeError: no")], Erlang=[1.0] * 3)
    result = measure(row(Comparison(ERLANG, at_least(2.5))), run)
    assert asked == ["Greenroom"]
    assert result.lines[0].mark is Mark.FAILED
    assert result.lines[0].reason == "TypeError: no"


def test_a_row_that_is_not_built_yet_still_measures_its_peers() -> None:
    run, _ = figures(Erlang=[1.0] * 3, Pykka=[Unavailable("no pykka")])
    result = measure(row(Comparison(ERLANG, at_least(1.0)), Comparison(PYKKA), ours=None), run)
    assert [line.mark for line in result.lines] == [Mark.PENDING, Mark.SKIPPED]
    assert result.lines[0].theirs is not None
    assert result.lines[0].theirs.value == 1.0


# -- figures and marks


@pytest.mark.parametrize(
    ("target", "score", "mark"),
    [
        (at_least(2.5), 2.5, Mark.MEETS),
        (at_least(2.5), 2.49, Mark.BELOW),
        (at_most(1.2), 1.2, Mark.MEETS),
        (at_most(1.2), 1.21, Mark.ABOVE),
        (None, 0.1, Mark.ORIENTATION),
    ],
)
def test_a_mark_says_on_which_side_of_the_target_the_ratio_stands(target, score, mark) -> None:
    result = judge(row(Comparison(ERLANG, target)), Figure(score), {"Erlang": Figure(1.0)}, Build.COMPILED)
    assert result.lines[0].mark is mark


def test_a_target_without_a_peer_bounds_the_figure_itself() -> None:
    result = judge(row(Comparison(None, at_most(650)), unit=BYTES), Figure(700.0), {}, Build.COMPILED)
    assert result.lines[0].score == 700.0
    assert result.lines[0].mark is Mark.ABOVE


def test_a_compiled_target_is_not_judged_on_the_plain_build() -> None:
    line = Comparison(ERLANG, at_least(2.5))
    result = judge(row(line), Figure(9.0), {"Erlang": Figure(1.0)}, Build.PURE)
    assert result.lines[0].mark is Mark.OTHER_BUILD


def test_a_row_of_the_plain_build_is_judged_even_when_the_others_ran_compiled() -> None:
    run, _ = figures(Greenroom=[9.0] * 3, Pykka=[1.0] * 3)
    result = measure(row(Comparison(PYKKA, at_least(8.0)), build=Build.PURE), run)
    assert result.lines[0].mark is Mark.MEETS


@pytest.mark.parametrize(("unit", "value"), [(RATE, 9.0), (BYTES, 1.0), (SLOWDOWN, 2.0)])
def test_rounds_become_one_figure_as_their_unit_asks(unit, value) -> None:
    figure = figure_of(unit, [Report(1.0), Report(9.0), Report(2.0)])
    assert figure.value == value
    assert figure.samples == (1.0, 9.0, 2.0)


def test_the_parts_of_a_figure_come_from_the_round_that_made_it() -> None:
    figure = figure_of(RATE, [Report(1.0, {"start": 1.0}), Report(9.0, {"start": 2.0})])
    assert figure.parts == {"start": 2.0}


# -- what programs print


def test_the_last_line_of_a_program_is_its_report() -> None:
    report = parse_output(0, 'noise\n{"value": 3.5, "parts": {"fire": 1.0}}\n', "")
    assert report == Report(3.5, {"fire": 1.0})


def test_a_program_may_decline() -> None:
    with pytest.raises(Unavailable, match="no such thing here"):
        parse_output(0, '{"skipped": "no such thing here"}', "")


@pytest.mark.parametrize(
    ("status", "stdout", "stderr", "reason"),
    [
        (1, "", "Traceback\nValueError: bad\n", "ValueError: bad"),
        (3, "", "", "ended with status 3"),
        (-11, "", "", "killed by SIGSEGV"),
        (0, "", "", "not one line of JSON"),
        (0, "hello", "", "printed 'hello'"),
        (0, "[1]", "", "not one line of JSON"),
    ],
)
def test_a_program_without_a_figure_is_broken_and_says_how(status, stdout, stderr, reason) -> None:
    with pytest.raises(Broken, match=reason):
        parse_output(status, stdout, stderr)


# -- reports


@pytest.fixture
def results() -> list[RowResult]:
    compared = row(Comparison(ERLANG, at_least(2.5)), Comparison(PYKKA))
    bounded = row(Comparison(None, at_most(650)), id="P8", work="bytes <idle> & alive", unit=BYTES)
    skipped = row(Comparison(PYKKA, at_least(8.0)), id="P12", work="plain")
    theirs = {"Erlang": Figure(1.6e6), "Pykka": Figure(53e3)}
    return [
        judge(compared, Figure(4.8e6, (4.8e6,), {"seconds to play": 0.25}), theirs, Build.COMPILED),
        judge(bounded, Figure(104.0), {}, Build.COMPILED),
        judge(skipped, Figure(None, reason="needs the plain build"), {}, Build.COMPILED),
    ]


def test_the_table_is_aligned_and_names_a_row_once(results: list[RowResult]) -> None:
    lines = table(results).splitlines()
    assert [line.split()[0] for line in lines] == ["id", "---", "P1", "Pykka", "P8", "P12"]
    assert lines[2].split()[2:] == ["4.8", "M/s", "Erlang", "1.6", "M/s", "3.00x", "≥", "2.5x", "meets"]
    assert lines[3].index("Pykka") == lines[2].index("Erlang")
    assert lines[4].split()[-4:] == ["≤", "650", "B", "meets"]
    assert lines[5].endswith("skipped: needs the plain build")


def test_the_report_shows_facts_parts_and_the_sum_of_its_marks(results: list[RowResult]) -> None:
    text = render({"machine": "a quiet one"}, results)
    assert text.startswith("machine  a quiet one\n")
    assert "P1 ours: seconds to play 0.25" in text
    assert text.endswith("targets: 2 met, 0 missed, 1 open")
    assert closing([]) == "targets: 0 met, 0 missed, 0 open"


def test_the_json_report_holds_every_comparison(results: list[RowResult]) -> None:
    content = json.loads(as_json({"machine": "x"}, results, quick=True))
    assert content["quick"] is True
    first = content["rows"][0]
    assert first["ours"]["samples"] == [4.8e6]
    assert first["comparisons"][0] == {
        "peer": "Erlang",
        "theirs": {"value": 1.6e6, "samples": [], "parts": {}},
        "score": 3.0,
        "target": {"bound": 2.5, "kind": "at least"},
        "mark": "meets",
        "reason": "",
    }


def test_the_plot_is_well_formed_and_has_a_bar_per_measured_target(results: list[RowResult]) -> None:
    root = ET.fromstring(draw({"machine": "a <quiet> & old one"}, results))
    tag = "{http://www.w3.org/2000/svg}"
    drawn = [shape.get("class") for shape in root.iter() if shape.get("class") in ("meets", "misses")]
    assert drawn == ["meets", "meets"]
    texts = [text.text or "" for text in root.iter(f"{tag}text")]
    assert "P8 bytes <idle> & alive" in texts
    assert "skipped" in texts


def test_progress_is_a_line_per_row_when_nobody_watches() -> None:
    stream = io.StringIO()
    run, _ = figures(Greenroom=[1.0] * 3)
    measure_all([row()], COMPILED, Progress(stream), run)
    assert stream.getvalue().startswith("measuring P1: ping-pong\nmeasured in ")


def test_progress_is_a_bar_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    run, _ = figures(Greenroom=[1.0] * 3)
    measure_all([row()], COMPILED, Progress(stream), run)
    assert "[########" in stream.getvalue()
    assert "P1 ping-pong: Greenroom, round 2" in stream.getvalue()


# -- the rows and the command


def test_every_row_has_its_own_id_and_distinct_peers() -> None:
    ids = [entry.id for entry in ROWS]
    assert len(set(ids)) == len(ids)
    for entry in ROWS:
        names = [peer.name for peer in entry.peers]
        assert len(set(names)) == len(names)
        assert entry.comparisons


def test_rows_are_selected_by_id_in_the_order_of_the_table() -> None:
    assert [entry.id for entry in select("p3, P1")] == ["P1", "P3"]
    assert select(None) == list(ROWS)


def test_an_id_without_a_row_of_its_own_names_those_that_add_a_letter() -> None:
    programs = select("P18, P1")
    assert [entry.id for entry in programs[:2]] == ["P1", "P18R"]
    assert len(programs) == 13
    assert [entry.id for entry in select("P16")] == ["P16"]


def test_an_unknown_id_is_refused_with_the_list_of_rows() -> None:
    with pytest.raises(UnknownRow, match="no row P99; the rows are P1, P2"):
        select("P1,P99")


def test_the_command_refuses_an_unknown_id(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "nope"])
    assert ended.value.code == 2
    assert "no row NOPE; the rows are P1," in capsys.readouterr().err


def test_the_command_lists_rows_without_measuring(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list", "--only", "P8"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].split()[-3:] == ["≤", "650", "B"]


def test_every_row_names_programs_that_exist() -> None:
    pure = Setting("python", compiled=False, gil_python="python")
    for entry in ROWS:
        contenders = [
            one for one in (entry.ours, *entry.peers) if one is not None and not one.name.startswith("Erlang")
        ]
        for contender in contenders:
            module = contender.command(pure)[2]
            assert importlib.util.find_spec(module) is not None, f"{entry.id}: {module}"


@pytest.mark.parametrize(("row_id", "event_loop"), [("P6", "uvloop"), ("P6A", "asyncio")])
def test_an_ask_from_outside_is_compared_with_a_hop_on_the_same_event_loop(row_id: str, event_loop: str) -> None:
    [entry] = select(row_id)
    assert entry.ours is not None
    assert event_loop in entry.ours.command(COMPILED)
    [hop] = [line for line in entry.comparisons if line.peer is not None and "hop" in line.peer.name]
    assert hop.peer is not None
    assert hop.peer.name.endswith(event_loop)
    assert hop.target == at_least(0.5)


@pytest.mark.parametrize("row_id", ["P12", "P12A"])
def test_a_row_of_the_plain_build_declines_without_an_interpreter_that_has_it(row_id: str) -> None:
    [entry] = select(row_id)
    assert entry.ours is not None
    with pytest.raises(Unavailable, match="--pure-python"):
        entry.ours.command(COMPILED)
    assert entry.ours.command(Setting("python", compiled=False))[0] == "python"
    assert entry.ours.command(Setting("python", compiled=True, pure_python="plain"))[0] == "plain"
