//! What `mpstat`, `sar -u`, `iostat`, `pidstat -u` and `dstat` print of the CPUs, and the JSON of sysstat: the few numbers that a cause rests on.

use std::collections::BTreeMap;

use spindoctor_model::TroubleKind;

use crate::amounts::bytes;
use crate::busy_threads::{self, Row};
use crate::json;
use crate::system::{
    IDLE_PERCENT, MOST_ROWS, MOST_WORDS, STEAL_PERCENT, SWAPS_IN_KIB_PER_S, SystemText, mean, number, tables,
};

/// Time in which CPUs wait for a disk and have nothing else to do, percent, from which on that is worth a sentence. By judgement.
const WAIT_PERCENT: f64 = 30.0;
/// Time of one CPU in interrupts, from which on it has none left for more, where the CPUs together have, percent. By judgement.
const INTERRUPTS_PERCENT: f64 = 80.0;
const LEFT_PERCENT: f64 = 20.0;
/// The programs of `pidstat` that have some of the CPUs, at the least: percent of one.
const BUSY_PERCENT: f64 = 10.0;

/// Reads them.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    shares(text, found);
    processes(text, found);
    threads(text, found);
    dstat(text, found);
}

/// True for the names of the columns of `dstat`, and of its successor `pcp dstat`.
pub(crate) fn is_of_dstat(line: &str) -> bool {
    line.split('|').any(is_shares_of_dstat)
}

/// `usr sys idl wai hiq siq`, and in newer versions `usr sys idl wai stl`: the shares of the CPUs' time, of whole ones together.
fn is_shares_of_dstat(names: &str) -> bool {
    names.split_whitespace().take(4).eq(["usr", "sys", "idl", "wai"])
}

/// The words of a line of `dstat`, group by group.
fn groups_of_dstat(line: &str) -> Vec<Vec<&str>> {
    let groups = line.split('|').take(MOST_WORDS);
    groups.map(|group| group.split_whitespace().take(MOST_WORDS).collect()).collect()
}

/// A row of `dstat` by the names above it. Columns stand in groups between bars.
///
/// ```text
/// ----total-cpu-usage---- -dsk/total- -net/total- ---paging-- ---system--
/// usr sys idl wai hiq siq| read  writ| recv  send|  in   out | int   csw
///   2   1  96   0   0   0| 165k 1183k|   0     0 | 900k    0 |2665  4578
/// ```
fn row_of_dstat<'t>(names: &[Vec<&'t str>], line: &'t str) -> Option<BTreeMap<&'t str, &'t str>> {
    let groups = groups_of_dstat(line);
    if groups.len() != names.len() {
        return None;
    }
    // A time has two words below one name.
    let whole = names.iter().zip(&groups).filter(|(names, cells)| names.len() == cells.len());
    let cells = whole.flat_map(|(names, cells)| names.iter().copied().zip(cells.iter().copied()));
    let row: BTreeMap<&str, &str> = cells.collect();
    number(&row, "idl").is_some().then_some(row)
}

/// The means of all rows but the first, which is of all the time since the start where there are several.
fn dstat(text: &str, found: &mut SystemText) {
    let mut names: Vec<Vec<&str>> = Vec::new();
    let mut rows: Vec<BTreeMap<&str, &str>> = Vec::new();
    for line in text.lines() {
        if is_of_dstat(line) {
            names = groups_of_dstat(line);
        } else if !names.is_empty() && rows.len() < MOST_ROWS {
            rows.extend(row_of_dstat(&names, line));
        }
    }
    let rows = if rows.len() > 1 { &rows[1..] } else { &rows[..] };
    add_shares("dstat", [mean(rows, "stl"), mean(rows, "wai"), mean(rows, "idl")], found);
    let kib_per_s = |name: &str| {
        let all: Vec<f64> = rows.iter().filter_map(|row| bytes(row.get(name)?)).collect();
        all.iter().sum::<f64>() / 1024.0 / (all.len().max(1) as f64)
    };
    let (read_in, written_out) = (kib_per_s("in"), kib_per_s("out"));
    if read_in >= SWAPS_IN_KIB_PER_S {
        let sentence = format!("The host swaps: {read_in:.0} KiB/s in, {written_out:.0} KiB/s out");
        found.add("dstat", Some(TroubleKind::Swapping), sentence);
    }
}

