//! How long a server's calls on files take, by what traces them: bcc and its kin, a line a call; pt-ioprofile, a line a file; and
//! `strace -c`, a line a system call.
//!
//! ```text
//! COMM             PID     LATms   FD RVAL FILE
//! mysqld           4813    28.69 3035 0x0 ***the fd has closed
//!
//! TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME
//! 06:35:01 mysqld         4813   S 0       0          12.30 ib_logfile0
//!
//!      total      pread       open filename
//!   0.006348   0.006348   0.000000 /data/shop/stock.ibd
//!
//! % time     seconds  usecs/call     calls    errors syscall
//!  47.15    7.405344        9120       812           fsync
//! ```

use std::collections::BTreeMap;

use spindoctor_model::number as shown;

use crate::amounts::amount;
use crate::stacks::is_server_thread;
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText, number, tables};

/// The columns in which a call's time stands, and the seconds of their units.
const TIMES: [(&str, f64); 4] = [("LATms", 1e-3), ("LAT(ms)", 1e-3), ("LATus", 1e-6), ("LAT(us)", 1e-6)];
/// System calls on files. `read` and `write` are of sockets, too, and a thread that waits for another is in `futex` or `poll`.
const ON_FILES: [&str; 14] = [
    "fsync",
    "fdatasync",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "open",
    "openat",
    "unlink",
    "unlinkat",
    "rename",
    "ftruncate",
    "fallocate",
    "io_submit",
];
/// Calls that take so long are named, microseconds (strace's unit). By judgement: what the page cache answers takes less than a tenth.
const SLOW_US: f64 = 1_000.0;
/// Kinds of calls that are named.
const MOST: usize = 3;

/// True for the names of the columns of any of them.
pub(crate) fn is_head(line: &str) -> bool {
    let is_likely = ["COMM ", "filename", "usecs/call"].iter().any(|name| line.contains(name));
    if !is_likely {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
    let is_of_strace = || words.contains(&"usecs/call") && words.last() == Some(&"syscall");
    is_of_calls(&words) || is_of_files(&words) || is_of_strace()
}

fn is_of_calls(words: &[&str]) -> bool {
    words.contains(&"COMM") && TIMES.iter().any(|(name, _)| words.contains(name))
}

fn is_of_files(words: &[&str]) -> bool {
    words.len() > 2 && words.first() == Some(&"total") && words.last() == Some(&"filename")
}

/// Says what they found.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    of_calls(text, found);
    of_files(text, found);
    of_strace(text, found);
}

fn of_calls(text: &str, found: &mut SystemText) {
    let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in tables(text, is_of_calls).iter().flatten() {
        let seconds = TIMES.iter().find_map(|(name, unit_s)| Some(number(row, name)? * unit_s));
        let is_of_server = row.get("COMM").is_some_and(|name| is_server_thread(name));
        if let Some(seconds) = seconds.filter(|_| is_of_server) {
            kinds.entry(kind(row)).or_default().push(seconds);
        }
    }
    for (kind, all_s) in kinds.into_iter().take(MOST) {
        let slowest_s = all_s.iter().copied().fold(0.0, f64::max);
        let sentence = match all_s[..] {
            [only_s] => format!("Of the server's {kind} one was traced: it took {}", shown::duration(only_s)),
            _ => format!(
                "Of the server's {kind} {} were traced: they took {} on average, the slowest {}",
                all_s.len(),
                shown::duration(all_s.iter().sum::<f64>() / all_s.len() as f64),
                shown::duration(slowest_s)
            ),
        };
        found.add("bcc", None, sentence);
    }
}

/// What the call of a row does, in words.
fn kind(row: &BTreeMap<&str, &str>) -> &'static str {
    match row.get("T").or_else(|| row.get("D")).copied() {
        Some("S") => "syncs of files",
        Some("R") => "reads",
        Some("W") => "writes",
        Some("O") => "opens of files",
        // fsyncsnoop
        None if row.contains_key("RVAL") => "syncs of files",
        _ => "calls",
    }
}

