//! What `perf report --stdio` and `perf top --stdio` print: shares of all samples by thread, file and function, perhaps with a call
//! graph below each. On a screen each line that unfolds has a `+` or a `-` in front.
//!
//! ```text
//! # Overhead  Command  Shared Object      Symbol
//!     84.97%  mysqld   [kernel.kallsyms]  [k] _raw_spin_lock_irqsave
//!             |
//!             ---_raw_spin_lock_irqsave
//!                |--70.00%--dbuf_read
//!                |          dmu_buf_hold_array_by_dnode
//!                 --14.97%--arc_read
//! ```
//!
//! And what `opreport -l` of oprofile prints, which has counts, and percents without a sign:
//!
//! ```text
//! samples  %        image name               symbol name
//! 1955062  34.3586  /usr/sbin/mysqld         mutex_spin_wait
//! ```

use spindoctor_model::stack::{Spin, StackSource};

use super::perf::{is_kernel, is_server_thread};
use super::tables::{Place, Tables, Who, base_name, is_server};
use super::{CapturedStacks, name, state};

/// Samples that stand for all of a report: its shares have two digits behind the point.
const SAMPLES: f64 = 10_000.0;

/// Lines of the call graph of one entry that are read, and the length of one path in it.
const MOST_GRAPH_LINES: usize = 5_000;
const LONGEST_PATH: usize = 200;

/// How the kernel is entered: what calls these is the program.
pub(super) const ENTRIES: &[&str] = &[
    "entry_SYSCALL_64_after_hwframe",
    "entry_SYSCALL_64_fastpath",
    "entry_SYSCALL_64",
    "do_syscall_64",
    "system_call_fastpath",
    "system_call",
    "page_fault",
    "asm_exc_page_fault",
    "el0_svc",
    "el0_sync",
    "el0t_64_sync",
    "el0_svc_naked",
    "ret_fast_syscall",
];

/// A line of the report, and the lines of its call graph.
#[derive(Debug)]
struct Entry<'a> {
    percent: f64,
    thread: String,
    module: &'a str,
    symbol: String,
    is_kernel: bool,
    graph: Vec<&'a str>,
}

/// A report, where a text is one.
pub(super) fn read(text: &str) -> Option<CapturedStacks> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut before: Vec<Entry<'_>> = Vec::new();
    let mut columns = Columns::default();
    let mut oprofile = None;
    let mut not_understood = 0;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if let Some(found) = Columns::from_heading(trimmed) {
            columns = found;
        } else if trimmed.starts_with("PerfTop:") {
            // `perf top --stdio` begins its list again.
            before = last_of(before, std::mem::take(&mut entries));
        } else if let Some(files) = files_of_oprofile(trimmed) {
            oprofile = Some(files);
        } else if let Some(entry) = oprofile.and_then(|files| entry_of_oprofile(trimmed, files)) {
            entries.push(entry);
        } else if let Some(entry) = entry(without_fold(trimmed), columns) {
            entries.push(entry);
        } else if let Some(last) = entries.last_mut().filter(|_| is_graph(line)) {
            if last.graph.len() < MOST_GRAPH_LINES {
                last.graph.push(line);
            }
        } else {
            let is_heading =
                trimmed.starts_with('#') || trimmed.starts_with("Samples: ") || trimmed.starts_with("...");
            // A branch that was unfolded on a screen.
            let is_branch = percent(without_fold(trimmed)).is_some();
            not_understood += usize::from(!is_heading && !is_branch);
        }
    }
    let entries = last_of(before, entries);
    if entries.is_empty() {
        return None;
    }
    let (profile, threads) = profile(&entries);
    let form = if oprofile.is_some() { "opreport" } else { "perf report" };
    Some(CapturedStacks { form, profile, threads, lines_not_understood: not_understood })
}

/// Of two lists the later one, where it is not cut.
fn last_of<'a>(before: Vec<Entry<'a>>, entries: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
    if entries.len() * 2 >= before.len() && !entries.is_empty() { entries } else { before }
}

