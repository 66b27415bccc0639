"""A part of the campaign with a fixed seed, and proof that the campaign notices what it looks for."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def run_python(*arguments):
    """Run Python in a new process: victims must be forked from a process without threads."""
    program = [sys.executable, *arguments]
    environment = {"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    return subprocess.run(program, capture_output=True, text=True, env=environment, check=False, timeout=900)


def test_nothing_breaks_in_a_minute_of_attacks():
    done = run_python("-m", "torture", "--quick")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


FRAME = """
    import os, sys, tempfile, time
    from pathlib import Path
    from errata.errors import InputError
    from torture.cases import Case, case_attacks
    from torture.kills import every_operation
    from torture.races import race_attacks
    from torture.scenarios import Scenario, reference
    from torture.tally import Tally, run_attacks

    def judged(attacks):
        tally = Tally()
        run_attacks(attacks, tally, workers=1, progress=False)
        return sorted(verdict.kind for _, verdict in tally.failures)

    def attacked(work, attacks, rival=None):
        scenario = Scenario("example", lambda folder: None, work, ("file",), rival=rival)
        with tempfile.TemporaryDirectory() as root:
            return judged(attacks({"example": (scenario, reference(scenario, Path(root, "place")))}))
"""

CASES = {
    "a result that a kill spoils": (
        """
        def work():
            new = not os.path.exists("file")
            Path("file").write_text("half")
            if new:
                os.fsync(os.open("file", os.O_RDONLY))
                Path("file").write_text("whole")
        print(attacked(work, every_operation))
        """,
        "['difference']",
    ),
    "a run that cannot be repeated": (
        """
        def work():
            if Path("file").exists():
                raise InputError("the file is there")
            Path("file").write_text("whole")
            os.fsync(os.open("file", os.O_RDONLY))
        print(attacked(work, every_operation))
        """,
        "['stuck']",
    ),
    "a run that can be repeated": (
        """
        def work():
            Path("file").write_text("whole")
            os.fsync(os.open("file", os.O_RDONLY))
        print(attacked(work, every_operation))
        """,
        "[]",
    ),
    "a rival that replaces the result": (
        """
        def work(text="one"):
            Path("file").write_text(text)
        print(attacked(work, lambda expected: race_attacks(expected, 1, 0), rival=lambda: work("two")))
        """,
        "['silent']",
    ),
    "a traceback, an acceptance, a hang and two good cases": (
        """
        def refuse():
            raise InputError("no")
        cases = [
            Case("traceback", lambda folder: None, lambda: 1 / 0),
            Case("silent", lambda folder: None, lambda: None),
            Case("stuck", lambda folder: None, lambda: time.sleep(60), time_limit=1),
            Case("refused", lambda folder: None, refuse),
            Case("read", lambda folder: None, lambda: None, "read"),
        ]
        print(judged(case_attacks("example", cases)))
        """,
        "['silent', 'stuck', 'traceback']",
    ),
}


@pytest.fixture(scope="module")
def printed():
    """The output of each script by name. All run in one process, because importing everything takes seconds."""
    scripts = {name: textwrap.dedent(FRAME) + textwrap.dedent(script) for name, (script, _) in CASES.items()}
    program = f"""
        for name, script in {scripts!r}.items():
            print(name, end=": ")
            exec(script, {{}})
    """
    done = run_python("-c", textwrap.dedent(program))
    assert done.stderr == ""
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_the_campaign_notices(printed, name):
    assert printed[name] == CASES[name][1]
