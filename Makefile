# The two commands to know: `make run` and `make test`.
.PHONY: help run stop test check bench bench-scale build install clean

help:
	@echo "make run      build, start a home, a station and a mount at ./mnt, and say what to try"
	@echo "make stop     end them; nothing is lost"
	@echo "make test     run all tests (scripts/test.sh WORD runs some)"
	@echo "make check    format, lints, floors, a short simulation"
	@echo "make bench    compare a mount with the file system under it"
	@echo "make bench-scale  how the cost of each operation grows with files, unsent records, watches, stations"
	@echo "make install  install the program, manual pages, completions, units to PREFIX (/usr/local)"

run:
	@sh scripts/run.sh

stop:
	@sh scripts/stop.sh

test:
	@sh scripts/needs.sh --for-tests
	@sh scripts/test.sh

check:
	@sh scripts/check.sh

bench:
	@sh scripts/needs.sh
	@sh scripts/bench.sh

bench-scale:
	@sh scripts/bench-scale.sh

build:
	cargo build --release --package wayfs

install: build
	@cargo run --quiet --package xtask -- notices target/notices.txt
	@sh packaging/install.sh

clean:
	cargo clean