/// True for a line that nothing else prints: the names of the columns, or a function with its share.
pub(super) fn is_of_report(line: &str) -> bool {
    let line = line.trim();
    let is_heading = || line.contains("Symbol") && Columns::from_heading(line).is_some();
    entry(without_fold(line), Columns::default()).is_some()
        || is_heading()
        || files_of_oprofile(line).is_some()
}

/// How many names of files stand before the function in a report of oprofile, by its heading: that of the function's, and that of the
/// program where they are apart.
fn files_of_oprofile(line: &str) -> Option<usize> {
    let is_heading = line.starts_with("samples ") && line.contains(" % ") && line.ends_with("symbol name");
    let files = || ["image name", "app name"].iter().filter(|name| line.contains(**name)).count();
    (is_heading && !line.contains("linenr info")).then(files)
}

/// `1955062  34.3586  /usr/sbin/mysqld         mutex_spin_wait`
fn entry_of_oprofile(line: &str, files: usize) -> Option<Entry<'_>> {
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.split_once([' ', '\t'])?;
        rest = behind.trim_start();
        Some(word)
    };
    word()?.parse::<u64>().ok()?;
    let percent: f64 = word()?.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent))?;
    let module = if files > 0 { word()? } else { "" };
    for _ in 1..files {
        word()?;
    }
    let symbol = if rest == "(no symbols)" { "[unknown]" } else { rest };
    // Of a program that is none of a server's its name stands for its threads.
    let program = base_name(module);
    let is_shared = is_kernel(module) || program.contains(".so") || program.is_empty();
    let is_of_server = ["mysqld", "mariadbd"].iter().any(|server| program.starts_with(server));
    Some(Entry {
        percent,
        thread: if is_shared || is_of_server { String::new() } else { program.chars().take(64).collect() },
        module,
        symbol: symbol.to_owned(),
        is_kernel: is_kernel(module),
        graph: Vec::new(),
    })
}

/// A line without the mark of what unfolds below it: `+   48.83%    48.57%  mysqld   mysqld   [.] ut_delay`.
fn without_fold(line: &str) -> &str {
    let rest = line.strip_prefix(['+', '-']).filter(|rest| rest.starts_with(' '));
    rest.map_or(line, str::trim_start)
}

/// Which columns stand before the symbol, where a heading says it.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    is_known: bool,
    has_thread: bool,
    has_module: bool,
}

impl Columns {
    fn from_heading(line: &str) -> Option<Self> {
        let line = line.trim_start_matches('#').trim();
        let is_heading =
            (line.starts_with("Overhead") || line.starts_with("Children")) && !line.contains('%');
        is_heading.then(|| Self {
            is_known: true,
            has_thread: line.contains("Command"),
            has_module: line.contains("Shared Object") || line.contains("Shared O"),
        })
    }
}

/// `84.97%  [0.12%]  [count]  mysqld  [kernel.kallsyms]  [k] _raw_spin_lock_irqsave`
fn entry(line: &str, columns: Columns) -> Option<Entry<'_>> {
    let mut rest = line;
    let mut percents = Vec::new();
    while let Some((percent, behind)) = percent(rest) {
        percents.push(percent);
        rest = behind.trim_start();
    }
    // With --children the first is the share with all that was called, the second the function's own.
    let percent = *percents.get(1).or_else(|| percents.first())?;
    let (at, mark) = ["[k] ", "[.] ", "[H] ", "[g] ", "[u] "]
        .iter()
        .filter_map(|mark| rest.find(mark).map(|at| (at, *mark)))
        .min()?;
    let before: Vec<&str> = rest[..at].split_whitespace().collect();
    let counts = before.iter().take_while(|word| word.bytes().all(|b| b.is_ascii_digit())).count();
    let before = &before[counts..];
    let (thread, module) = match (before, columns) {
        ([], _) => (&before[..0], ""),
        (words, Columns { is_known: true, has_thread: true, has_module: false }) => (words, ""),
        ([.., module], Columns { is_known: true, has_thread: false, .. }) => (&before[..0], *module),
        ([module], _) => (&before[..0], *module),
        ([thread @ .., module], _) => (thread, *module),
    };
    let thread = thread.join(" ");
    // `1234:mysqld` where the report is by process.
    let thread = thread
        .rsplit_once(':')
        .filter(|(pid, _)| pid.bytes().all(|b| b.is_ascii_digit()))
        .map_or(thread.as_str(), |(_, name)| name);
    // Further columns are behind two blanks or more.
    let symbol = rest[at + mark.len()..].split("  ").next().unwrap_or_default().trim();
    Some(Entry {
        percent,
        thread: thread.chars().take(64).collect(),
        module,
        symbol: symbol.to_owned(),
        is_kernel: mark.starts_with("[k") || is_kernel(module),
        graph: Vec::new(),
    })
}