fn of_files(text: &str, found: &mut SystemText) {
    let Some(rows) = tables(text, is_of_files).pop() else { return };
    let rows: Vec<_> = rows.into_iter().filter(|row| row.get("filename") != Some(&"TOTAL")).collect();
    let total = |row: &BTreeMap<&str, &str>| number(row, "total").unwrap_or(0.0);
    let all: f64 = rows.iter().map(total).sum();
    let mut calls: BTreeMap<&str, f64> = BTreeMap::new();
    for row in &rows {
        for name in row.keys().copied().filter(|name| !["total", "filename"].contains(name)) {
            *calls.entry(name).or_default() += number(row, name).unwrap_or(0.0);
        }
    }
    let call = calls.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let file = rows.iter().max_by(|one, other| total(one).total_cmp(&total(other)));
    if let (Some((call, of_call)), Some(file)) = (call.filter(|_| all > 0.0), file) {
        let sentence = format!(
            "Of what pt-ioprofile counted {call} has {}, and of the files {} has most: {}",
            shown::percent((of_call / all).min(1.0)),
            file.get("filename").copied().unwrap_or_default(),
            shown::percent(total(file) / all)
        );
        found.add("pt-ioprofile", None, sentence);
    }
}

fn of_strace(text: &str, found: &mut SystemText) {
    let rows = text.lines().skip_while(|line| !line.contains("usecs/call")).take(MOST_ROWS);
    let mut slow: Vec<(f64, String)> = Vec::new();
    for line in rows {
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        let [_, seconds, each_us, calls, .., name] = words[..] else { continue };
        let (Some(seconds), Some(each_us), Some(calls)) = (amount(seconds), amount(each_us), amount(calls))
        else {
            continue;
        };
        if ON_FILES.contains(&name) && each_us >= SLOW_US {
            let each = shown::duration(each_us * 1e-6);
            slow.push((
                seconds,
                format!("{name} {each} ({})", shown::counted(calls as u64, "call", "calls")),
            ));
        }
    }
    slow.sort_by(|one, other| other.0.total_cmp(&one.0));
    let named: Vec<String> = slow.into_iter().take(MOST).map(|(_, words)| words).collect();
    if !named.is_empty() {
        found.add("strace", None, format!("By strace calls on files take long: {}", named.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use crate::part::Kind;
    use crate::recognise;

    fn says(text: &str) -> Vec<String> {
        let parts = recognise("x", text);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::System], "{text}");
        parts.into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn of_traced_calls_those_of_the_server_are_said_with_their_times() {
        let snoop = "Tracing fsync()s. Ctrl-C to end.\nCOMM             PID     LATms   FD RVAL FILE\n\
                     logger           4371    62.01    6 0x0 /var/log/current\nmysqld           4813     1.30 2479 0x0 closed\n\
                     mysqld           4813    28.70 3035 0x0 closed\n";
        assert_eq!(
            says(snoop),
            ["Of the server's syncs of files 2 were traced: they took 15 ms on average, the slowest 28.7 ms"]
        );
        let slower = "TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
                      06:35:01 mysqld         4813   R 16384   128        11.50 stock.ibd\n\
                      06:35:01 mysqld         4813   S 0       0          12.30 ib_logfile0\n";
        assert_eq!(
            says(slower),
            [
                "Of the server's reads one was traced: it took 11.5 ms",
                "Of the server's syncs of files one was traced: it took 12.3 ms"
            ]
        );
        assert_eq!(says(&snoop.replace("mysqld", "java  ")), Vec::<String>::new());
    }

    #[test]
    fn the_call_and_the_file_that_have_most_are_said() {
        let text = "     total      pread       open filename\n  0.006000   0.006000   0.000000 /data/shop/stock.ibd\n\
                    \x20 0.002000   0.001000   0.001000 /data/shop/orders.ibd\n";
        assert_eq!(
            says(text),
            [
                "Of what pt-ioprofile counted pread has 88 %, and of the files /data/shop/stock.ibd has most: 75 %"
            ]
        );
    }

    #[test]
    fn slow_system_calls_on_files_are_said_and_waits_for_others_are_not() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n \
                    61.15   66.663785       45235     23594         4 futex\n  9.35   7.405440        9120       812           fsync\n  \
                    0.35   0.205440          12     17120         1 pread64\n";
        assert_eq!(says(text), ["By strace calls on files take long: fsync 9.12 ms (812 calls)"]);
    }
}
