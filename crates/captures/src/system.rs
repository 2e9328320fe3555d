//! What tools of the system print: the few numbers of `vmstat`, `iostat -x`, `df`, `top` and `cpu.stat` that a cause rests on.
//!
//! Each tool is known by its head. Of several reports the first is left out where it is a mean since the host's start, as
//! `vmstat` and `iostat` begin with one.

use std::collections::BTreeMap;

use spindoctor_model::{LoggedTrouble, TroubleKind};

use crate::amounts::amount;
use crate::cpu_shares::Shares;
use crate::{
    atop, busy_threads, cloudwatch, container_states, containers, cpu_counters, cpu_shares, deleted_files,
    iotop, kernel_waits, latency_bars, load_tests, memory_left, memory_nodes, nameless_disks, packets,
    pressure, process_files, rds_events, screens, socket_counts, sysstat, sysstat_io, traced_calls,
    unit_status, unix_disks,
};

/// Swapped in from this on sessions wait for it: 25 pages a second, KiB/s (vmstat's unit). By judgement.
pub(crate) const SWAPS_IN_KIB_PER_S: f64 = 100.0;
/// Swapped out from this on, KiB/s, the memory that is in use does not fit, whether pages are read again yet or not. By judgement: what the
/// kernel moves out beforehand of what nobody touches is less, and is over soon.
const SWAPS_OUT_KIB_PER_S: f64 = 500.0;
/// Part of the time in which hypervisors give CPUs to others, from which on it is felt, percent. By judgement.
pub(crate) const STEAL_PERCENT: f64 = 10.0;
/// A disk of which nothing is left, percent of the time, and the wait of each request that then shows a queue: a disk that serves
/// many at once is busy all the time and waits for nobody (iostat(1), %util). A flash disk answers in less than a tenth of it.
pub(crate) const BUSY_PERCENT: f64 = 90.0;
pub(crate) const SLOW_MS: f64 = 5.0;
/// Requests to a disk that take so long wait in a queue, whatever part of the time it is busy; of so few a second that is worth nothing.
/// By judgement: a turning disk answers in less than half of it.
const QUEUE_MS: f64 = 20.0;
const QUEUE_PER_S: f64 = 10.0;
/// CPUs of which so little is idle are full, percent.
pub(crate) const IDLE_PERCENT: f64 = 5.0;
/// CPUs that do nothing because threads wait for a disk, from which on that is worth a sentence, percent. By judgement.
const DISK_PERCENT: f64 = 25.0;
/// Threads that wait for a disk, from which on that is worth a sentence. By judgement.
pub(crate) const BLOCKED: f64 = 4.0;
/// Time of the CPUs in the kernel from which on that is worth a sentence, where programs have less of it, percent. By judgement.
const KERNEL_PERCENT: f64 = 30.0;
/// A server that uses so much of one CPU is worth a sentence where others are idle, percent: it may be one thread that has no more.
pub(crate) const WHOLE_PERCENT: f64 = 90.0;
/// Periods in which the quota stopped the group, from which on it is felt. As cpu-throttled has it.
const THROTTLED_RATIO: f64 = 0.1;
/// Sentences of one tool.
const MOST: usize = 5;
/// Rows of one text that are read: a day of vmstat has 86,400.
pub(crate) const MOST_ROWS: usize = 100_000;
/// Words of a line that are read: the widest list, of `iostat -x`, has 23 columns, and a list of processes whole command lines.
pub(crate) const MOST_WORDS: usize = 200;

/// What a stretch of such texts says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SystemText {
    /// In sentences.
    pub(crate) says: Vec<String>,
    /// What causes rest on, each with its sentence.
    pub(crate) troubles: Vec<LoggedTrouble>,
}

