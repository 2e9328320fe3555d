//! What tools of the system print: the few numbers of `vmstat`, `iostat -x`, `df`, `top` and `cpu.stat` that a cause rests on.
//!
//! Each tool is known by its head. Of several reports the first is left out where it is a mean since the host's start, as
//! `vmstat` and `iostat` begin with one.

use std::collections::BTreeMap;

use spindoctor_model::{LoggedTrouble, TroubleKind};

use crate::{busy_threads, memory_left, screens, sysstat};

/// Swapped in from this on sessions wait for it: 25 pages a second, KiB/s (vmstat's unit). By judgement.
pub(crate) const SWAPS_IN_KIB_PER_S: f64 = 100.0;
/// Swapped out from this on, KiB/s, the memory that is in use does not fit, whether pages are read again yet or not. By judgement: what the
/// kernel moves out beforehand of what nobody touches is less, and is over soon.
const SWAPS_OUT_KIB_PER_S: f64 = 500.0;
/// Part of the time in which hypervisors give CPUs to others, from which on it is felt, percent. By judgement.
pub(crate) const STEAL_PERCENT: f64 = 10.0;
/// A disk of which nothing is left, percent of the time, and the wait of each request that then shows a queue: a disk that serves
/// many at once is busy all the time and waits for nobody (iostat(1), %util). A flash disk answers in less than a tenth of it.
const BUSY_PERCENT: f64 = 90.0;
const SLOW_MS: f64 = 5.0;
/// CPUs of which so little is idle are full, percent.
pub(crate) const IDLE_PERCENT: f64 = 5.0;
/// CPUs that do nothing because threads wait for a disk, from which on that is worth a sentence, percent. By judgement.
const DISK_PERCENT: f64 = 25.0;
/// Threads that wait for a disk, from which on that is worth a sentence. By judgement.
const BLOCKED: f64 = 4.0;
/// Periods in which the quota stopped the group, from which on it is felt. As cpu-throttled has it.
const THROTTLED_RATIO: f64 = 0.1;
/// Sentences of one tool.
const MOST: usize = 5;
/// Rows of one text that are read: a day of vmstat has 86,400.
pub(crate) const MOST_ROWS: usize = 100_000;

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
}

