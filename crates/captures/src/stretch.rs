//! A text to stretches of lines that belong together: where each document begins and ends, by content alone.

use crate::rows::{header_of, is_border, row_number};
use crate::{
    advisors, atop, client_errors, clock, cloudwatch, container_states, containers, cpu_counters,
    deadlock_rows, deleted_files, dump_slow, heartbeat, iotop, kernel_waits, latency_bars, load_tests,
    log_lines, memory_nodes, named, other_programs, packets, plan, plan_json, pressure, process_files, prose,
    proxy_log, rds_events, screens, server_status, slow_log, socket_counts, stacks, statement_report, status,
    sysstat, sysstat_io, system, tool_errors, topology, traced_calls, tuner, unit_status, unix_disks,
};

/// What a stretch of lines looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// From its title to its end line.
    WholeStatus,
    Status,
    Table,
    Pairs,
    Options,
    Log,
    SlowLog,
    Report,
    Deadlocks,
    /// What EXPLAIN ANALYZE prints.
    Plan,
    /// A plan in JSON.
    JsonPlan,
    /// What mysqltuner prints.
    Tuner,
    /// What mysqldumpslow prints.
    DumpSlow,
    /// What pt-heartbeat prints.
    Heartbeat,
    /// What orchestrator prints of a topology.
    Topology,
    /// What `mysqladmin debug` makes a server print.
    ServerStatus,
    /// A file of another program.
    OtherProgram,
    System,
    Other,
}

/// Lines that belong together.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// What it looks like.
    pub(crate) look: Look,
    /// Its first line, from 1.
    pub(crate) first: usize,
    /// Its lines.
    pub(crate) text: String,
    /// How many they are.
    pub(crate) lines: usize,
}

/// The stretches of a text, in order.
pub(crate) fn stretches(text: &str) -> Vec<Stretch> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let plain: Vec<&str> = lines.iter().map(|line| line.trim_end_matches([' ', '\n'])).collect();
    let mut all: Vec<Stretch> = Vec::new();
    // Lines of one log are one document, whatever stands between them.
    let mut logs: Option<usize> = None;
    let mut slow_logs: Option<usize> = None;
    let mut now = Look::Other;
    let mut is_open = false;
    let mut form = None;
    let mut is_below_client = false;
    // Who wrote the stacks that the lines are of.
    let mut writer: Option<stacks::Writer> = None;
    // Where the plan in JSON ends that the lines are of.
    let mut plan_end = 0;
    for at in 0..lines.len() {
        let before = now;
        let plan = if at < plan_end { None } else { plan_json::end(&plain, at) };
        plan_end = plan.unwrap_or(plan_end);
        now = match at < plan_end {
            true => Look::JsonPlan,
            false => next_look(now, &plain, at, Above { is_open, form, is_below_client }),
        };
        is_below_client = ends_with_client(&plain, at, is_below_client);
        if now == Look::Table {
            form = table_form(plain[at]).or(form);
        }
        if now == Look::Other && before == Look::WholeStatus && logs.is_some() {
            now = Look::Log;
        }
        is_open = now == Look::Table && framed_row_is_open(plain[at], is_open);
        let writer_of_line = (now == Look::Other).then(|| stacks::writer(plain[at])).flatten();
        let is_of_next = writer_of_line.zip(writer).is_some_and(|(one, other)| one != other);
        let begins = now != before
            || all.is_empty()
            || plan.is_some()
            || is_of_next
            || now == Look::WholeStatus && is_title(plain[at]);
        writer = writer_of_line.or(writer.filter(|_| !begins));
        let of_log = match now {
            Look::Log => Some(&mut logs),
            Look::SlowLog => Some(&mut slow_logs),
            _ => None,
        };
        let of_log_place = of_log.as_deref().copied().flatten();
        let place = match of_log_place {
            Some(place) => place,
            None if begins => {
                all.push(Stretch { look: now, first: at + 1, text: String::new(), lines: 0 });
                let last = all.len() - 1;
                if let Some(of_log) = of_log {
                    *of_log = Some(last);
                }
                last
            }
            None => all.len() - 1,
        };
        all[place].text.push_str(lines[at]);
        all[place].lines += 1;
        if is_end_of_status(plain[at]) && now == Look::WholeStatus {
            now = Look::Other;
        }
    }
    all
}