/// Adds what three shares of the CPUs' time say, percent: what hypervisors give to others, what is spent waiting for a disk, what is idle.
fn add_shares(source: &str, [steal, wait, idle]: [Option<f64>; 3], found: &mut SystemText) {
    let wait = wait.unwrap_or(0.0);
    if let Some(steal) = steal.filter(|steal| *steal >= STEAL_PERCENT) {
        let sentence = format!("Other virtual machines have {steal:.0} % of this one's CPUs (steal)");
        found.add(source, Some(TroubleKind::CpusTaken), sentence);
    }
    if wait >= WAIT_PERCENT {
        let sentence = format!("The CPUs wait for a disk, and do nothing else, in {wait:.0} % of the time");
        found.add(source, None, sentence);
    }
    if let Some(idle) = idle.filter(|idle| idle + wait <= IDLE_PERCENT) {
        found.add(source, None, format!("The CPUs are full: {idle:.1} % of their time is idle"));
    }
}

/// `10:11:12     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle`, with `all` below `CPU`; sar
/// has `%user` and `%system`, iostat neither the time nor the CPU.
fn shares(text: &str, found: &mut SystemText) {
    let is_head = |words: &[&str]| words.contains(&"CPU") && words.contains(&"%idle");
    let of_each: Vec<BTreeMap<&str, &str>> = tables(text, is_head).into_iter().flatten().collect();
    let mut rows: Vec<BTreeMap<&str, &str>> =
        of_each.iter().filter(|row| row.get("CPU") == Some(&"all")).cloned().collect();
    let source = match rows.first() {
        Some(row) if row.contains_key("%user") => "sar",
        Some(_) => "mpstat",
        None => "iostat",
    };
    if rows.is_empty() {
        rows = of_iostat(text);
        // The first report of iostat is of all the time since the start.
        rows.drain(..usize::from(rows.len() > 1));
    }
    let of = |name| mean(&rows, name).unwrap_or(0.0);
    // sar and iostat have the longer names.
    found.add_kernel(source, of("%sys").max(of("%system")), of("%usr").max(of("%user")));
    add_shares(source, ["%steal", "%iowait", "%idle"].map(|name| mean(&rows, name)), found);
    if of("%idle") >= LEFT_PERCENT {
        one_with_interrupts(source, of_each, of("%idle"), found);
    }
}

/// Says which CPU has most of its time in interrupts, where the others have time left.
fn one_with_interrupts(source: &str, of_each: Vec<BTreeMap<&str, &str>>, idle: f64, found: &mut SystemText) {
    let mut cpus: BTreeMap<u32, Vec<BTreeMap<&str, &str>>> = BTreeMap::new();
    for row in of_each {
        if let Some(cpu) = row.get("CPU").and_then(|cpu| cpu.parse().ok()) {
            cpus.entry(cpu).or_default().push(row);
        }
    }
    let interrupts = |rows: &[BTreeMap<&str, &str>]| {
        mean(rows, "%irq").unwrap_or(0.0) + mean(rows, "%soft").unwrap_or(0.0)
    };
    let busiest = cpus
        .iter()
        .map(|(cpu, rows)| (cpu, interrupts(rows)))
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .filter(|(_, percent)| *percent >= INTERRUPTS_PERCENT);
    if let Some((cpu, percent)) = busiest {
        let sentence = format!(
            "The CPU {cpu} is in interrupts in {percent:.0} % of its time (%irq, %soft), and {idle:.0} % of all CPUs are idle: packets wait \
             for that one. irqbalance, more queues of the network card (ethtool -L) or RPS spread them"
        );
        found.add(source, None, sentence);
    }
}