/// `84.97%` at the beginning of a text, from 0 to 100; many languages have a comma in it: `84,97%`.
fn percent(text: &str) -> Option<(f64, &str)> {
    let end = text.find('%').filter(|&at| at > 0 && at <= 6)?;
    let percent: f64 = text[..end].replace(',', ".").parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some((percent, &text[end + 1..]))
}

/// A line of a call graph: nothing but its lines and a name, indented.
fn is_graph(line: &str) -> bool {
    let content = line.trim_start_matches([' ', '|', '\t']);
    let indent = line.len() - content.len();
    let is_drawn = line.contains('|') || content.starts_with("--");
    indent >= 8
        && (is_drawn || content.is_empty() || !content.contains("  "))
        && !content.contains('%') | content.starts_with("--")
}

fn profile(entries: &[Entry<'_>]) -> (spindoctor_model::stack::Profile, usize) {
    let mut tables = Tables::new(StackSource::Cpu);
    let is_server_s = |entry: &Entry<'_>| {
        entry.thread.is_empty() || is_server_thread(&entry.thread) || is_server(base_name(entry.module))
    };
    let has_server = entries.iter().any(is_server_s);
    let (mut listed, mut others) = (0.0, 0.0);
    for entry in entries {
        listed += entry.percent;
        let own = name::short(&entry.symbol).and_then(|name| state::spin(&name, entry.is_kernel));
        // Who else spins in the kernel holds the same locks up; what else other programs do is not the server's.
        if has_server && !is_server_s(entry) && own != Some(Spin::Kernel) {
            others += entry.percent;
            continue;
        }
        let who = Who { name: entry.thread.clone(), ..Who::default() };
        let samples = entry.percent / 100.0 * SAMPLES;
        for (share, places) in paths(entry) {
            tables.samples((samples * share).round() as usize, &who, &places);
        }
    }
    let missing = (100.0 - listed).clamp(0.0, 100.0) / 100.0 * SAMPLES;
    let not_listed = Place { name: "[not listed]".to_owned(), ..Place::default() };
    tables.samples(missing.round() as usize, &Who::default(), &[not_listed]);
    if others >= 0.01 {
        tables.profile.notes.push(format!("{others:.1} % of the samples are of other programs"));
    }
    let threads =
        entries.iter().map(|entry| entry.thread.as_str()).collect::<std::collections::BTreeSet<_>>().len();
    (tables.finish(), threads)
}

