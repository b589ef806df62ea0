# make              the static binary, target/punctual
# make qualify      builds it and qualifies this machine: 60 s, a verdict, a report
# make test         every test there is; installs what they lack
# make check        the fast ones, for while one works
# make help         all of them

PREFIX  ?= /usr/local
DESTDIR ?=
ARGS    ?=

# Where cargo puts things; the scripts know the variable too.
TARGET  := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
RUN     := scripts/cargo
XTASK   := $(RUN) run --quiet --locked --package xtask --
BINARY  := $(TARGET)/punctual

.PHONY: all build qualify test check bench fuzz report-demo man completions library install \
	uninstall clean help FORCE
.DEFAULT_GOAL := all

all: build

build:
	@scripts/build

qualify: build
	@scripts/qualify $(ARGS)

test:
	@scripts/need test
	@scripts/test $(ARGS)

check:
	@scripts/need build
	@$(XTASK) check $(ARGS)

bench: build
	@$(XTASK) bench $(ARGS)

# For SECONDS on each kind of input; with plain stable Rust.
fuzz:
	@scripts/need build
	@scripts/fuzz $(ARGS)

report-demo: build
	@scripts/report-demo $(ARGS)

man: $(TARGET)/man/punctual.1
completions: $(TARGET)/completions/punctual

$(TARGET)/man/punctual.1: $(BINARY)
	@mkdir -p $(@D)
	$(BINARY) man > $@

# zsh and fish find theirs by other names.
$(TARGET)/completions/punctual: $(BINARY)
	@mkdir -p $(@D)
	$(BINARY) completions bash > $@
	$(BINARY) completions zsh > $(@D)/_punctual
	$(BINARY) completions fish > $(@D)/punctual.fish

$(BINARY):
	@scripts/build

library:
	@scripts/need build
	@scripts/library

# Installs what was built, and builds nothing: `sudo make install` after `make`.
install:
	@scripts/install install "$(DESTDIR)" "$(PREFIX)"

uninstall:
	@scripts/install uninstall "$(DESTDIR)" "$(PREFIX)"

clean:
	rm -rf $(TARGET) fuzz/target fuzz/corpus fuzz/artifacts

help:
	@scripts/help