/// `avg-cpu:  %user   %nice %system %iowait  %steal   %idle`, and the numbers in the line below it.
fn of_iostat(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut rows = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next().filter(|_| rows.len() < MOST_ROWS) {
        let Some(names) = line.trim_start().strip_prefix("avg-cpu:") else { continue };
        let values = lines.next().unwrap_or_default();
        rows.push(names.split_whitespace().zip(values.split_whitespace()).take(MOST_WORDS).collect());
    }
    rows
}

/// `10:11:12      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command`: who uses the CPUs, in the last report, which is
/// the mean where there is one. Of chosen processes (`-p 4711`) the names stand once, above the rows of all intervals. How many CPUs there
/// are the first line says: `Linux 5.15.0 (db1)  03/04/23  _x86_64_  (16 CPU)`.
fn processes(text: &str, found: &mut SystemText) {
    let is_head =
        |words: &[&str]| words.contains(&"PID") && words.contains(&"%CPU") && words.contains(&"Command");
    let Some(rows) = tables(text, is_head).pop() else { return };
    // The rows of each process, and the percent of one CPU in all of them.
    let mut used: BTreeMap<(&str, &str), (u32, f64)> = BTreeMap::new();
    for row in &rows {
        if let (Some(name), Some(pid), Some(percent)) =
            (row.get("Command"), row.get("PID"), number(row, "%CPU"))
        {
            let (times, sum) = used.entry((name.trim_start_matches(['|', '_']), *pid)).or_default();
            *times += 1;
            *sum += percent;
        }
    }
    let intervals = f64::from(used.values().map(|(times, _)| *times).max().unwrap_or(1));
    let is_server = |name: &str| ["mysqld", "mariadbd"].iter().any(|server| name.ends_with(server));
    let mut servers: Vec<(f64, &str)> = Vec::new();
    let mut programs: BTreeMap<&str, f64> = BTreeMap::new();
    for ((name, pid), (_, sum)) in used {
        match is_server(name) {
            true => servers.push((sum / intervals, pid)),
            false => *programs.entry(name).or_default() += sum / intervals,
        }
    }
    servers.sort_by(|one, other| other.0.total_cmp(&one.0));
    let server: f64 = servers.iter().map(|(percent, _)| percent).sum();
    let others: f64 = programs.values().sum();
    let beside = programs
        .iter()
        .max_by(|one, other| one.1.total_cmp(other.1))
        .filter(|(_, percent)| **percent >= BUSY_PERCENT)
        .map_or_else(String::new, |(name, percent)| format!(", {name} {:.1}", percent / 100.0));
    if server < BUSY_PERCENT && beside.is_empty() {
        return;
    }
    let cpus = text.lines().find_map(cpus);
    let is_full = cpus.is_some_and(|cpus| server + others >= cpus * (100.0 - IDLE_PERCENT));
    let of = cpus.map_or_else(|| " CPUs".to_owned(), |cpus| format!(" of {cpus:.0} CPUs"));
    let sentence = match servers[..] {
        [(most, pid), _, ..] => format!(
            "{} servers use {:.1}{of}, the process {pid} alone {:.1}{beside}",
            servers.len(),
            server / 100.0,
            most / 100.0
        ),
        _ => format!("The server uses {:.1}{of}{beside}", server / 100.0),
    };
    let kind =
        is_full.then_some(if others > server { TroubleKind::CpusTaken } else { TroubleKind::CpusFull });
    found.add("pidstat", kind, sentence);
}