/// True for the line above the time of a status.
pub(crate) fn is_title(line: &str) -> bool {
    line.ends_with("INNODB MONITOR OUTPUT") && !line.starts_with("END OF")
}

fn is_end_of_status(line: &str) -> bool {
    line.starts_with("END OF INNODB MONITOR OUTPUT")
}

/// What is known of the lines above one.
#[derive(Debug, Clone, Copy)]
struct Above {
    /// A row of a frame goes on.
    is_open: bool,
    /// How their table is written.
    form: Option<char>,
    /// They end with a client's error, with the functions below it or without.
    is_below_client: bool,
}

/// True where something begins at a place in the lines.
type IsHead = fn(&[&str], usize) -> bool;

/// What begins at its head wherever that stands, in the order in which it is looked for.
const HEADS: [(Look, IsHead); 8] = [
    (Look::WholeStatus, |lines, at| is_title(lines[at])),
    (Look::SlowLog, |lines, at| slow_log::is_head(lines[at])),
    (Look::Report, |lines, at| statement_report::is_head(lines[at])),
    (Look::Tuner, |lines, at| {
        tuner::is_head(lines[at]) || tuner::begins(lines, at) || advisors::is_head(lines, at)
    }),
    (Look::DumpSlow, |lines, at| dump_slow::is_head(lines[at])),
    (Look::ServerStatus, server_status::is_head),
    (Look::Deadlocks, |lines, at| deadlock_rows::is_head(lines[at])),
    (Look::Plan, |lines, at| plan::is_step(lines[at])),
];