impl SystemText {
    /// Adds a sentence, and what a cause rests on where there is one.
    pub(crate) fn add(&mut self, source: &str, kind: Option<TroubleKind>, sentence: String) {
        if self.says.len() >= MOST || self.says.contains(&sentence) {
            return;
        }
        self.troubles.extend(kind.map(|kind| LoggedTrouble {
            kind,
            times: 1,
            line: sentence.clone(),
            source: source.into(),
            ..LoggedTrouble::default()
        }));
        self.says.push(sentence);
    }

    /// Says how much of the CPUs' time the kernel has, where that is much and more than programs have. Of several tools the first
    /// says it: they looked at about the same time.
    pub(crate) fn add_kernel(&mut self, source: &str, in_kernel: f64, in_programs: f64) {
        const BEGINS: &str = "The CPUs are in the kernel in ";
        let is_said = self.says.iter().any(|sentence| sentence.starts_with(BEGINS));
        if in_kernel >= KERNEL_PERCENT && in_kernel > in_programs && !is_said {
            let sentence = format!(
                "{BEGINS}{in_kernel:.0} % of the time, and in programs in {in_programs:.0} %: perf top says in which functions"
            );
            self.add(source, None, sentence);
        }
    }
}

/// How the sentence on full CPUs begins, whatever tool shows it.
pub(crate) const CPUS_FULL: &str = "The CPUs are full";

/// Percent of a full memory from which on the server itself is what has it. By judgement: the rest of a host needs a few.
const SERVERS_MEMORY: f64 = 80.0;

/// Percent from which on it has so much that nothing else has to say that the memory is full. By judgement: a twentieth is what the kernel and
/// the rest of a host need.
const NOTHING_LEFT: f64 = 95.0;

/// Says where the server itself has the host's memory, as `ps aux` and `top` print it, and adds it to what is said of a full memory.
///
/// ```text
/// USER       PID %CPU %MEM      VSZ      RSS TTY   STAT START       TIME COMMAND
/// mysql     1822  212 96.1 79012340 63220112 ?     Ssl  Mar02   91223:11 /usr/sbin/mysqld
/// ```
fn memory_of_server(text: &str, found: &mut SystemText) {
    let is_head = |words: &[&str]| {
        words.contains(&"PID") && words.contains(&"%MEM") && words.last() == Some(&"COMMAND")
    };
    let Some(rows) = tables(text, is_head).pop() else { return };
    let is_server = |name: &str| ["mysqld", "mariadbd"].iter().any(|server| name.ends_with(server));
    let of_server = rows.iter().filter(|row| row.get("COMMAND").is_some_and(|name| is_server(name)));
    let percent = of_server.filter_map(|row| number(row, "%MEM")).fold(0.0, f64::max);
    if !(SERVERS_MEMORY..=100.0).contains(&percent) {
        return;
    }
    let is_full = found.troubles.iter().any(|trouble| trouble.kind == TroubleKind::Swapping);
    // A server of its own host has most of the memory, and is well.
    if percent < NOTHING_LEFT && !is_full {
        return;
    }
    let full = found.troubles.iter_mut().filter(|trouble| trouble.kind == TroubleKind::Swapping);
    full.for_each(|trouble| trouble.line.push_str(&format!("; {THE_SERVER_ITSELF} {percent:.0} % of it")));
    found.add("ps", None, format!("Of the host's memory {THE_SERVER_ITSELF} {percent:.0} %"));
}

/// What is said of a host whose memory the server has.
const THE_SERVER_ITSELF: &str = "the server itself has";

