# make demo   the whole chain on videos it renders itself, ending in printed tables (set-up included)
# make test   style, types, lint and every test that needs neither containers nor a cluster (set-up included)
# make estimate TARGET=demo   what a target would cost: jobs, GPU hours, dollars, disk
# make spent  what was spent on APIs so far, by model and by table
# make test-cluster   images are built, a one-node Slurm is started, and the workflow runs through both
.DELETE_ON_ERROR:
.PHONY: demo test test-cluster estimate spent images lint unit setup lock image-locks dag help

PYTHON ?= python3
# On Linux without a GPU, PIP_INDEX_URL can point to a place with CPU-only wheels: it saves about 3 GB.
TORCH ?= torch==2.13.0
CORES ?= all

UV_VERSION := $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' envs/launcher.in)
LAUNCHER := .venv/launcher
STAGES := .venv/laptop
SNAKEMAKE := $(LAUNCHER)/bin/snakemake
# Rules call `python`: on a laptop that is the stages' environment, on a cluster the one in the rule's container.
export PATH := $(CURDIR)/$(STAGES)/bin:$(PATH)
# One thread per process: the workflow runs a process per core.
export OMP_NUM_THREADS := 1
export PYTHONUTF8 := 1
# Root inside a container lacks capabilities that Apptainer would ask for; without asking, it runs as it does for anyone.
ifeq ($(shell id -u),0)
export APPTAINER_NO_PRIVS := 1
endif

help:
	@sed -n '1,5s/^# //p' Makefile

setup: $(LAUNCHER)/done $(STAGES)/done

$(LAUNCHER)/done: envs/launcher.lock
	@echo "setup 1/2: Snakemake, in $(LAUNCHER)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed; call make PYTHON=python3.11")'
	@$(PYTHON) -m venv --clear $(LAUNCHER)
	@$(LAUNCHER)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(LAUNCHER)/bin/uv pip sync --quiet --python $(LAUNCHER)/bin/python --compile-bytecode --require-hashes envs/launcher.lock
	@touch $@

$(STAGES)/done: envs/laptop.lock $(LAUNCHER)/done
	@echo "setup 2/2: the stages, in $(STAGES) (about 2 GB; torch first)"
	@$(PYTHON) -m venv --clear $(STAGES)
	@$(STAGES)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(LAUNCHER)/bin/uv pip install --quiet --python $(STAGES)/bin/python --no-deps --compile-bytecode --require-hashes -r envs/laptop.lock
	@touch $@

demo: setup
	@echo "demo: about 8 minutes on 2 cores; every stage prints its own progress, a second run does nothing"
	@python -m scripts.unlock
	$(SNAKEMAKE) --profile laptop --cores $(CORES) demo
	@python -m scripts.tables.show_tables --tables demo/rolling demo/signs --table-dir results/tables --report results/reports/demo.html

# Needs Snakemake's environment only. OPTIONS as for snakemake: --profile slurm, --configfile FILE.
estimate: $(LAUNCHER)/done
	@$(LAUNCHER)/bin/python -m scripts.estimate $(TARGET) $(OPTIONS)

spent: $(LAUNCHER)/done
	@$(LAUNCHER)/bin/python -m scripts.estimate.spent $(OPTIONS)

test: setup lint unit

lint: setup
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile rules
	$(SNAKEMAKE) --lint

unit: setup
	pytest -n 2 --dist loadfile

# The images that work without a GPU. What comes out with other bytes than containers/images.yaml has is refused, unless
# BUILD=--record says to write them down.
IMAGES := base media ocr infer_cpu remote tables
images: setup
	containers/build.sh --missing $(BUILD) $(IMAGES)
	$(LAUNCHER)/bin/python -m containers.verify $(IMAGES)

# Debian's mirror drops old versions: then today's are taken, and said so.
test-cluster: setup
	@missing=$$(tests/cluster/missing.sh); if [ -n "$$missing" ]; then echo "test-cluster: SKIPPED: $$missing"; else \
	  ($(MAKE) --no-print-directory images BUILD=--record || $(MAKE) --no-print-directory images BUILD=--newest-debs) && \
	  pytest -n 3 -m cluster -rs; fi

# After a change of envs/*.in.
lock: $(LAUNCHER)/done
	$(LAUNCHER)/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header --no-annotate envs/launcher.in -o envs/launcher.lock
	$(LAUNCHER)/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header --no-annotate --override envs/overrides.txt --override envs/one_opencv.txt envs/laptop.in -o envs/laptop.lock

# Locks of the images: for one system, without conditions. What an image shares with the laptop has the laptop's version.
LOCK := $(LAUNCHER)/bin/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
  --generate-hashes --no-emit-index-url --no-header --no-annotate --override envs/one_opencv.txt
image-locks: $(LAUNCHER)/done
	$(LOCK) envs/build.in -o envs/build.lock
	for name in base media ocr infer_cpu remote; do \
	  $(LOCK) --override envs/overrides.txt --constraints envs/laptop.lock envs/$$name.in -o envs/$$name.lock || exit; done
	for name in ocr_gpu infer train; do $(LOCK) --constraints envs/laptop.lock envs/$$name.in -o envs/$$name.lock || exit; done
	$(LOCK) --no-deps envs/train_source.in -o envs/train_source.lock
	for name in llava vila cogvlm2 sharegpt4video longvu internvl2 minicpm minicpm4_5 videollama3 difftsr; do \
	  $(LOCK) envs/$$name.in -o envs/$$name.lock || exit; done

# The picture in the README; needs Graphviz.
dag: setup
	$(SNAKEMAKE) --rulegraph dot demo | dot -Tsvg -Grankdir=LR > docs/rules.svg