/// What the line at a place belongs to, where those above it belong to `now`.
fn next_look(now: Look, lines: &[&str], at: usize, above: Above) -> Look {
    let Above { is_open, form, is_below_client } = above;
    let line = lines[at];
    let begins_table = || {
        row_number(line).is_some()
            || is_border(line) && lines.get(at + 1).is_some_and(|next| header_of(next).is_some())
    };
    if let Some((look, _)) = HEADS.iter().find(|(_, is_head)| is_head(lines, at)) {
        return *look;
    }
    let is_endless =
        matches!(now, Look::Log | Look::Status | Look::Report | Look::DumpSlow | Look::ServerStatus);
    if let Some(look) = is_endless.then(|| of_another_tool(line)).flatten() {
        return look;
    }
    let is_prompt = || ["mysql> ", "MariaDB ["].iter().any(|prompt| line.starts_with(prompt));
    match now {
        Look::Plan if plan::goes_on(line) => now,
        Look::Plan | Look::JsonPlan => beginning(lines, at).unwrap_or(Look::Other),
        Look::Deadlocks if deadlock_rows::is_row(line) => now,
        Look::Deadlocks => beginning(lines, at).unwrap_or(Look::Other),
        Look::Heartbeat if line.is_empty() || heartbeat::is_line(line) => now,
        Look::Topology if topology::is_line(line) => now,
        Look::OtherProgram if other_programs::goes_on(lines, at) || proxy_log::goes_on(line) => now,
        Look::Heartbeat | Look::Topology | Look::OtherProgram => beginning(lines, at).unwrap_or(Look::Other),
        Look::SlowLog | Look::Report | Look::DumpSlow | Look::ServerStatus if begins_table() => Look::Table,
        Look::SlowLog | Look::Report | Look::DumpSlow | Look::ServerStatus
            if log_lines::is_of_log(line) && clock::time(line).is_some() =>
        {
            Look::Log
        }
        Look::SlowLog | Look::Report | Look::DumpSlow | Look::ServerStatus if is_prompt() => Look::Other,
        Look::DumpSlow | Look::ServerStatus if named::is_group(line) => {
            beginning(lines, at).unwrap_or(Look::Other)
        }
        Look::ServerStatus if header_of(line).is_some() => Look::Table,
        Look::DumpSlow | Look::ServerStatus => now,
        Look::SlowLog if !slow_log::goes_on(lines, at) => beginning(lines, at).unwrap_or(Look::Other),
        Look::SlowLog | Look::Report => now,
        Look::Tuner if begins_table() || line == tuner::NAMES => Look::Table,
        Look::Tuner if is_prompt() || stacks::writer(line).is_some() => Look::Other,
        Look::Tuner if tuner::is_tagged(line) => now,
        Look::Tuner if named::is_group(line) => Look::Options,
        Look::Tuner => match beginning(lines, at) {
            Some(look @ (Look::Log | Look::Status)) => look,
            Some(Look::System) if is_report_of_system(line) => Look::System,
            _ => now,
        },
        Look::WholeStatus | Look::Status if is_below_status(lines, at) => {
            beginning(lines, at).unwrap_or(Look::Other)
        }
        Look::WholeStatus if begins_table() => Look::Table,
        Look::WholeStatus => now,
        Look::Table => {
            if is_table_line(lines, at, is_open, form) {
                now
            } else {
                beginning(lines, at).unwrap_or(Look::Other)
            }
        }
        Look::Log => match () {
            () if begins_table() => Look::Table,
            // What somebody pasted below lines of a log: a frame of which the borders were lost, options without their group.
            () if (line.starts_with('|') || line.contains('\t')) && header_of(line).is_some() => Look::Table,
            () if named::is_group(line) || named::begin_without_group(&lines[at..]) => Look::Options,
            // A client's error is a line by itself, with the functions below it that its program prints.
            () if is_below_client && !client_errors::goes_on(lines, at) => {
                beginning(lines, at).unwrap_or(Look::Other)
            }
            () => now,
        },
        Look::Status => match () {
            () if begins_table() => Look::Table,
            () if log_lines::is_of_log(line) && clock::time(line).is_some() => Look::Log,
            () if is_prompt() => Look::Other,
            () => now,
        },
        Look::Options | Look::System if stacks::writer(line).is_some() => Look::Other,
        Look::Options => match beginning(lines, at) {
            Some(Look::System) if is_report_of_system(line) => Look::System,
            Some(Look::Pairs | Look::Options | Look::System) | None => now,
            Some(other) => other,
        },
        Look::Pairs => match named::pair(line) {
            Some(_) => now,
            None if line.is_empty() || goes_on(lines, at) => now,
            None => beginning(lines, at).unwrap_or(Look::Other),
        },
        Look::System | Look::Other => match beginning(lines, at) {
            Some(look) => look,
            None => now,
        },
    }
}

/// True where somebody wrote something below a status, of which no more lines come.
fn is_below_status(lines: &[&str], at: usize) -> bool {
    /// Lines that are looked at. By judgement.
    const FARTHEST: usize = 400;
    let is_more =
        |line: &&str| status::is_of_status(line) || status::is_heading(line) || is_end_of_status(line);
    prose::begins(lines, at) && !lines[at..].iter().take(FARTHEST).any(is_more)
}

/// True where lines that end with the one at a place end with a client's error and the functions below it; `is_above` where those above it did.
fn ends_with_client(lines: &[&str], at: usize, is_above: bool) -> bool {
    client_errors::is_of_client(lines[at]) || is_above && client_errors::goes_on(lines, at)
}