/// The ways to an entry's function, innermost frame first, and the share of its samples that each takes.
fn paths(entry: &Entry<'_>) -> Vec<(f64, Vec<Place>)> {
    let own = Place {
        name: entry.symbol.clone(),
        module: (!entry.module.is_empty()).then(|| entry.module.to_owned()),
        kernel: entry.is_kernel,
        ..Place::default()
    };
    let graph = graph(&entry.graph, entry.percent);
    let all: f64 = graph.iter().map(|(weight, _)| weight).sum();
    if all <= 0.0 {
        return vec![(1.0, vec![own])];
    }
    let ways = graph.into_iter().map(|(weight, mut names)| {
        if names.first() != Some(&entry.symbol) && names.last() == Some(&entry.symbol) {
            names.reverse();
        }
        if names.first() == Some(&entry.symbol) {
            names.remove(0);
        }
        let entered = names.iter().position(|name| ENTRIES.contains(&name.as_str()) || name.contains("sys_"));
        let in_kernel = |at: usize, name: &str| match entered {
            _ if !entry.is_kernel => false,
            Some(entered) => at <= entered || ENTRIES.contains(&name),
            None => !name.contains("::"),
        };
        let callers = names.iter().enumerate().map(|(at, name)| Place {
            name: name.clone(),
            kernel: in_kernel(at, name),
            ..Place::default()
        });
        (weight / all, std::iter::once(own.clone()).chain(callers).collect())
    });
    ways.collect()
}

/// A branch of a call graph.
struct Branch {
    column: usize,
    weight: f64,
    of_children: f64,
    parent: Option<usize>,
    names: Vec<String>,
}

