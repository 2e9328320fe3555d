//! What sets the limit where a goal is not reached, by benchmark and row. Numbers stand in the sections alone.

use std::fmt::Write as _;

/// Why a goal is not reached.
pub(crate) struct Limit {
    /// Of which benchmark.
    benchmark: &'static str,
    /// Words of its rows; all of its rows where it is empty.
    what: &'static str,
    /// What the limit is, and why.
    because: &'static str,
}

/// One for each kind of row; the first that fits counts.
const LIMITS: &[Limit] = &[
    Limit {
        benchmark: "start",
        what: "the program without symbols",
        because: "Everything is in one file: SQLite, zstd, TLS, Parquet, a terminal, the lab, and the rules with their texts. No one of them is \
                  so large that the goal would be reached without it; what runs rarely is built for size (`Cargo.toml`).",
    },
    Limit {
        benchmark: "snapshot",
        what: "50 of 1,000 connections move",
        because: "The kernel's iterator visits each of the server's tasks, those that have not moved too, and that takes most of the time (the \
                  row *until threads are read*). To visit only those that ran, a probe at each switch of the scheduler would be needed, which \
                  the server would pay for.",
    },
    Limit {
        benchmark: "throughput",
        what: "snapshots a second",
        because: "The bound on the profiler's CPU time (`--max-cpu`) halts it: here nearly every thread has moved in each snapshot and is walked \
                  again. With a higher bound there are more snapshots, and more throughput is lost than its goal allows.",
    },
    Limit {
        benchmark: "throughput",
        what: "throughput lost to",
        because: "The middle is near the goal, and the interval of this many quads on a shared machine is as wide as the goal itself.",
    },
    Limit {
        benchmark: "whole-runs",
        what: "throughput lost to",
        because: "A run's own CPU time and that of its statements (the rows below) are more than the goal of the two CPUs' time already: start, \
                  snapshots, CPU samples, and lists ten times a second. Of the loss beyond that the few pairs of whole runs do not say how \
                  much is noise.",
    },
    Limit {
        benchmark: "workload",
        what: "throughput lost to",
        because: "The middle is near the goal, and the interval of this many quads on a shared machine is wider than the goal.",
    },
    Limit {
        benchmark: "recorder",
        what: "CPU together",
        because: "Half of it is the recorder's own: threads, counters and stacks that are read, compressed and written. The other half is the \
                  server's, by statement under recorder-connections: the status once a second, a probe ten times a second, the two lists of \
                  threads. Less would be a slower probe or fewer lists.",
    },
    Limit {
        benchmark: "recorder-connections",
        what: "MySQL",
        because: "The server adds up what each connection did for the status, the accounts and the errors, and lists each of them: the statements \
                  of half a minute in the table grow with the connections. They are asked less often beyond 1,500 sessions; still less often \
                  and causes would be found too late.",
    },
    Limit {
        benchmark: "recorder-connections",
        what: "MariaDB",
        because: "MariaDB has no count of the threads at work that can be read from outside of it: the probe asks for the status ten times a \
                  second, for which the server adds up the counters of all connections.",
    },
    Limit {
        benchmark: "recorder-throughput",
        what: "",
        because: "The interval of this many quads on a shared machine is wider than the goal; what the recorder takes of the CPUs in a minute \
                  without a halt stands beside it.",
    },
    Limit {
        benchmark: "fleet-query",
        what: "10,000 servers",
        because: "The stub servers run on the same two CPUs and take their part of the time.",
    },
    Limit {
        benchmark: "fleet-query",
        what: "printed / reading",
        because: "The peer only reads bytes. Each answer is checked and taken apart as the protocol says, put in order by server, and formatted.",
    },
    Limit {
        benchmark: "mis-set-spin",
        what: "the grid, time",
        because: "`tune` measures each step until its interval excludes no effect, and then the whole beside the old setting; the grid takes each \
                  point once and proves nothing.",
    },
    Limit {
        benchmark: "mis-set-spin",
        what: "best of the grid",
        because: "The best point of a grid is the best of many noisy ones, and so by chance better than the same setting measured again.",
    },
    Limit {
        benchmark: "by-waits",
        what: "best of the grid",
        because: "The best point of a grid is the best of many noisy ones, and so by chance better than the same setting measured again.",
    },
    Limit {
        benchmark: "by-waits",
        what: "probes",
        because: "A probe is a trap into the kernel at the begin and at each return of a wait, and where its thread sleeps; and each wake-up of the \
                  machine passes the tracepoint. They stand for parts of the time only.",
    },
    Limit {
        benchmark: "truth-table",
        what: "",
        because: "An effect that drifts within a run, or noise with a memory longer than the bootstrap's blocks, breaks what the interval takes \
                  for granted: quads that are alike. It is then a little too narrow.",
    },
    Limit {
        benchmark: "predicted",
        what: "",
        because: "The model has one class of statements and no cost of the load's own threads, which run on the same CPUs.",
    },
];

/// A row that is not reached: of which benchmark, what, the number, the goal.
pub(crate) type Missed<'a> = [&'a str; 4];

/// What of these is the limit, a line for each reason, and for each row of which no reason is declared.
pub(crate) fn markdown(missed: &[Missed<'_>]) -> String {
    let mut reasons: Vec<(&str, Option<&str>, Vec<String>)> = Vec::new();
    for row in missed {
        let [name, what, measured, goal] = *row;
        let because = because(name, what);
        let text = format!("{what}: {measured} ({goal})");
        match reasons.iter_mut().find(|(of, why, _)| *of == name && *why == because) {
            Some((_, _, rows)) => rows.push(text),
            None => reasons.push((name, because, vec![text])),
        }
    }
    let mut text = String::new();
    for (name, because, rows) in reasons {
        let because = because.unwrap_or("Why is not known.");
        let _ = writeln!(text, "- [{name}](#{name}). {}. {because}", rows.join("; "));
    }
    text
}

fn because(benchmark: &str, what: &str) -> Option<&'static str> {
    let fits = |limit: &&Limit| limit.benchmark == benchmark && what.contains(limit.what);
    LIMITS.iter().find(fits).map(|limit| limit.because)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BENCHMARKS, page};

    #[test]
    fn rows_of_one_reason_stand_in_one_line() {
        let text = markdown(&[
            ["throughput", "snapshots a second of `a`", "2.3", ">= 9"],
            ["throughput", "snapshots a second of `b`", "33", ">= 80"],
            ["killed", "old values back", "19", "20"],
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].contains("`a`: 2.3 (>= 9); snapshots a second of `b`: 33 (>= 80). The bound on"),
            "{text}"
        );
        assert_eq!(lines[1], "- [killed](#killed). old values back: 19 (20). Why is not known.");
    }

    #[test]
    fn each_row_of_the_page_that_is_not_reached_has_a_reason_and_each_reason_a_benchmark() {
        for limit in LIMITS {
            assert!(
                BENCHMARKS.iter().any(|benchmark| benchmark.name == limit.benchmark),
                "{}",
                limit.benchmark
            );
        }
        let page = include_str!("../../BENCHMARKS.md");
        for benchmark in BENCHMARKS {
            let section = page::text_under(page, benchmark.name).unwrap_or_default();
            for [what, ..] in page::not_reached(section) {
                assert!(because(benchmark.name, what).is_some(), "{}: {what}", benchmark.name);
            }
        }
    }
}