/// Reads them.
pub(crate) fn read(text: &str) -> SystemText {
    let mut found = SystemText::default();
    full_file_systems(text, &mut found);
    vmstat(text, &mut found);
    iostat(text, &mut found);
    top(text, &mut found);
    cpu_stat(text, &mut found);
    sysstat::read(text, &mut found);
    memory_left::read(text, &mut found);
    busy_threads::read(text, &mut found);
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
        let words: Vec<&str> = line.split_whitespace().collect();
        if is_head(&words) {
            head = words;
            reports.push(Vec::new());
        } else if !line.contains(|c: char| c.is_ascii_digit()) {
            // An empty line, or the head of another table: its rows may have as many columns.
            head.clear();
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

/// The number in a column of a row.
pub(crate) fn number(row: &BTreeMap<&str, &str>, name: &str) -> Option<f64> {
    row.get(name)?.replace(',', ".").parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
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
        let sentence = format!(
            "{:.0} threads wait for a disk, and the CPUs do nothing else in {:.0} % of the time",
            of("b"),
            of("wa")
        );
        found.add("vmstat", None, sentence);
    }
    if mean(rows, "id").is_some_and(|idle| idle + of("wa") <= IDLE_PERCENT) {
        let sentence = format!("The CPUs are full: {:.0} threads run or wait for one", of("r"));
        found.add("vmstat", None, sentence);
    }
}

/// The same with its line ends lost: the names, and behind them the numbers of each row.
fn vmstat_in_one_line(text: &str) -> Vec<BTreeMap<&str, &str>> {
    fn rows(line: &str) -> Option<Vec<BTreeMap<&str, &str>>> {
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = line.split_whitespace().collect();
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

/// `Device  r/s  rkB/s ... r_await ... w/s ... w_await ... %util`; `await` alone before sysstat 10.
fn iostat(text: &str, found: &mut SystemText) {
    let is_head = |words: &[&str]| {
        words.first().is_some_and(|word| word.starts_with("Device")) && words.contains(&"%util")
    };
    let reports = tables(text, is_head);
    let reports = if reports.len() > 1 { &reports[1..] } else { &reports[..] };
    let mut disks: BTreeMap<&str, Vec<BTreeMap<&str, &str>>> = BTreeMap::new();
    for row in reports.iter().flatten() {
        let Some(name) = row.get("Device").or_else(|| row.get("Device:")) else { continue };
        disks.entry(name).or_default().push(row.clone());
    }
    for (name, rows) in disks {
        let of = |column| mean(&rows, column);
        let both = of("await").unwrap_or(0.0);
        let (reads, writes) = (of("r/s").unwrap_or(0.0), of("w/s").unwrap_or(0.0));
        let read_ms = of("r_await").unwrap_or(both);
        let write_ms = of("w_await").unwrap_or(both);
        if of("%util").is_none_or(|busy| busy < BUSY_PERCENT) {
            continue;
        }
        // The side that takes more of the disk's time.
        let is_read = reads * read_ms >= writes * write_ms;
        let (kind, what, per_s, ms) = match is_read {
            true => (TroubleKind::BusyReading, "reads", reads, read_ms),
            false => (TroubleKind::BusyWriting, "writes", writes, write_ms),
        };
        if ms < SLOW_MS {
            continue;
        }
        let busy = of("%util").unwrap_or(0.0).min(100.0);
        let sentence =
            format!("The disk {name} is {busy:.0} % busy: {per_s:.0} {what} a second take {ms:.0} ms each");
        found.add("iostat", Some(kind), sentence);
    }
}

/// `%Cpu(s): 94.2 us,  4.9 sy,  0.0 ni,  0.6 id,  0.1 wa, ...`, and before procps 3.3 `Cpu(s): 94.2%us, ...`: the percent in which
/// CPUs do nothing, and the percent in which they do nothing but wait for a disk.
fn idle_percent(line: &str) -> Option<(f64, f64)> {
    let (_, shares) = line.split_once("Cpu(s):")?;
    let shares = with_points(shares);
    let words: Vec<&str> = shares.split([',', ' ', '%']).filter(|word| !word.is_empty()).collect();
    let of = |name: &str| -> Option<f64> {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    Some((of("id")?, of("wa").unwrap_or(0.0)))
}

/// A text with points in its numbers where they have decimal commas: `54,2 us,  4,9 sy`.
fn with_points(text: &str) -> String {
    let mut letters = text.chars().peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        let is_within =
            plain.ends_with(|c: char| c.is_ascii_digit()) && letters.peek().is_some_and(char::is_ascii_digit);
        plain.push(if letter == ',' && is_within { '.' } else { letter });
    }
    plain
}

/// The processes or threads of the last list of `top`, or of `ps`, by the names of its columns.
pub(crate) fn processes(text: &str) -> Option<Vec<BTreeMap<&str, &str>>> {
    let is_head = |words: &[&str]| {
        words.first() == Some(&"PID") && words.contains(&"%CPU") && words.contains(&"COMMAND")
    };
    tables(text, is_head).pop()
}

/// `top - 14:02:11 up ...`, `%Cpu(s): 94.2 us,  4.9 sy, ..., 0.6 id, ...`, and a row a process.
fn top(text: &str, found: &mut SystemText) {
    let cpus = text.lines().filter_map(idle_percent).next_back();
    if let Some((_, waiting)) = cpus.filter(|(_, waiting)| *waiting >= DISK_PERCENT) {
        let sentence =
            format!("Threads wait for a disk, and the CPUs do nothing else in {waiting:.0} % of the time");
        found.add("top", None, sentence);
    }
    let Some(rows) = processes(text) else { return };
    let mut used: BTreeMap<&str, f64> = BTreeMap::new();
    for row in &rows {
        let is_process = row.get("COMMAND").is_some_and(|name| name.parse::<f64>().is_err());
        if let (Some(name), Some(percent)) = (row.get("COMMAND").filter(|_| is_process), number(row, "%CPU"))
        {
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
    let Some((idle, _)) = cpus.filter(|(idle, waiting)| idle + waiting <= IDLE_PERCENT) else { return };
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

/// `/dev/sda1  51474044 51474044 0 100% /var/lib/mysql`: what has no room.
fn full_file_systems(text: &str, found: &mut SystemText) {
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(used) = words.iter().position(|word| *word == "100%" || *word == "99%") else { continue };
        let Some(mount) = words.get(used + 1).filter(|mount| mount.starts_with('/')) else { continue };
        // Images that are mounted are always full.
        if mount.starts_with("/snap/") || mount.starts_with("/media/") {
            continue;
        }
        let kind = (words[used] == "100%").then_some(TroubleKind::DiskFull);
        found.add("df", kind, format!("{mount} is {} full", words[used]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TroubleKind> {
        read(text).troubles.iter().map(|trouble| trouble.kind).collect()
    }

    #[test]
    fn of_a_table_without_end_the_first_rows_are_read() {
        let text = format!("r b swpd\n{}", "1 2 3\n".repeat(MOST_ROWS + 9));
        let reports = tables(&text, |words| words.starts_with(&["r", "b", "swpd"]));
        assert_eq!(reports.iter().map(Vec::len).sum::<usize>(), MOST_ROWS);
    }

    const VMSTAT: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  1 812345  23456   1234 234567    1    2   234   345  900 2200  5  4 89  2  0
 1 17 813345  20456   1234 234567  912 1304 21456 31567 9000 22000  4  4  1 91  0
 3 15 814345  21456   1234 234567 1012 1104 20456 32567 9000 22000  5  3  1 91  0
";

    #[test]
    fn a_host_that_swaps_says_so_and_its_mean_since_the_start_is_left_out() {
        let found = read(VMSTAT);
        assert_eq!(
            found.says,
            [
                "The host swaps: 962 KiB/s in, 1204 KiB/s out",
                "16 threads wait for a disk, and the CPUs do nothing else in 91 % of the time"
            ]
        );
        assert_eq!(kinds(VMSTAT), [TroubleKind::Swapping]);
        let calm: String = VMSTAT.lines().take(3).map(|line| format!("{line}\n")).collect();
        assert_eq!(read(&calm), SystemText::default());
        let steal = calm.replace("5  4 89  2  0", "5  4 59  2 30");
        assert_eq!(kinds(&steal), [TroubleKind::CpusTaken]);
        // Pages that are written out for others, before many are read again.
        let out = VMSTAT.replace(" 912 1304", "  12 1304").replace("1012 1104", "  40  904");
        assert_eq!(kinds(&out), [TroubleKind::Swapping]);
        let beforehand = out.replace("  12 1304", "   0 1304").replace("  40  904", "   0  904");
        assert_eq!(kinds(&beforehand), []);
        let little = out.replace("1304", "  30").replace("  904", "   40");
        assert_eq!(kinds(&little), []);
        // All in one line, as a form on a page makes it.
        assert_eq!(read(&VMSTAT.replace('\n', " ")).says, found.says);
    }

    #[test]
    fn a_disk_that_is_full_of_requests_is_named_with_what_it_does() {
        let report = |reads: &str, writes: &str, util: &str| {
            format!(
                "Device            r/s     rkB/s r_await     w/s     wkB/s w_await  aqu-sz  %util\n\
                 sda            {reads}  12992.00 18.20  {writes}   3264.00   42.10   19.10 {util}\n\
                 sdb              0.00      0.00    0.00    1.00      4.00    0.10    0.00   0.20\n\n"
            )
        };
        let found = read(&report("812.00", "102.00", "100.00"));
        assert_eq!(found.says, ["The disk sda is 100 % busy: 812 reads a second take 18 ms each"]);
        assert_eq!(kinds(&report("8.00", "102.00", "100.00")), [TroubleKind::BusyWriting]);
        assert_eq!(kinds(&report("812.00", "102.00", "40.00")), []);
        // The first report is of all time.
        assert_eq!(
            kinds(&format!("{}{}", report("812.00", "2.00", "99.00"), report("8.00", "1.00", "10.00"))),
            []
        );
        let old = "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await  svctm  %util\n\
                   xvdf              0.00     4.00  900.00   20.00 14400.00   320.00    32.00    12.10   13.00   1.09 100.00\n";
        assert_eq!(kinds(old), [TroubleKind::BusyReading]);
    }

    #[test]
    fn who_has_full_cpus_is_the_server_or_somebody_else() {
        let top = |others: &str, idle: &str| {
            format!(
                "top - 14:02:11 up 210 days,  3:12,  2 users,  load average: 92.10, 70.33, 40.02\n\
                 %Cpu(s): 94.2 us,  4.9 sy,  0.0 ni,  {idle} id,  0.1 wa,  0.0 hi,  0.2 si,  0.0 st\n\n\
                 \x20   PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n\
                 \x20  2211 mysql     20   0   70.1g  55.2g  11232 S 152.0  88.0  99123:12 mysqld\n\
                 \x20  9912 root      20   0  110232   9012   2012 R {others}   0.0   0:01.12 xz\n"
            )
        };
        assert_eq!(
            read(&top("3.2", "0.6")).says,
            ["The server uses 1.5 CPUs, and 0.6 % of the CPUs are idle"]
        );
        assert_eq!(kinds(&top("1402.0", "0.6")), [TroubleKind::CpusTaken]);
        assert_eq!(kinds(&top("1402.0", "40.0")), []);
        // In a language that writes a comma in its numbers.
        let comma = |text: String| {
            text.replace(" 94.2 us,  4.9 sy", " 94,2 us,  4,9 sy")
                .replace("0.6 id", "0,6 id")
                .replace("152.0", "152,0")
        };
        assert_eq!(
            read(&comma(top("3,2", "0.6"))).says,
            ["The server uses 1.5 CPUs, and 0.6 % of the CPUs are idle"]
        );
    }

    #[test]
    fn numbers_of_another_tool_below_a_list_of_processes_are_no_process() {
        let top = "%Cpu(s):  3.1 us,  1.9 sy,  0.0 ni,  5.0 id, 89.9 wa,  0.0 hi,  0.1 si,  0.0 st\n\n  \
                   PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n \
                   2211 mysql     20   0   38.1g  28.9g   4112 S  12.0 92.5   9912:11 mysqld\n";
        let found = read(&format!("{top}{VMSTAT}"));
        assert_eq!(
            found.says,
            [
                "The host swaps: 962 KiB/s in, 1204 KiB/s out",
                "16 threads wait for a disk, and the CPUs do nothing else in 91 % of the time",
                "Threads wait for a disk, and the CPUs do nothing else in 90 % of the time"
            ]
        );
        // CPUs that wait for a disk are not full, even where another program uses what is left.
        let other = top.replace("mysqld", "rsync");
        assert_eq!(kinds(&other), []);
        assert_eq!(kinds(&other.replace("89.9 wa", "0.0 wa")), [TroubleKind::CpusTaken]);
    }

    #[test]
    fn what_a_quota_stopped_and_what_is_full_is_said() {
        assert_eq!(
            kinds("nr_periods 120000\nnr_throttled 98000\nthrottled_time 82123\n"),
            [TroubleKind::Throttled]
        );
        assert_eq!(kinds("nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"), []);
        let df = "Filesystem      Size  Used Avail Use% Mounted on\n/dev/sda1       100G   99G     0 100% /\n\
                  /dev/loop1       64M   64M     0 100% /snap/core/1\n/dev/sdb1       100G   98G    1G  99% /data\n";
        assert_eq!(read(df).says, ["/ is 100% full", "/data is 99% full"]);
        assert_eq!(kinds(df), [TroubleKind::DiskFull]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)(r b swpd si us id\n|Device %util r/s\n|PID %CPU COMMAND\n|Cpu\\(s\\): |[0-9., \n]|.){0,80}") {
            read(&text);
        }
    }
}