/// Each path of a call graph, from its root on, with its weight.
fn graph(lines: &[&str], percent: f64) -> Vec<(f64, Vec<String>)> {
    let mut branches: Vec<Branch> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for line in lines {
        let content = line.trim_start_matches([' ', '|', '\t']).trim_end();
        let column = line.len() - line.trim_start_matches([' ', '|', '\t']).len();
        if content.is_empty() {
            continue;
        }
        while open.last().is_some_and(|&last| branches[last].column >= column) {
            open.pop();
        }
        if content.starts_with("--") {
            let text = content.trim_start_matches('-');
            let (weight, text) =
                self::percent(text).map_or((None, text), |(weight, rest)| (Some(weight), rest));
            let name = text.trim_start_matches('-').trim();
            let parent = open.last().copied();
            if let (Some(parent), Some(weight)) = (parent, weight) {
                branches[parent].of_children += weight;
            }
            let names = if name.is_empty() { Vec::new() } else { vec![name.to_owned()] };
            open.push(branches.len());
            branches.push(Branch {
                column,
                weight: weight.unwrap_or(percent),
                of_children: 0.0,
                parent,
                names,
            });
        } else if let Some(&last) = open.last()
            && branches[last].names.len() < LONGEST_PATH
        {
            branches[last].names.push(content.to_owned());
        }
    }
    let path = |at: usize| {
        let mut chain = vec![at];
        while let Some(parent) = branches[chain[chain.len() - 1]].parent {
            chain.push(parent);
        }
        let names = chain.iter().rev().flat_map(|&at| branches[at].names.iter().cloned());
        names.take(LONGEST_PATH).collect::<Vec<_>>()
    };
    // Shares may be of all samples or of the branch above: of the branch, where the parts would be more than the whole.
    let is_relative = branches.iter().any(|branch| branch.of_children > branch.weight * 1.05 + 0.5);
    let weight = |at: usize| {
        let branch = &branches[at];
        if !is_relative {
            return (branch.weight - branch.of_children).max(0.0);
        }
        let (mut weight, mut up) = (1.0, Some(at));
        while let Some(now) = up {
            let branch = &branches[now];
            weight *= branch.parent.map_or(1.0, |_| branch.weight / 100.0);
            up = branch.parent;
        }
        weight * (1.0 - branch.of_children / 100.0).max(0.0)
    };
    (0..branches.len())
        .map(|at| (weight(at), at))
        .filter(|(weight, _)| *weight > 1e-6)
        .map(|(weight, at)| (weight, path(at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_lists_of_perf_top_the_last_one_that_is_whole_counts() {
        let list = |share: &str| {
            format!(
                "   PerfTop:    5163 irqs/sec  kernel:33.8%  exact:  0.0% [4000Hz cpu-clock],  (target_pid: 47)\n\
                 -------------------------------------------------------------------------------\n\n    \
                 {share}  mysqld         [.] ut_delay\n     2.80%  mysqld         [.] rec_get_offsets_func\n     \
                 1.95%  libc-2.17.so   [.] memcpy\n"
            )
        };
        let said = |text: &str| crate::sampled::sentence(&read(text).unwrap().profile).unwrap();
        let two = format!("{}{}", list("19.00%"), list("29.00%"));
        assert!(said(&two).contains("29 % ut_delay"), "{}", said(&two));
        let one = list("9.00%").lines().take(4).collect::<Vec<_>>().join("\n");
        let cut = format!("{two}{one}\n");
        assert!(said(&cut).contains("29 % ut_delay"), "{}", said(&cut));
    }

    #[test]
    fn what_oprofile_counted_is_a_report_and_other_programs_are_no_server_s() {
        let text = "CPU: AMD64 processors, speed 2400.1 MHz (estimated)\n\
                    Counted CPU_CLK_UNHALTED events (Cycles outside of halt state) with a unit mask of 0x00 count 100000\n\
                    samples  %        image name               symbol name\n\
                    195506   60.1000  /usr/sbin/mysqld         Query_cache::free_old(Query_cache_block*, int)\n\
                    19248    20.0000  no-vmlinux               (no symbols)\n\
                    16576    10.0000  libc-2.12.so             memcpy\n\
                    1657      5.0000  /usr/bin/php5            zend_execute\n";
        let read = read(text).unwrap();
        assert_eq!((read.form, read.lines_not_understood), ("opreport", 2));
        assert_eq!(read.profile.notes, ["5.0 % of the samples are of other programs"]);
        let said = crate::sampled::sentence(&read.profile).unwrap();
        assert!(said.contains("63 % Query_cache::free_old (/usr/sbin/mysqld)"), "{said}");
        let parts =
            crate::recognise("a.txt", &format!("Hier kann man das Problem sofort erkennen:\n\n{text}"));
        assert!(parts.iter().any(|part| part.kind == crate::part::Kind::Stacks), "{parts:?}");
    }

    fn shares(text: &str) -> Vec<(String, u32)> {
        let read = read(text).unwrap();
        let profile = &read.profile;
        let mut counted = std::collections::BTreeMap::new();
        for sample in profile.samples() {
            let names: Vec<&str> = profile.stacks[sample.stack as usize]
                .frames
                .iter()
                .map(|&at| profile.frames[at as usize].name.as_str())
                .collect();
            *counted.entry(names.join(" < ")).or_insert(0) += 1;
        }
        counted.into_iter().collect()
    }

    #[test]
    fn a_flat_report_gives_the_shares_that_it_lists() {
        let text = "# Overhead  Command  Shared Object      Symbol\n\
                    # ........  .......  .................  ......\n#\n    \
                    60.00%  mysqld   [kernel.kallsyms]  [k] _raw_spin_lock_irqsave\n     \
                    5.00%  backup   [kernel.kallsyms]  [k] _raw_spin_lock_irqsave\n     \
                    4.00%  backup   libz.so            [.] deflate\n    \
                    10.00%  mysqld   mysqld             [.] row_search_mvcc(unsigned char*, page_cur_mode_t)\n";
        assert_eq!(
            shares(text),
            [
                ("[not listed]".into(), 2100),
                ("_raw_spin_lock_irqsave".into(), 6500),
                ("row_search_mvcc".into(), 1000)
            ]
        );
        let read = read(text).unwrap();
        assert_eq!(
            (read.lines_not_understood, read.threads, read.profile.process.name.as_str()),
            (0, 2, "mysqld")
        );
        assert_eq!(read.profile.notes, ["4.0 % of the samples are of other programs"]);
        assert_eq!(read.profile.samples().iter().filter(|one| one.spin == Some(Spin::Kernel)).count(), 6500);
    }

    #[test]
    fn a_report_that_was_copied_off_a_screen_is_one() {
        let text = "Samples: 1K of event 'cycles:ppp', Event count (approx.): 514150605\n  \
                    Children      Self  Command  Shared Object        Symbol\n\
                    +   95.00%     0.00%  mysqld   libpthread-2.17.so   [.] start_thread\n\
                    -   48.83%    40.00%  mysqld   mysqld               [.] ut_delay\n\
                    \x20  - 40.00% ut_delay\n      + 30.00% mutex_spin_wait\n\
                    +   10.00%    10.00%  mysqld   [kernel.kallsyms]    [k] __schedule\n";
        let wanted = [("[not listed]".into(), 5000), ("__schedule".into(), 1000), ("ut_delay".into(), 4000)];
        assert_eq!(shares(text), wanted);
        assert_eq!(read(text).unwrap().lines_not_understood, 0);
        let counted = "+   60.00%          8027  mysqld   mysqld     [.] ut_crc32_sw\n+   40.00%          5000  mysqld   [kernel]   [k] schedule\n";
        assert_eq!(shares(counted), [("schedule".into(), 4000), ("ut_crc32_sw".into(), 6000)]);
    }

    #[test]
    fn shares_with_a_decimal_comma_are_shares() {
        let text = "# Overhead  Command  Shared Object      Symbol\n    84,50%  mysqld   [kernel.kallsyms]  [k] osq_lock\n            |\n            \
                    ---osq_lock\n               |--60,25%--down_read\n               |          do_syscall_64\n               |\n                \
                    --24,25%--down_write\n\n    15,50%  mysqld   mysqld             [.] ut_delay\n";
        assert_eq!(
            shares(text),
            shares(
                &text
                    .replace("84,50", "84.50")
                    .replace("0,25", "0.25")
                    .replace("4,25", "4.25")
                    .replace("5,50", "5.50")
            )
        );
        assert_eq!(
            shares("  30,00%  [kernel]  [k] osq_lock\n 70,00%  mysqld  [.] ut_delay\n")[1],
            ("ut_delay".into(), 7000)
        );
    }

    #[test]
    fn columns_are_found_without_a_heading() {
        assert_eq!(
            shares("  30.00%  [kernel]  [k] osq_lock\n 70.00%  mysqld  [.] ut_delay\n"),
            [("osq_lock".into(), 3000), ("ut_delay".into(), 7000)]
        );
        assert_eq!(shares("  99.0%  30.00%  1234:mysqld  mysqld  [.] ut_delay  -  -\n 70.00%  mysqld  libc.so  [.] memcpy\n").len(), 2);
    }

    #[test]
    fn a_call_graph_gives_stacks_whether_its_shares_are_of_all_or_of_the_branch() {
        for (first, second) in [("30.00", "10.00"), ("75.00", "25.00")] {
            let text = format!(
                "    40.00%  mysqld  [kernel.kallsyms]  [k] osq_lock\n            |\n            ---osq_lock\n               |          \n               |--{first}%--rwsem_down_write_slowpath\n               |          do_syscall_64\n               |          mmap64\n               |          \n                --{second}%--down_read\n\n    60.00%  mysqld  mysqld  [.] ut_delay\n"
            );
            assert_eq!(
                shares(&text),
                [
                    ("osq_lock < down_read".into(), 1000),
                    ("osq_lock < rwsem_down_write_slowpath < do_syscall_64 < mmap64".into(), 3000),
                    ("ut_delay".into(), 6000)
                ],
                "{first}"
            );
        }
    }

    #[test]
    fn a_graph_of_callers_is_turned_round() {
        let text = "    40.00%    40.00%  mysqld  mysqld  [.] ut_delay\n            |\n            ---clone\n               handle_connection\n               |          \n                --40.00%--mutex_spin_wait\n                          ut_delay\n";
        assert_eq!(shares(text)[1].0, "ut_delay < mutex_spin_wait < handle_connection < clone");
    }
}