/// What begins at a place, whatever stands above it.
fn beginning(lines: &[&str], at: usize) -> Option<Look> {
    let line = lines[at];
    if line.is_empty() {
        return None;
    }
    let next = lines.get(at + 1);
    if row_number(line).is_some()
        || header_of(line).is_some()
        || is_border(line) && next.is_some_and(|next| header_of(next).is_some())
    {
        return Some(Look::Table);
    }
    if proxy_log::is_line(line) {
        return Some(Look::OtherProgram);
    }
    if log_lines::is_of_log(line) || tool_errors::begins_check(lines, at) {
        return Some(Look::Log);
    }
    let is_rule = line.len() >= 3 && line.bytes().all(|byte| byte == b'-');
    // A heading whose rule above was cut, as in a status that begins with its last deadlock.
    let is_rule_below = || next.is_some_and(|next| next.len() >= 3 && next.bytes().all(|byte| byte == b'-'));
    let is_heading = status::is_heading(line) && (line.starts_with("LATEST ") || is_rule_below());
    if status::is_of_status(line)
        || is_heading
        || is_rule && next.is_some_and(|next| status::is_heading(next))
    {
        return Some(Look::Status);
    }
    if heartbeat::is_line(line) {
        return Some(Look::Heartbeat);
    }
    if topology::is_line(line) {
        return Some(Look::Topology);
    }
    if other_programs::begins(lines, at) {
        return Some(Look::OtherProgram);
    }
    if named::is_group(line)
        || named::begin_without_group(&lines[at..])
        || is_printed_option(line)
            && lines[at..].iter().take(3).filter(|line| is_printed_option(line)).count() == 3
    {
        return Some(Look::Options);
    }
    if is_of_system(line)
        || pressure::is_name(line) && next.is_some_and(|next| pressure::is_line(next))
        || unit_status::begins(lines, at)
    {
        return Some(Look::System);
    }
    let pairs = || lines[at..].iter().take(8).filter_map(|line| named::pair(line));
    let is_list = named::pair(line).is_some_and(|(name, values)| named::is_known(name) && !values.is_empty())
        && pairs().count() >= 3.min(lines.len() - at)
        && pairs().filter(|(name, _)| named::is_known(name)).count() >= 2;
    is_list.then_some(Look::Pairs)
}

/// `Thread 5 (Thread 0x50ad7940 (LWP 25047)):`, which no log has; a page may have indented it.
fn is_thread_of_gdb(line: &str) -> bool {
    line.trim_start().strip_prefix("Thread ").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && (rest.contains("(Thread 0x") || rest.contains("(LWP "))
            && rest.ends_with(':')
    })
}

/// `--key_buffer_size=16M`, as my_print_defaults prints it.
fn is_printed_option(line: &str) -> bool {
    line.strip_prefix("--").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_lowercase())
            && !rest.split('=').next().unwrap_or_default().contains(' ')
    })
}

/// Heads of what tools of the system print.
pub(crate) fn is_of_system(line: &str) -> bool {
    const HEADS: [&str; 26] = [
        "Filesystem ",
        "some avg10=",
        "full avg10=",
        "nr_periods ",
        "%Cpu(s):",
        "procs -----------memory",
        "procs ---",
        "avg-cpu:",
        "Device:",
        "Device  ",
        "top - ",
        "MemTotal:",
        "Active Internet connections",
        "Active UNIX domain",
        "COMMAND  ",
        "COMMAND ",
        "USER       PID",
        "F S UID",
        "Netid ",
        "kernel.",
        "vm.",
        "fs.",
        "nr_free_pages",
        "slabinfo",
        "cpu  ",
        "processor\t",
    ];
    let has = |names: &[&str]| names.iter().all(|name| line.split_whitespace().any(|word| word == *name));
    HEADS.iter().any(|head| line.trim_start().starts_with(head))
        || line.starts_with("Linux ") && line.contains("_64")
        // mpstat and sar, pidstat, free
        || line.contains("%idle") && has(&["CPU", "%idle"])
        || line.contains("%CPU") && (has(&["PID", "%CPU"]) || has(&["TID", "%CPU"]))
        || line.contains("WCPU") && has(&["PID", "WCPU", "COMMAND"])
        || line.trim_start().starts_with("total ") && has(&["total", "used", "free"])
        || line.contains("swpd") && has(&["r", "b", "swpd"])
        || line.contains("-usage----") && line.starts_with("--")
        || line.contains("%util") && has(&["DEV", "tps", "%util"])
        || sysstat::is_of_dstat(line)
        || sysstat_io::is_head(line)
        || unix_disks::is_head(line)
        || kernel_waits::is_head(line)
        || latency_bars::is_head(line)
        || socket_counts::is_line(line)
        || process_files::is_line(line)
        || cpu_counters::is_head(line)
        || atop::is_head(line)
        || iotop::is_head(line)
        || iotop::is_row(line)
        || system::is_row_of_df(line)
        || deleted_files::is_row(line)
        || containers::is_head(line)
        || container_states::is_line(line)
        || load_tests::is_report(line)
        || cloudwatch::is_of_metric(line)
        || rds_events::is_line(line)
        || packets::is_line(line)
        || memory_nodes::is_of_nodes(line)
        || traced_calls::is_head(line)
        || screens::is_other_view(line)
}