/// Reads them.
pub(crate) fn read(text: &str) -> SystemText {
    let mut found = SystemText::default();
    full_file_systems(text, &mut found);
    vmstat(text, &mut found);
    iostat(text, &mut found);
    unix_disks::read(text, &mut found);
    top(text, &mut found);
    cpu_stat(text, &mut found);
    sysstat::read(text, &mut found);
    memory_left::read(text, &mut found);
    memory_of_server(text, &mut found);
    busy_threads::read(text, &mut found);
    sysstat_io::read(text, &mut found);
    kernel_waits::read(text, &mut found);
    atop::read(text, &mut found);
    iotop::read(text, &mut found);
    containers::read(text, &mut found);
    container_states::read(text, &mut found);
    deleted_files::read(text, &mut found);
    load_tests::read(text, &mut found);
    cloudwatch::read(text, &mut found);
    rds_events::read(text, &mut found);
    packets::read(text, &mut found);
    pressure::read(text, &mut found);
    memory_nodes::read(text, &mut found);
    traced_calls::read(text, &mut found);
    latency_bars::read(text, &mut found);
    socket_counts::read(text, &mut found);
    process_files::read(text, &mut found);
    unit_status::read(text, &mut found);
    cpu_counters::read(text, &mut found);
    if text.lines().any(screens::is_other_view) {
        found.add("myq_status", None, screens::NOT_USED.to_owned());
    }
    found
}

/// Rows of numbers below a head with these columns, by the head's names. The words before them, `Device` say, are their own.
pub(crate) fn tables(text: &str, is_head: impl Fn(&[&str]) -> bool) -> Vec<Vec<BTreeMap<&str, &str>>> {
    let mut reports: Vec<Vec<BTreeMap<&str, &str>>> = Vec::new();
    let mut head: Vec<&str> = Vec::new();
    let mut left = MOST_ROWS;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        if is_head(&words) {
            head = words;
            reports.push(Vec::new());
        } else if !line.contains(|c: char| c.is_ascii_digit()) {
            // An empty line, or the head of another table: its rows may have as many columns. Right below a head an empty line is a
            // page's, which has one behind each line.
            let is_above_rows = line.trim().is_empty() && reports.last().is_some_and(Vec::is_empty);
            if !is_gap(line) && !is_above_rows {
                head.clear();
            }
        } else if !head.is_empty()
            && words.len() >= head.len()
            && left > 0
            && let Some(rows) = reports.last_mut()
        {
            left -= 1;
            rows.push(head.iter().copied().zip(words).collect());
        }
    }
    reports.retain(|rows| !rows.is_empty());
    reports
}

/// What stands where somebody left rows out: `...`, `[...]`, `<snip>`.
fn is_gap(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && (line.chars().all(|c| ".[]…".contains(c)) || ["<snip>", "[snip]"].contains(&line))
}

/// The number in a column of a row.
pub(crate) fn number(row: &BTreeMap<&str, &str>, name: &str) -> Option<f64> {
    amount(&row.get(name)?.replace(',', "."))
}

