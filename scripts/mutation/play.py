"""Runs tests of the copy: once to see what reaches which mutant, then for every mutant what reaches it, quickest first."""
import concurrent.futures
import json
import mmap
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from . import tree

MEMORY = 4 << 30  # bytes of address space: a changed size must not take the machine
FILE = 1 << 30
LEAST_SECONDS = 2  # of processor time that every test may take
SLOWER = 3  # times of what it took without a change
WALL = 20  # times of the same on the clock, since the machine may be busy; what waits for ever needs no processor


stopping = threading.Event()  # then running tests are ended


class Run:
    """What became of a command: `status` as of a shell, processor seconds, seconds on the clock, what it printed."""

    def __init__(self, command, environment, folder, cpu=600, wall=1200):
        self.late = False
        with tempfile.TemporaryFile() as out:
            begin = time.monotonic()
            limit = lambda: self.limits(cpu)  # noqa: E731
            process = subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True, preexec_fn=limit)
            try:
                status, usage = self.wait(process, begin + wall)
            except BaseException:
                self.end(process)
                raise
            self.clock = time.monotonic() - begin
            self.cpu = usage.ru_utime + usage.ru_stime
            self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            out.seek(0)
            self.output = out.read(1 << 20).decode(errors="replace")
        self.late = self.late or self.status in (-signal.SIGXCPU, 128 + signal.SIGXCPU)

    @staticmethod
    def limits(cpu):
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + 1, int(cpu) + 3))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    @staticmethod
    def end(process):
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, how)
            except ProcessLookupError:
                return
            time.sleep(0.5)

    def wait(self, process, until):
        pause = 0.002
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = status
                self.end_rest(process)
                return status, usage
            if stopping.is_set():
                raise KeyboardInterrupt
            if time.monotonic() > until and not self.late:
                self.late = True
                self.end(process)
            time.sleep(pause)
            pause = min(pause * 1.3, 0.1)

    @staticmethod
    def end_rest(process):
        """What the command started and left running."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Test:
    """A test of ctest: an executable of Catch2, whose cases are run one by one when what they reach is recorded, or something else."""

    def __init__(self, entry):
        self.name, self.command = entry["name"], entry.get("command", [])
        self.program = self.command[:1]  # what stands behind it leaves out slow cases
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        self.folder = properties.get("WORKING_DIRECTORY", tree.BUILD)
        self.environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        self.cases_apart = (self.program and os.path.basename(self.program[0]).startswith("test_")
                            and all(word.startswith("~[") for word in self.command[1:]))

    def run(self, folder, cases=None, mutant=None, reached=None, cpu=600, wall=1200):
        command = list(self.command if cases is None else self.program)
        environment = {**os.environ, **self.environment, "TMPDIR": folder}
        if mutant is not None:
            environment["REHEARSAL_MUTANT"] = str(mutant)
        if reached:
            environment["REHEARSAL_MUTANTS_REACHED"] = reached
        if cases is not None:
            names = os.path.join(folder, "cases")
            with open(names, "w", encoding="utf-8") as f:
                f.writelines(case.replace("\\", "\\\\").replace('"', '\\"').replace(",", "\\,").replace("[", "\\[") + "\n" for case in cases)
            command += ["--abort", "--input-file", names]
        return Run(command, environment, self.folder, cpu, wall)

    def cases(self, folder):
        if not self.cases_apart:
            return [None]
        for how in (["--list-test-names-only"], ["--list-tests", "--verbosity", "quiet"]):
            done = subprocess.run([*self.command, *how], capture_output=True, text=True, cwd=self.folder)
            names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            if names and "Unrecognised" not in done.stdout + done.stderr:
                return names
        return [None]


def fast_tests(names):
    """Tests of `scripts/test --fast` whose names match. Their commands are known once they are built."""
    out = subprocess.run(["ctest", "--test-dir", tree.BUILD, "--show-only=json-v1", "-LE", "^slow$", "-R", names], capture_output=True, text=True,
                         check=True).stdout
    return [Test(t) for t in json.loads(out)["tests"]]


class Recorder:
    """Which cases reach which mutants, and what each takes. Kept in reached.jsonl, so that what has not changed is not run again."""

    def __init__(self, chosen, product, longest, say):
        self.path = os.path.join(tree.WORK, "reached.jsonl")
        self.known = {(r["test"], r["case"], r["of"]): r for r in tree.load_lines(self.path)}
        self.lock = threading.Lock()
        self.chosen, self.product, self.longest, self.say = chosen, product, longest, say

    def signature(self, test):
        files = [w for w in test.command if os.path.isfile(w) and w.startswith(tree.TREE)]
        return self.product + "-" + tree.digest(files)

    def all(self, tests, jobs):
        done = []

        def cases_of(test):
            with tempfile.TemporaryDirectory(dir=tree.WORK) as folder:
                of, names = self.signature(test), test.cases(folder)
                found = [{**self.one(test, case, of, folder), "by": test} for case in names]
            done.append(test.name)
            self.say(f"what reaches which mutant: {len(done)} of {len(tests)} tests, {test.name}, {len(names)} cases")
            return found

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                cases = [c for found in pool.map(cases_of, tests) for c in found]
            except BaseException:
                stopping.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        failing = [c for c in cases if not c["passed"]]
        for c in failing:
            self.say(f"fails without any change, so it cannot tell: {c['test']}: {c['case'] or 'as a whole'}", keep=True)
        long = [c for c in cases if c["passed"] and c["cpu"] > self.longest]
        for c in long:
            self.say(f"takes {c['cpu']:.0f} s, so it is not run for every mutant: {c['test']}: {c['case'] or 'as a whole'}", keep=True)
        return [c for c in cases if c["passed"] and c["cpu"] <= self.longest]

    def one(self, test, case, of, folder):
        found = self.known.get((test.name, case, of))
        if found:
            return found
        reached = os.path.join(folder, "reached")
        with open(reached, "wb") as f:
            f.truncate(1 << 24)  # a byte for every number; only those that are met take space
        run = test.run(folder, None if case is None else [case], reached=reached)
        with open(reached, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as met:
            keys = [m["key"] for m in self.chosen if met[tree.number_of(m)]]
        result = {"test": test.name, "case": case, "of": of, "passed": run.status == 0 and "No test cases matched" not in run.output,
                  "cpu": round(run.cpu, 3), "clock": round(run.clock, 3), "reached": keys}
        self.known[(test.name, case, of)] = result
        with self.lock, open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(result) + "\n")
        return result


def failed_case(output, cases):
    """The name of the case that Catch2 says failed."""
    lines = [line.strip() for line in output.splitlines()]
    named = set(lines)
    return next((c for c in cases if c in named or any(c.startswith(line) and len(line) > 20 for line in named)), None)


def how(run):
    if run.late:
        return "time"
    return "failed" if run.status > 0 else "crashed"


def cost(cases):
    return sum(c["cpu"] for c in cases)


def in_order(m, cases, most):
    """The cases by executable: first those of the mutant's own room, each time the quickest first, for `most` seconds together."""
    by_test = {}
    for c in cases:
        by_test.setdefault(c["test"], []).append(c)
    own = f"/tests/{m['file'].split('/')[0]}/"
    left = most
    for group in sorted(by_test.values(), key=lambda g: (own not in g[0]["by"].command[0], cost(g))):
        group = sorted(group, key=lambda c: c["cpu"])
        while group and cost(group) > left:
            group.pop()
        if group:
            left -= cost(group)
            yield group


def try_mutant(m, cases, most):
    """Runs what reaches a mutant. {"killed": ...} by the first that fails and does not fail without the mutant."""
    spent, unsure = 0, []
    for group in in_order(m, cases, most):
        test, names = group[0]["by"], [c["case"] for c in group]
        names = None if names == [None] else names
        cpu, wall = LEAST_SECONDS + SLOWER * cost(group), 60 + WALL * sum(c["clock"] for c in group)
        folder = tempfile.mkdtemp(dir=tree.WORK)
        try:
            run = test.run(folder, names, tree.number_of(m), None, cpu, wall)
            spent += run.cpu
            if run.status == 0 and not run.late:
                continue
            case = failed_case(run.output, names) if names else None
            again = test.run(folder, [case] if case else names)
            spent += again.cpu
            if again.status != 0:
                unsure.append(f"{test.name}: {case}")
                continue
            return {"killed": how(run), "by": test.name, "case": case, "cpu": round(spent, 2)}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return {"killed": None, "cpu": round(spent, 2), **({"unsure": unsure} if unsure else {})}