/// What begins with a line below a document that goes on whatever follows. A debugger's frames alone may be that document's: a log has
/// them of the server's death.
fn of_another_tool(line: &str) -> Option<Look> {
    let is_of_stacks = || {
        let writer = stacks::writer(line);
        is_thread_of_gdb(line) || writer.is_some_and(|writer| writer != stacks::Writer::Debugger)
    };
    match () {
        () if is_of_stacks() => Some(Look::Other),
        () if is_report_of_system(line) && !log_lines::is_of_log(line) => Some(Look::System),
        () => None,
    }
}

/// True for such a head that stands in no option file, in no log and in no other tool's report.
fn is_report_of_system(line: &str) -> bool {
    const ELSEWHERE: [&str; 6] = ["kernel.", "vm.", "fs.", "cpu  ", "processor\t", "Linux "];
    is_of_system(line) && !ELSEWHERE.iter().any(|begins| line.trim_start().starts_with(begins))
}

fn framed_row_is_open(line: &str, was_open: bool) -> bool {
    let starts = line.trim_start().starts_with('|');
    (starts || was_open) && !line.ends_with('|') && !is_border(line)
}

/// How the table is written that a line begins: `*` for rows one below the other, `|` for a frame, or what parts the cells.
fn table_form(line: &str) -> Option<char> {
    if row_number(line).is_some() {
        Some('*')
    } else if is_border(line) {
        Some('|')
    } else {
        header_of(line)?;
        let marks = if line.trim_start().starts_with('|') { ['|'; 4] } else { ['\t', ',', ';', '|'] };
        Some(marks.into_iter().find(|mark| line.contains(*mark)).unwrap_or(' '))
    }
}

/// A value may have several lines, such as a public key: true where the list of names goes on soon.
fn goes_on(lines: &[&str], at: usize) -> bool {
    const LONGEST_VALUE: usize = 24;
    let below = || lines[at + 1..].iter().take(LONGEST_VALUE).take_while(|line| !is_of_another(line));
    let is_named = |line: &&str| named::pair(line).is_some_and(|(name, _)| named::is_known(name));
    let is_pair = |line: &&&str| named::pair(line).is_some_and(|(name, _)| name.contains('_'));
    beginning(lines, at).is_none() && (below().any(is_named) || below().take(6).filter(is_pair).count() >= 4)
}

fn is_of_another(line: &str) -> bool {
    log_lines::is_of_log(line) || row_number(line).is_some() || is_title(line)
}

/// True for a line that belongs to the table above it.
fn is_table_line(lines: &[&str], at: usize, is_open: bool, form: Option<char>) -> bool {
    let line = lines[at];
    if row_number(line).is_some()
        || is_border(line)
        || header_of(line).is_some()
        || line.starts_with("TS ") && clock::time(line).is_some()
    {
        return true;
    }
    let is_foot = |line: &str| {
        (line.ends_with(" sec)") && (line.contains(" rows in set") || line.contains(" row in set")))
            || line.starts_with("(END)")
    };
    match form {
        Some('*') => {
            !(is_foot(line)
                || ["mysql> ", "MariaDB [", "Thread ", "#0 "].iter().any(|begins| line.starts_with(begins))
                || log_lines::is_of_log(line) && clock::time(line).is_some()
                || named::is_group(line)
                || status::is_of_status(line))
        }
        Some('|') => {
            is_open
                || line.trim_start().starts_with('|')
                || line.is_empty()
                    && lines.get(at + 1).is_some_and(|next| next.trim_start().starts_with(['|', '+']))
        }
        Some('\t') => line.contains('\t') || goes_on(lines, at),
        Some(mark @ (',' | ';')) => line.contains(mark),
        _ => !line.is_empty() && !is_foot(line),
    }
}