/// The mean of a column.
pub(crate) fn mean(rows: &[BTreeMap<&str, &str>], name: &str) -> Option<f64> {
    let numbers: Vec<f64> = rows.iter().filter_map(|row| number(row, name)).collect();
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// ` r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st`
fn vmstat(text: &str, found: &mut SystemText) {
    let is_head = |words: &[&str]| words.starts_with(&["r", "b", "swpd"]) && words.contains(&"si");
    let rows: Vec<_> = tables(text, is_head).into_iter().flatten().collect();
    let rows = if rows.is_empty() { vmstat_in_one_line(text) } else { rows };
    let is_one = rows.len() == 1;
    let rows = if rows.len() > 1 { &rows[1..] } else { &rows[..] };
    let of = |name| mean(rows, name).unwrap_or(0.0);
    let (read_in, written_out) = (of("si"), of("so"));
    let is_writing_out = written_out >= SWAPS_OUT_KIB_PER_S && read_in > 0.0 && rows.len() > 1;
    if read_in >= SWAPS_IN_KIB_PER_S || is_writing_out {
        let sentence = format!("The host swaps: {read_in:.0} KiB/s in, {written_out:.0} KiB/s out");
        found.add("vmstat", Some(TroubleKind::Swapping), sentence);
    }
    if of("st") >= STEAL_PERCENT {
        let sentence = format!("Other virtual machines have {:.0} % of this one's CPUs (steal)", of("st"));
        found.add("vmstat", Some(TroubleKind::CpusTaken), sentence);
    }
    if of("b") >= BLOCKED {
        // Who waits is of the moment, and of one row alone the shares may be of all time since the host's start.
        let waits = match is_one && of("wa") < DISK_PERCENT {
            true => String::new(),
            false => format!(", and the CPUs do nothing else in {:.0} % of the time", of("wa")),
        };
        found.add("vmstat", None, format!("{:.0} threads wait for a disk{waits}", of("b")));
    }
    found.add_kernel("vmstat", of("sy"), of("us"));
    if mean(rows, "id").is_some_and(|idle| idle + of("wa") <= IDLE_PERCENT) {
        let sentence = format!("The CPUs are full: {:.0} threads run or wait for one", of("r"));
        found.add("vmstat", None, sentence);
    }
}

/// The same with its line ends lost: the names, and behind them the numbers of each row.
fn vmstat_in_one_line(text: &str) -> Vec<BTreeMap<&str, &str>> {
    fn rows(line: &str) -> Option<Vec<BTreeMap<&str, &str>>> {
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = line.split_whitespace().take(MOST_ROWS).collect();
        let first = words.windows(3).position(|three| three == ["r", "b", "swpd"])?;
        let names: Vec<&str> = words[first..].iter().copied().take_while(|word| !is_number(word)).collect();
        let behind = &words[first + names.len()..];
        let numbers: Vec<&str> = behind.iter().copied().take_while(|word| is_number(word)).collect();
        Some(
            numbers
                .chunks_exact(names.len())
                .map(|cells| names.iter().copied().zip(cells.iter().copied()).collect())
                .collect(),
        )
    }
    text.lines().find_map(rows).unwrap_or_default()
}

/// `Device  r/s  rkB/s ... r_await ... w/s ... w_await ... %util`; `await` alone before sysstat 10, and with `tps` in `sar -d`, which has the
/// time before each row: `DEV  tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz  await  svctm  %util`.
fn iostat(text: &str, found: &mut SystemText) {
    let is_head = |words: &[&str]| {
        let is_list = words.first().is_some_and(|word| word.starts_with("Device")) || words.contains(&"DEV");
        is_list && words.contains(&"%util")
    };
    let reports = tables(text, is_head);
    let is_sar = reports.iter().flatten().any(|row| row.contains_key("DEV"));
    let source = if is_sar { "sar" } else { "iostat" };
    // The first report of iostat is of all the time since the start.
    let reports = if reports.len() > 1 && !is_sar { &reports[1..] } else { &reports[..] };
    let mut disks: BTreeMap<&str, Vec<BTreeMap<&str, &str>>> = BTreeMap::new();
    for row in reports.iter().flatten() {
        let name = ["Device", "Device:", "DEV"].iter().find_map(|column| row.get(column));
        let Some(name) = name else { continue };
        disks.entry(name).or_default().push(row.clone());
    }
    for (name, rows) in disks {
        let of = |column: &str| mean(&rows, column);
        let both = of("await").unwrap_or(0.0);
        // sar counts the requests of both sides together: what is read and written says which has more.
        let side = |columns: [&str; 3]| columns.into_iter().find_map(of).unwrap_or(0.0);
        let (reads, writes) = (side(["r/s", "rd_sec/s", "rkB/s"]), side(["w/s", "wr_sec/s", "wkB/s"]));
        let read_ms = of("r_await").unwrap_or(both);
        let write_ms = of("w_await").unwrap_or(both);
        // The side that takes more of the disk's time.
        let is_read = reads * read_ms >= writes * write_ms;
        let (kind, what, per_s, ms) = match is_read {
            true => (TroubleKind::BusyReading, "reads", reads, read_ms),
            false => (TroubleKind::BusyWriting, "writes", writes, write_ms),
        };
        let (what, per_s) = of("tps").map_or((what, per_s), |tps| ("requests", tps));
        let Some(busy) = of("%util").map(|busy| busy.min(100.0)) else { continue };
        let disk = match name {
            nameless_disks::NAMELESS => "A disk".to_owned(),
            name => format!("The disk {name}"),
        };
        if busy >= BUSY_PERCENT && ms >= SLOW_MS {
            // The other side may have more requests, each of which takes less.
            let (others, others_per_s, others_ms) = match is_read {
                true => ("writes", writes, write_ms),
                false => ("reads", reads, read_ms),
            };
            let has_more = of("tps").is_none() && others_per_s > per_s && others_ms >= SLOW_MS;
            let beside = match has_more {
                true => format!(", and {others_per_s:.0} {others} {others_ms:.0} ms"),
                false => String::new(),
            };
            let sentence = format!(
                "{disk} is {busy:.0} % busy: {per_s:.0} {what} a second take {ms:.0} ms each{beside}"
            );
            found.add(source, Some(kind), sentence);
        } else if ms >= QUEUE_MS && per_s >= QUEUE_PER_S {
            let sentence = format!(
                "{disk} is {busy:.0} % busy, and yet {per_s:.0} {what} a second take {ms:.0} ms each: they come in bursts, or wait \
                 for storage that others use, too"
            );
            found.add(source, None, sentence);
        }
    }
}

/// The processes or threads of the last list of `top`, or of `ps`, by the names of its columns.
pub(crate) fn processes(text: &str) -> Option<Vec<BTreeMap<&str, &str>>> {
    let is_head = |words: &[&str]| {
        let has_percent = words.contains(&"%CPU") || words.contains(&"WCPU");
        words.first() == Some(&"PID") && has_percent && words.contains(&"COMMAND")
    };
    tables(text, is_head).pop()
}

/// The part of a CPU that a process uses, percent: `%CPU`, and in the BSDs `WCPU`, with its sign behind it.
fn cpu_percent(row: &BTreeMap<&str, &str>) -> Option<f64> {
    let percent = row.get("%CPU").or_else(|| row.get("WCPU"))?;
    amount(&percent.trim_end_matches('%').replace(',', "."))
}

/// `top - 14:02:11 up ...`, `%Cpu(s): 94.2 us,  4.9 sy, ..., 0.6 id, ...`, and a row a process.
fn top(text: &str, found: &mut SystemText) {
    let cpus = cpu_shares::last(text);
    if let Some(Shares { waiting, .. }) = cpus.filter(|shares| shares.waiting >= DISK_PERCENT) {
        let sentence =
            format!("Threads wait for a disk, and the CPUs do nothing else in {waiting:.0} % of the time");
        found.add("top", None, sentence);
    }
    if let Some(Shares { kernel, programs, .. }) = cpus {
        found.add_kernel("top", kernel, programs);
    }
    let Some(rows) = processes(text) else {
        // Who has them the head alone does not say.
        if let Some(Shares { idle, .. }) = cpus.filter(|shares| shares.idle + shares.waiting <= IDLE_PERCENT)
        {
            found.add("top", None, format!("{CPUS_FULL}: {idle:.1} % of their time is idle"));
        }
        return;
    };
    let mut used: BTreeMap<&str, f64> = BTreeMap::new();
    for row in &rows {
        let is_process = row.get("COMMAND").is_some_and(|name| name.parse::<f64>().is_err());
        if let (Some(name), Some(percent)) = (row.get("COMMAND").filter(|_| is_process), cpu_percent(row)) {
            *used.entry(name).or_default() += percent;
        }
    }
    let is_of_threads = busy_threads::is_list(text, &rows);
    let is_server = |name: &str| {
        ["mysqld", "mariadbd"].iter().any(|server| name.trim_start_matches('/').ends_with(server))
            || is_of_threads && busy_threads::is_of_server(name)
    };
    let server: f64 = used.iter().filter(|(name, _)| is_server(name)).map(|(_, percent)| percent).sum();
    let other = used.iter().filter(|(name, _)| !is_server(name)).max_by(|a, b| a.1.total_cmp(b.1));
    let Some(Shares { idle, waiting, .. }) = cpus else {
        // A list without its head; what `ps` prints is of all the time since a process began.
        let is_of_top = rows.iter().any(|row| row.contains_key("TIME+") || row.contains_key("WCPU"));
        if server >= WHOLE_PERCENT && !is_of_threads && is_of_top {
            let sentence = format!(
                "The server uses {:.1} CPUs: top -H -p PID says which of its threads",
                server / 100.0
            );
            found.add("top", None, sentence);
        }
        return;
    };
    if idle + waiting > IDLE_PERCENT {
        // Of a list of threads each that fills a CPU is named.
        if server >= WHOLE_PERCENT && !is_of_threads {
            let sentence = format!(
                "The server uses {:.1} CPUs, and {idle:.1} % of the CPUs are idle: top -H -p PID says which of its threads",
                server / 100.0
            );
            found.add("top", None, sentence);
        }
        return;
    }
    match other {
        Some((name, percent)) if *percent > server => {
            let sentence = format!(
                "{name} uses {:.1} CPUs, the server {:.1}, and {idle:.1} % of the CPUs are idle",
                percent / 100.0,
                server / 100.0
            );
            found.add("top", Some(TroubleKind::CpusTaken), sentence);
        }
        _ if server > 0.0 => {
            let sentence =
                format!("The server uses {:.1} CPUs, and {idle:.1} % of the CPUs are idle", server / 100.0);
            found.add("top", Some(TroubleKind::CpusFull), sentence);
        }
        _ => {}
    }
}

/// `nr_periods 120000`, `nr_throttled 98000`: since the group was made.
fn cpu_stat(text: &str, found: &mut SystemText) {
    let value = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let (Some(periods), Some(throttled)) = (value("nr_periods "), value("nr_throttled ")) else { return };
    let ratio = if periods > 0.0 { throttled / periods } else { 0.0 };
    if ratio >= THROTTLED_RATIO {
        let sentence = format!(
            "The CPU quota stopped the group in {:.0} % of its periods since it was made",
            ratio * 100.0
        );
        found.add("cpu.stat", Some(TroubleKind::Throttled), sentence);
    }
}

/// True for a line with a row of `df`, which may stand without its head: `/dev/sda1  51474044 51474044 0 100% /var/lib/mysql`.
pub(crate) fn is_row_of_df(line: &str) -> bool {
    if !line.contains("% /") {
        return false;
    }
    let is_size =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !word.contains('%');
    let is_percent = |word: &str| word.strip_suffix('%').is_some_and(|digits| digits.parse::<u8>().is_ok());
    let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
    words.windows(6).any(|row| match row {
        [device, sizes @ .., used, mount] => {
            !is_size(device) && sizes.iter().all(is_size) && is_percent(used) && mount.starts_with('/')
        }
        _ => false,
    })
}

/// `/dev/sda1  51474044 51474044 0 100% /var/lib/mysql`: what has no room.
///
/// `Filesystem  Inodes  IUsed  IFree IUse% Mounted on` above it, of `df -i`, counts files and not bytes.
fn full_file_systems(text: &str, found: &mut SystemText) {
    let mut are_inodes = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        if words.first() == Some(&"Filesystem") {
            are_inodes = words.contains(&"Inodes") || words.contains(&"IUse%");
        }
        let Some(used) = words.iter().position(|word| *word == "100%" || *word == "99%") else { continue };
        let Some(mount) = words.get(used + 1).filter(|mount| mount.starts_with('/')) else { continue };
        // Marks of a page may stand behind it.
        let mount = mount.trim_end_matches(['`', '.', ',', '|']);
        // Images that are mounted are always full.
        if mount.starts_with("/snap/") || mount.starts_with("/media/") {
            continue;
        }
        let kind = (words[used] == "100%").then_some(TroubleKind::DiskFull);
        let sentence = match are_inodes {
            true => format!("{mount} has {} of its inodes in use: each file takes one", words[used]),
            false => format!("{mount} is {} full", words[used]),
        };
        found.add("df", kind, sentence);
    }
}

#[cfg(test)]
mod tests;