/// `10:11:12      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command`, of `pidstat -t`: which threads of a server
/// fill a CPU each, in the last report. The row of a process has no thread's number, and the names of threads have `|__` in front.
fn threads(text: &str, found: &mut SystemText) {
    let is_head =
        |words: &[&str]| words.contains(&"TID") && words.contains(&"%CPU") && words.contains(&"Command");
    let Some(rows) = tables(text, is_head).pop() else { return };
    let mut of_threads: BTreeMap<&str, (f64, f64, &Row<'_>)> = BTreeMap::new();
    for row in &rows {
        let id = row.get("TID").copied().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
        if let (Some(id), Some(percent)) = (id, number(row, "%CPU")) {
            let (times, sum, _) = of_threads.entry(id).or_insert((0.0, 0.0, row));
            *times += 1.0;
            *sum += percent;
        }
    }
    let used: Vec<(&str, f64, &Row<'_>)> = of_threads
        .into_values()
        .filter_map(|(times, sum, row)| {
            Some((row.get("Command")?.trim_start_matches(['|', '_']), sum / times, row))
        })
        .collect();
    busy_threads::full_connections(&used, found);
}

/// `(16 CPU)` of the first line.
fn cpus(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once('(').filter(|_| line.starts_with("Linux "))?;
    let count = rest.rsplit('(').next()?.strip_suffix(" CPU)")?;
    count.parse().ok().filter(|cpus: &u32| *cpus > 0).map(f64::from)
}

/// The JSON of `iostat -o JSON` and `mpstat -o JSON` as the text that they print without it.
pub(crate) fn from_json(text: &str) -> Option<String> {
    let trimmed = text.trim_start();
    if !trimmed.starts_with('{') || !trimmed[..trimmed.floor_char_boundary(200)].contains("\"sysstat\"") {
        return None;
    }
    if !json::has_few_values(trimmed) {
        return None;
    }
    let value: serde_json::Value = serde_json::from_str(trimmed).ok()?;
    let hosts = value.get("sysstat")?.get("hosts")?.as_array()?;
    let mut printed = String::new();
    for statistics in hosts.iter().filter_map(|host| host.get("statistics")?.as_array()).flatten() {
        let rows = |name: &str| statistics.get(name).and_then(serde_json::Value::as_array);
        if let Some(shares) = statistics.get("avg-cpu").and_then(serde_json::Value::as_object) {
            let (names, values) = columns(shares, |name| format!("%{name}"));
            printed.push_str(&format!("avg-cpu: {names}\n{values}\n\n"));
        }
        for list in rows("disk").into_iter().chain(rows("cpu-load")) {
            // The names once for all rows of a report: where they come again another one begins.
            let mut above = String::new();
            for row in list.iter().filter_map(serde_json::Value::as_object) {
                let (names, values) = columns(row, named);
                if names != above {
                    printed.push_str(&format!("{names}\n"));
                    above = names;
                }
                printed.push_str(&format!("{values}\n"));
            }
            printed.push('\n');
        }
    }
    Some(printed)
}

/// How the text names what the JSON does.
fn named(name: &str) -> String {
    match name {
        "disk_device" => "Device".to_owned(),
        "cpu" => "CPU".to_owned(),
        // A name with a stroke is a rate.
        "util" | "usr" | "nice" | "sys" | "iowait" | "irq" | "soft" | "steal" | "guest" | "gnice"
        | "idle" => {
            format!("%{name}")
        }
        other => other.to_owned(),
    }
}

/// The names and the values of an object, each in a line; that with the name of a thing stands first.
fn columns(
    object: &serde_json::Map<String, serde_json::Value>,
    named: impl Fn(&str) -> String,
) -> (String, String) {
    let is_thing = |name: &str| matches!(name, "disk_device" | "cpu");
    let mut cells: Vec<(&String, String)> = object
        .iter()
        .filter_map(|(name, value)| match value {
            serde_json::Value::String(text) => Some((name, text.clone())),
            serde_json::Value::Number(number) => Some((name, number.to_string())),
            _ => None,
        })
        .filter(|(_, value)| !value.is_empty() && !value.contains(char::is_whitespace))
        .collect();
    cells.sort_by_key(|(name, _)| !is_thing(name));
    let names: Vec<String> = cells.iter().map(|(name, _)| named(name)).collect();
    let values: Vec<&str> = cells.iter().map(|(_, value)| value.as_str()).collect();
    (names.join(" "), values.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system;

    fn says(text: &str) -> Vec<String> {
        system::read(text).says
    }

    fn kinds(text: &str) -> Vec<TroubleKind> {
        system::read(text).troubles.iter().map(|trouble| trouble.kind).collect()
    }

    #[test]
    fn of_the_threads_of_pidstat_those_that_fill_a_cpu_are_named() {
        let report = |first: &str, second: &str| {
            format!(
                "10:11:12      UID      TGID       TID    %usr %system  %guest    %CPU   CPU  Command\n\
                 10:11:13      112      4711         -  104.00    2.00    0.00  106.00     3  mysqld\n[...]\n\
                 10:11:13      112         -      4790   {first}    1.00    0.00   {first}     9  |__mysqld\n\
                 10:11:13      112         -      4791    {second}    0.00    0.00    {second}     4  |__mysqld\n"
            )
        };
        let says_of = |id: u32| {
            format!(
                "The thread {id} fills a CPU: SELECT NAME, PROCESSLIST_ID, PROCESSLIST_INFO FROM performance_schema.threads WHERE \
                 THREAD_OS_ID IN ({id}) says what runs there"
            )
        };
        assert_eq!(says(&report("94.00", "5.00")), [says_of(4790)]);
        assert_eq!(says(&report("44.00", "5.00")), Vec::<String>::new());
        // The last report counts.
        assert_eq!(
            says(&format!("{}\n{}", report("94.00", "5.00"), report("4.00", "96.00"))),
            [says_of(4791)]
        );
    }

    #[test]
    fn a_cpu_that_has_all_the_interrupts_is_said_where_others_are_idle() {
        let mpstat = |soft: &str, idle: &str| {
            format!(
                "10:11:12     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n\
                 10:11:13     all   12.00    0.00    3.00    0.00    0.00   25.00    0.00    0.00    0.00   {idle}\n\
                 10:11:13       0    1.00    0.00    1.00    0.00    0.00   {soft}    0.00    0.00    0.00    0.00\n\
                 10:11:13       1   16.00    0.00    4.00    0.00    0.00    1.00    0.00    0.00    0.00   79.00\n"
            )
        };
        let said = says(&mpstat("98.00", "60.00"));
        assert!(
            said.len() == 1 && said[0].starts_with("The CPU 0 is in interrupts in 98 % of its time"),
            "{said:?}"
        );
        assert_eq!(says(&mpstat("28.00", "60.00")), Vec::<String>::new());
        assert_eq!(says(&mpstat("98.00", "10.00")), Vec::<String>::new());
    }

    #[test]
    fn what_hypervisors_and_disks_take_of_the_cpus_is_said() {
        let mpstat = |steal: &str, wait: &str, idle: &str| {
            format!(
                "10:11:12     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n\
                 10:11:13     all   12.00    0.00    3.00  {wait}    0.00    0.00   {steal}    0.00    0.00   {idle}\n\
                 10:11:13       0   99.00    0.00    1.00    0.00    0.00    0.00   99.00    0.00    0.00    0.00\n"
            )
        };
        let steal = mpstat("61.00", "2.00", "22.00");
        assert_eq!(says(&steal), ["Other virtual machines have 61 % of this one's CPUs (steal)"]);
        assert_eq!(kinds(&steal), [TroubleKind::CpusTaken]);
        let wait = mpstat("0.00", "71.00", "14.00");
        assert_eq!(says(&wait), ["The CPUs wait for a disk, and do nothing else, in 71 % of the time"]);
        assert_eq!(kinds(&wait), []);
        assert_eq!(says(&mpstat("0.00", "2.00", "83.00")), Vec::<String>::new());
        let full = mpstat("0.00", "0.00", "1.50");
        assert_eq!(says(&full), ["The CPUs are full: 1.5 % of their time is idle"]);
        let sar = "10:10:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                   10:11:01 AM     all      4.11      0.00      2.10     71.20      0.00     22.59\n\
                   Average:        all      4.11      0.00      2.10     71.20      0.00     22.59\n";
        assert_eq!(says(sar), ["The CPUs wait for a disk, and do nothing else, in 71 % of the time"]);
        let iostat = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           6.21    0.00    2.11    1.20   40.00   50.48\n";
        assert_eq!(kinds(iostat), [TroubleKind::CpusTaken]);
    }

    #[test]
    fn who_uses_the_cpus_by_pidstat_is_the_server_or_somebody_else() {
        let pidstat = |server: &str, other: &str| {
            format!(
                "Linux 5.15.0-91-generic (db1) \t03/04/23 \t_x86_64_\t(16 CPU)\n\n\
                 10:11:12      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n\
                 10:11:13      112      4711 {server}  112.00    0.00    3.00 {server}     4  mysqld\n\
                 10:11:13        0      9123   60.00    2.00    0.00    0.00  {other}     5  java\n"
            )
        };
        assert_eq!(says(&pidstat("1532.00", "62.00")), ["The server uses 15.3 of 16 CPUs, java 0.6"]);
        assert_eq!(kinds(&pidstat("1532.00", "62.00")), [TroubleKind::CpusFull]);
        assert_eq!(kinds(&pidstat("32.00", "1562.00")), [TroubleKind::CpusTaken]);
        assert_eq!(kinds(&pidstat("32.00", "62.00")), []);
    }

    #[test]
    fn the_groups_of_dstat_are_read_with_a_time_before_them_and_without() {
        let row = |cpu: &str, paging: &str| format!("{cpu}| 165k 1183k|   0     0 |{paging}|2665  4578 \n");
        let dstat = |names: &str, cpu: &str, paging: &str| {
            format!(
                "----total-cpu-usage---- -dsk/total- -net/total- ---paging-- ---system--\n\
                 {names}| read  writ| recv  send|  in   out | int   csw \n{}{}{}",
                row("  9  90   0   1   0   0", "  99M    0 "),
                row(cpu, paging),
                row(cpu, paging)
            )
        };
        let old = "usr sys idl wai hiq siq";
        let calm = dstat(old, "  2   1  96   1   0   0", "   0     0 ");
        assert_eq!(says(&calm), Vec::<String>::new());
        let parts = crate::recognise("x", &calm);
        assert_eq!(
            parts.iter().map(|part| part.kind).collect::<Vec<_>>(),
            [crate::Kind::System],
            "{parts:#?}"
        );
        let wait = dstat(old, "  2   1  16  81   0   0", "   0     0 ");
        assert_eq!(says(&wait), ["The CPUs wait for a disk, and do nothing else, in 81 % of the time"]);
        let full = dstat(old, " 90   9   1   0   0   0", "   0     0 ");
        assert_eq!(says(&full), ["The CPUs are full: 1.0 % of their time is idle"]);
        let swaps = dstat(old, "  2   1  96   1   0   0", " 900k  2048k");
        assert_eq!(says(&swaps), ["The host swaps: 900 KiB/s in, 2048 KiB/s out"]);
        assert_eq!(kinds(&swaps), [TroubleKind::Swapping]);
        let steal = dstat("usr sys idl wai stl hiq", " 22  10   8   0  60   0", "   0     0 ");
        assert_eq!(kinds(&steal), [TroubleKind::CpusTaken]);
        let timed =
            steal.replace("usr sys", "     time     |usr sys").replace(" 22  10 ", "12-05 14:30:01| 22  10 ");
        assert_eq!(kinds(&timed), [TroubleKind::CpusTaken], "{timed}");
    }

    #[test]
    fn servers_of_one_host_are_distinguished_by_their_processes() {
        let head = "10:11:12      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n";
        let row = |pid: u32, percent: &str| {
            format!("10:11:13      112      {pid} {percent}  1.00    0.00    3.00 {percent}     4  mysqld\n")
        };
        let one = format!("{head}{}", row(4711, "104.00"));
        assert_eq!(says(&one), ["The server uses 1.0 CPUs"]);
        let two = format!("{head}{}{}", row(4711, "104.00"), row(4712, "210.00"));
        assert_eq!(says(&two), ["2 servers use 3.1 CPUs, the process 4712 alone 2.1"]);
    }

    #[test]
    fn a_process_that_was_chosen_has_its_names_once_above_all_its_rows() {
        let head = "Linux 5.15.0 (db1) \t03/04/23 \t_x86_64_\t(4 CPU)\n\n\
                    10:11:12      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n";
        let row = |second: u32, percent: u32| {
            format!("10:11:{second}  112  4711 {percent}.00  1.00  0.00  3.00 {percent}.00  4  mysqld\n")
        };
        let rows: String =
            (13..33).map(|second| row(second, if second % 2 == 0 { 90 } else { 110 })).collect();
        assert_eq!(says(&format!("{head}{rows}")), ["The server uses 1.0 of 4 CPUs"]);
        assert_eq!(kinds(&format!("{head}{rows}")), []);
    }

    #[test]
    fn what_says_so_is_named() {
        let source = |text: &str| system::read(text).troubles[0].source.clone();
        let steal = "10:10:01     CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                     10:11:01     all      4.11      0.00      2.10      1.20     70.00     22.59\n";
        assert_eq!(source(steal), "sar");
        assert_eq!(source(&steal.replace("%user  ", "%usr   ")), "mpstat");
        let iostat = steal.replace("10:10:01     CPU", "avg-cpu:").replace("10:11:01     all", "        ");
        assert_eq!(source(&iostat), "iostat");
    }

    #[test]
    fn lines_without_end_are_read_at_their_beginning() {
        let bars = "|".repeat(1_000_000);
        let text = format!("usr sys idl wai{bars}\n 2 1 96 1{bars}\n");
        assert_eq!(groups_of_dstat(text.lines().next().unwrap()).len(), MOST_WORDS);
        assert_eq!(says(&text), Vec::<String>::new());
        let words = "7 ".repeat(1_000_000);
        assert_eq!(of_iostat(&format!("avg-cpu: {words}\n{words}\n")).len(), 1);
        assert_eq!(of_iostat(&"avg-cpu: %idle\n7\n".repeat(MOST_ROWS + 9)).len(), MOST_ROWS);
    }

    #[test]
    fn the_json_of_sysstat_says_what_its_text_does() {
        let disk = |busy: &str| {
            format!(
                "{{\"avg-cpu\": {{\"user\": 6.21, \"iowait\": 1.0, \"steal\": 0.0, \"idle\": 90.0}}, \"disk\": [{{\"disk_device\": \
                 \"sda\", \"r/s\": 812.0, \"w/s\": 2.0, \"r_await\": 18.2, \"w_await\": 1.1, \"util\": {busy}}}, {{\"disk_device\": \"sdb\", \"r/s\": 1.0, \"w/s\": 2.0, \"r_await\": 0.2, \
                 \"w_await\": 1.1, \"util\": 1.0}}]}}"
            )
        };
        let json = |statistics: &str| {
            format!(
                "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"db1\", \"statistics\": [{statistics}]}}]}}}}"
            )
        };
        let busy = from_json(&json(&disk("100.0"))).unwrap();
        assert_eq!(busy.matches("Device").count(), 1, "{busy}");
        assert_eq!(kinds(&busy), [TroubleKind::BusyReading], "{busy}");
        // The first report is of all time.
        let calm = from_json(&json(&format!("{},{}", disk("100.0"), disk("3.0")))).unwrap();
        assert_eq!(kinds(&calm), [], "{calm}");
        let load = "{\"timestamp\": \"10:11:12\", \"cpu-load\": [{\"cpu\": \"all\", \"usr\": 5.0, \"iowait\": 1.0, \"steal\": 61.0, \"idle\": 22.0}]}";
        let taken = from_json(&json(load)).unwrap();
        assert_eq!(kinds(&taken), [TroubleKind::CpusTaken], "{taken}");
        for text in ["{}", "{\"sysstat\": 7}", "{\"sysstat\": {\"hosts\": []", "sysstat"] {
            assert_eq!(from_json(text), None, "{text}");
        }
    }
}
