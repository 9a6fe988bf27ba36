# The two commands that matter: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRESET ?= fast
SAMPLE_OUT := build/demo

.PHONY: setup demo test test-slow rlinf check format bench bench-remote bench-scenes bench-worlds clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[sim,service,remote,lerobot,bench,dev]"
	@echo "compiling the CPU kernels, once: about a minute"
	rm -rf build/compile
	$(BIN)/recon4d reconstruct samples/bench --out build/compile --preset fast --quiet \
	  --set fit.static.steps=100 fit.joint.steps=200 videos=false > /dev/null
	touch $@

demo: setup ## Reconstruct the capture that ships, and name the report to open.
	$(BIN)/recon4d reconstruct samples/bench --out $(SAMPLE_OUT) --preset $(PRESET)
	@echo "open $(SAMPLE_OUT)/report.html in a browser"

test: setup ## Everything that runs in minutes; two files at a time.
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile

test-slow: setup ## Whole reconstructions, against the figures that they must reach.
	$(BIN)/python -m pytest -m slow

rlinf: setup ## RLinf, and what its workers need on a machine without an accelerator, for the test that runs them.
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[rlinf]"
	$(BIN)/pip install --quiet --no-deps rlinf==0.3.0

check: setup ## Lint, formatting, types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Kernels against public peers, in the same run; writes build/bench.json.
	$(BIN)/python -m tests.benchmarks.kernels

bench-scenes: setup ## Whole captures: scores, seconds, memory; writes build/scenes.json.
	$(BIN)/python -m tests.benchmarks.scenes

bench-worlds: setup ## Many worlds, beside MuJoCo's own renderer; writes build/worlds.json. Needs an OpenGL that draws off screen.
	$(BIN)/python -m tests.benchmarks.worlds

bench-remote: setup ## Worlds of a service over loopback, beside the same in this process; writes build/remote.json.
	$(BIN)/python -m tests.benchmarks.remote

clean:
	rm -rf build .pytest_cache .ruff_cache
