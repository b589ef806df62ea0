# make              the static binary, target/punctual
# make qualify      builds it and qualifies this machine: 60 s, a verdict, a report
# make test         the gate, in twenty minutes; installs what it lacks
# make test-all     everything else, or ARGS=GROUP
# make check        lints and unit tests, for while one works
# make help         all of them

PREFIX  ?= /usr/local
DESTDIR ?=
# Under PREFIX or elsewhere: Debian's is lib/x86_64-linux-gnu, Fedora's lib64.
LIBDIR  ?= $(PREFIX)/lib
ARGS    ?=

RUN     := scripts/cargo
XTASK   := $(RUN) run --quiet --locked --package xtask --

.PHONY: all build release qualify test test-all test-kubernetes check miri emulated bench fuzz report-demo man \
	completions schemas library deb image install uninstall clean help
.DEFAULT_GOAL := all

all: build

build:
	@scripts/build

# The published file: optimised as a whole, in twice the time.
release:
	@scripts/build release

qualify: build
	@scripts/qualify $(ARGS)

test:
	@scripts/need test
	@scripts/test test

test-all:
	@scripts/need test-all
	@scripts/test test-all $(ARGS)

# It builds Kubernetes the first time: twelve minutes of CPU time.
test-kubernetes: build
	@scripts/kubernetes/build
	@scripts/kubernetes/test

check:
	@scripts/need build
	@$(XTASK) check

miri:
	@scripts/need build
	@$(XTASK) miri

emulated:
	@scripts/emulated

bench: release
	@scripts/need bench
	@$(XTASK) bench $(ARGS)

fuzz:
	@scripts/need fuzz
	@scripts/fuzz $(ARGS)

report-demo: release
	@scripts/report-demo $(ARGS)

# Both come out of the binary's flags.
man completions: build
	@scripts/generate

# Out of the program's types.
schemas:
	@scripts/schemas

library:
	@scripts/library

# Of Debian's, for ARCH or this machine.
deb: release schemas library
	@scripts/generate
	@scripts/deb

image: release
	@scripts/image

install: release schemas library
	@scripts/generate
	@scripts/install install "$(DESTDIR)" "$(PREFIX)" "$(LIBDIR)"

uninstall:
	@scripts/install uninstall "$(DESTDIR)" "$(PREFIX)" "$(LIBDIR)"

clean:
	rm -rf target fuzz/target fuzz/corpus fuzz/artifacts
	@test ! -n "$(CARGO_TARGET_DIR)" || $(RUN) clean

help:
	@scripts/help
