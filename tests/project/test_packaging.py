"""What is published: the build's content, the recipe and the workflow agree with pyproject.toml."""

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from places import ROOT

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOWEST = {re.split(r"[><=]", line)[0]: re.search(r">=([\d.]+)", line)[1] for line in PROJECT["dependencies"]}


def test_wheel_and_sdist_hold_what_they_must():
    if importlib.util.find_spec("build") is None or importlib.util.find_spec("hatchling") is None:
        pytest.skip("needs build and hatchling; `make package` runs it")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "smoke.py"), "--build-only", "--no-isolation"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_oldest_versions_are_those_that_are_promised():
    oldest = dict(line.split("==") for line in (ROOT / "scripts" / "oldest.txt").read_text().split())
    assert set(oldest) == set(LOWEST)
    for name, version in LOWEST.items():
        assert (oldest[name] + ".0").startswith(version), name


def test_the_recipe_asks_for_the_same():
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    for name, version in LOWEST.items():
        called = {"torch": "pytorch", "matplotlib": "matplotlib-base"}.get(name, name)
        assert f"- {called} >={version}" in text, name


def test_the_workflow_calls_targets_that_exist():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    called = {step.split()[1] for step in steps if step.startswith("make ")}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert called == {"audit", "check", "docs", "package"}
    assert called <= targets
    versions = workflow["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert [f"Programming Language :: Python :: {version}" in PROJECT["classifiers"] for version in versions] == [
        True
    ] * 3
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8"))
