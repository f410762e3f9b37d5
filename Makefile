# The entrances. Each target sets up what it needs; `cargo xtask --help` lists the single chores.
# Needs git, make, a C compiler and cargo.

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
SOAK ?= 1TiB
SWARM ?= 10000
SOAK_TIME ?= 3600s
TORTURE_TIME ?= 3600s
TORTURE_PATIENCE ?= 10s
STATIC ?= 1000
CARGO ?= cargo
# The chores, built with the features that the workspace gives their dependencies, so that these are
# built once. (`cargo xtask` works in any directory, and builds them for itself.)
XTASK = $(CARGO) run --quiet --bin xtask --
TARGET_DIR = $${CARGO_TARGET_DIR:-target}
# Where command and library were built; tests and packages name another place.
BUILT ?= $(TARGET_DIR)/release
# As in crates/capi/build.rs.
SONAME = libnodeward.so.0

.DEFAULT_GOAL := help
.PHONY: help bpf demo shell test test-long lab bench spec reproduce soak install install-library install-migratepages install-numad wheel deb image release setup

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## Show the main job on a machine with two memory nodes
	$(XTASK) demo

shell: setup ## Try nodeward by hand, in a shell on an emulated machine with two memory nodes
	$(XTASK) lab shell

test: setup ## Run all checks, on one of each kind of thing
	$(XTASK) ci

test-long: setup ## The same on all of each kind: every kernel, every promise, every simulated table
	NODEWARD_TESTS=long $(XTASK) ci

lab: setup ## Run the tests that boot real kernels, on every kernel
	NODEWARD_LAB_KERNELS=all $(XTASK) ci lab

bench: setup ## Measure, as ratios within one run
	$(XTASK) bench

spec: setup ## Measure every promise of SPEC.md
	$(XTASK) spec

reproduce: setup ## Simulate what the five documents measured, and what nodeward adds
	$(CARGO) run --release --package nodeward-cli -- reproduce

soak: setup ## Check 10000 simulated machines (SWARM=N), balance 1000 (STATIC=N), balance for an hour (SOAK_TIME=TIME), use memory by every means while it moves for another (TORTURE_TIME=TIME), move 1 TiB (SOAK=SIZE)
	$(CARGO) run --release --package nodeward-cli -- sim swarm --seeds $(SWARM)
	$(CARGO) run --release --package nodeward-cli -- sim compare --figure static --seeds $(STATIC)
	SOAK_TIME=$(SOAK_TIME) $(XTASK) lab soak
	TORTURE_TIME=$(TORTURE_TIME) TORTURE_PATIENCE=$(TORTURE_PATIENCE) $(XTASK) lab torture
	$(CARGO) run --release --package nodeward-cli -- bench pager --soak $(SOAK)

install: install-library ## Install command, service, manual, completions and library below PREFIX (/usr/local)
	$(CARGO) build --release --package nodeward-cli
	install -D -m 755 "$(BUILT)/nodeward" "$(DESTDIR)$(PREFIX)/bin/nodeward"
	"$(BUILT)/nodeward" man "$(DESTDIR)$(PREFIX)/share/man/man1"
	mkdir -p "$(DESTDIR)$(PREFIX)/lib/systemd/system"
	for unit in nodeward-balance nodeward-export; do \
	    sed -e 's|/usr/local/bin|$(PREFIX)/bin|' packaging/$$unit.service \
	        >"$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service" || exit 1; \
	done
	install -m 644 packaging/nodeward-balance.socket "$(DESTDIR)$(PREFIX)/lib/systemd/system"
	for to in bash:bash-completion/completions/nodeward zsh:zsh/site-functions/_nodeward \
	    fish:fish/vendor_completions.d/nodeward.fish; do \
	    file="$(DESTDIR)$(PREFIX)/share/$${to#*:}" && mkdir -p "$${file%/*}" && \
	    "$(BUILT)/nodeward" completions "$${to%%:*}" >"$$file" || exit 1; \
	done

install-library: ## Install only libnodeward, shared and static, its header and pkg-config file
	$(CARGO) build --release --package nodeward-capi
	install -D -m 644 include/nodeward.h "$(DESTDIR)$(INCLUDEDIR)/nodeward.h"
	install -D -m 644 include/nodeward_numa.h "$(DESTDIR)$(INCLUDEDIR)/nodeward_numa.h"
	install -D -m 644 "$(BUILT)/libnodeward.a" "$(DESTDIR)$(LIBDIR)/libnodeward.a"
	install -D -m 755 "$(BUILT)/libnodeward.so" "$(DESTDIR)$(LIBDIR)/$(SONAME)"
	ln -sfn $(SONAME) "$(DESTDIR)$(LIBDIR)/libnodeward.so"
	mkdir -p "$(DESTDIR)$(LIBDIR)/pkgconfig"
	version=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml) && \
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e "s|@VERSION@|$$version|" \
	    -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' packaging/nodeward.pc.in \
	    >"$(DESTDIR)$(LIBDIR)/pkgconfig/nodeward.pc"

install-migratepages: install ## Also answer to the name migratepages, beside numactl's program
install-numad: install ## Also answer to the name numad: its question for nodes, as libvirt asks it
install-migratepages install-numad:
	@at="$(DESTDIR)$(PREFIX)/bin/$(@:install-%=%)"; \
	if { [ -e "$$at" ] || [ -L "$$at" ]; } && [ "$$(readlink "$$at")" != nodeward ]; then \
	    echo "$$at is somebody else's; choose another PREFIX" >&2; exit 1; \
	fi; \
	ln -sfn nodeward "$$at" && echo "$$at is nodeward"

bpf: ## Compile the programs that run inside the kernel, after a change of them (needs clang-19, llvm-19)
	$(XTASK) bpf

wheel: ## Build the package for Python, for x86-64 and Arm (target/wheels)
	$(XTASK) wheel

deb: ## Build the Debian package
	$(XTASK) deb

image: ## Build the container image, an OCI image layout
	$(XTASK) image

release: ## Build sources, programs, Debian package, image and wheels of the last commit, with checksums and SBOM
	$(XTASK) release

setup: ## Install the programs that the checks start, where that is allowed
	@$(XTASK) setup
