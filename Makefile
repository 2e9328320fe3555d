# The commands of this project. Each is a script, so that it can be read and run alone.

.PHONY: demo test book dist fuzz score matrix arm64 bench bpf prove undo replay

demo:  ## a real MySQL in a CPU quota, under load, diagnosed
	@script/demo

test:  ## fmt, clippy, unit and integration tests against real servers, docs
	@script/test

book:  ## the documentation as pages, in target/book
	@script/book

dist:  ## packages for this machine, with their sums and a list of what is in them, in target/dist
	@script/dist

fuzz:  ## each fuzz target for a short while
	@script/fuzz

score:  ## every lab scenario, drawn, round after round; goes on where it stopped; writes ACCURACY.md
	@script/score

matrix:  ## every command on every server, against known troubles; writes SUPPORT.md
	@script/matrix

arm64:  ## the program's own tests as an aarch64 machine runs them, under qemu; takes a build of everything
	@script/arm64-tests

bench:  ## speed and cost beside gdb, eu-stack and perf; writes BENCHMARKS.md
	@script/bench

bpf:  ## the BPF objects that are checked in, from their sources; needs clang
	@script/bpf

prove:  ## the model of the giving back, deeper than test looks; writes crates/giving-back/CHECKED.md
	@script/giving-back

undo:  ## tuners that make undo tablespaces, killed and cut off at every step on MySQL 9.7 and 8.0.33
	@script/undo-tablespaces

replay:  ## more than 200 ways of that model on real servers of both flavours
	@SPINDOCTOR_WAYS=75 cargo test --locked -p spindoctor-tune --test replay -- --nocapture
