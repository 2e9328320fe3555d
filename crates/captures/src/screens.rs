//! The numbers of a status that mytop and myq_status show, as the lists that they were made from.
//!
//! ```text
//! MySQL on localhost (5.7.26-log)                        up 1+00:29:43 [11:32:06]                mytop
//!  Queries: 109.1M  qps: 1297 Slow:    14.0         Se/In/Up/De(%):    68/14/08/05
//!              qps now: 1014 Slow qps: 0.0  Threads:   31 (   5/  65) 58/20/09/07
//!
//!          Connects       Threads       ...                                                     myq_status cttf
//!     time cons acns acls conn  run ...
//! 12:51:53    8    0    0  512   64 ...
//!
//!         Cluster   Node  Outbound      Inbound       ...                                          myq_status wsrep
//!     time P cnf  # stat  msgs data que msgs data que ... lcf bfa
//! 12:51:53 P   3  3 Sync    12  34K   0   15  40K   0 ...   0   0
//! ```
//!
//! Of mytop's screen the sessions below are read in `reshaped`. What a view of myq_status counts for each second is a rate already, with one
//! or two digits: of its views those with sessions and with a cluster's state are read, and of the others it is said that nothing is used.

/// Columns that a view has, and no other tool's list.
type View = (&'static [&'static str], fn(&[&str], &[&str]) -> Vec<(&'static str, String)>);

/// The views that are read.
const READ: [View; 2] =
    [(&["time", "cons", "acns", "conn", "run"], sessions), (&["time", "P", "cnf", "lcf", "bfa"], cluster)];
/// And those that are not: of commands, of kinds of queries, of handlers, of InnoDB, of bytes, of temporary tables.
const OTHERS: [&[&str]; 6] = [
    &["time", "sel", "dml", "ddl"],
    &["time", "fjn", "frj", "rang", "rchk"],
    &["time", "rfst", "rkey", "rnex"],
    &["time", "dirt", "rreq", "wreq"],
    &["time", "recv/s", "sent/s"],
    &["time", "tmps", "disk", "files"],
];
/// What is said of those.
pub(crate) const NOT_USED: &str = "it is a view of myq_status whose rates are not used: SHOW GLOBAL STATUS twice, ten seconds apart, has them \
                                   all";

/// Bytes of a line, which is as wide as a terminal.
const LONGEST: usize = 1_000;

/// The lines of a text, with the numbers of such screens as lists of names and values.
pub(crate) fn as_lists(lines: Vec<String>) -> Vec<String> {
    let is_likely = |line: &String| threads_of_mytop(line).is_some() || view(line).is_some();
    if !lines.iter().any(is_likely) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut uptime_s = None;
    let mut now: Option<(View, Vec<String>)> = None;
    for line in lines {
        uptime_s = uptime_of_mytop(&line).or(uptime_s);
        if let Some(view) = view(&line) {
            // The line above it names groups of columns.
            if all.last().is_some_and(|above: &String| is_of_groups(above)) {
                all.pop();
            }
            now = Some((view, line.split_whitespace().map(str::to_owned).collect()));
            continue;
        }
        let read = now.as_ref().and_then(|(view, head)| row(*view, head, &line));
        if read.is_none() && !line.trim().is_empty() && !is_of_groups(&line) {
            // What stands below another line is another list.
            now = None;
        }
        let mut values = read.unwrap_or_default();
        if let Some([connected, running, cached]) = threads_of_mytop(&line) {
            values.extend(uptime_s.take().map(|uptime_s: u64| ("Uptime", uptime_s.to_string())));
            values.extend([
                ("Threads_connected", connected.to_string()),
                ("Threads_running", running.to_string()),
                ("Threads_cached", cached.to_string()),
            ]);
        }
        if values.is_empty() {
            all.push(line);
        } else {
            all.push("Variable_name\tValue".to_owned());
            all.extend(values.into_iter().map(|(name, value)| format!("{name}\t{value}")));
        }
    }
    all
}

/// True for the names of the columns of a view of myq_status that is not read.
pub(crate) fn is_other_view(line: &str) -> bool {
    OTHERS.iter().any(|names| has(line, names))
}

/// True for the line above the names of the columns of a view that is read.
fn is_of_groups(line: &str) -> bool {
    ["Connects", "Cluster"].iter().any(|first| line.split_whitespace().next() == Some(*first))
}

/// The view that has these names of columns.
fn view(line: &str) -> Option<View> {
    READ.into_iter().find(|(names, _)| has(line, names))
}

fn has(line: &str, names: &[&str]) -> bool {
    let first = names.first().copied().unwrap_or_default();
    line.len() <= LONGEST
        && line.trim_start().starts_with(first)
        && names.iter().all(|name| line.split_whitespace().any(|word| word == *name))
}

/// What a row of a view says; None for a line that has no time in front (`12:51:53`, of a file `5s`) and as many cells as the head.
fn row(view: View, head: &[String], line: &str) -> Option<Vec<(&'static str, String)>> {
    if line.len() > LONGEST {
        return None;
    }
    let cells: Vec<&str> = line.split_whitespace().collect();
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let is_time = |cell: &str| {
        cell.bytes().all(|byte| is_digit(byte) || b":hms".contains(&byte)) && !cell.bytes().all(is_digit)
    };
    if cells.len() != head.len() || !cells.first().is_some_and(|cell| is_time(cell)) {
        return None;
    }
    let names: Vec<&str> = head.iter().map(String::as_str).collect();
    Some(view.1(&names, &cells))
}

/// The cell below a name: of several names the one at that place.
fn cell<'l>(names: &[&str], cells: &[&'l str], name: &str, place: usize) -> Option<&'l str> {
    let at = names.iter().enumerate().filter(|(_, other)| **other == name).nth(place)?.0;
    cells.get(at).copied()
}

/// `512`, `1.8k`: a number that was made as short as its column.
fn number(cell: &str) -> Option<u64> {
    let (digits, scale) = match cell.as_bytes().last()? {
        b'k' | b'K' => (&cell[..cell.len() - 1], 1e3),
        b'm' | b'M' => (&cell[..cell.len() - 1], 1e6),
        _ => (cell, 1.0),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| is_number)?;
    Some((number * scale).round() as u64)
}

fn sessions(names: &[&str], cells: &[&str]) -> Vec<(&'static str, String)> {
    let of = |name: &str| cell(names, cells, name, 0).and_then(number);
    let pair = |(ours, theirs): (&'static str, &str)| Some((ours, of(theirs)?.to_string()));
    [("Threads_connected", "conn"), ("Threads_running", "run")].into_iter().filter_map(pair).collect()
}

fn cluster(names: &[&str], cells: &[&str]) -> Vec<(&'static str, String)> {
    let status = match cell(names, cells, "P", 0) {
        Some("P") => Some("Primary"),
        Some("D" | "d") => Some("Disconnected"),
        Some("N" | "n") => Some("non-Primary"),
        _ => None,
    };
    let count = |name: &str, place: usize| cell(names, cells, name, place).and_then(number);
    let counts = [
        ("wsrep_cluster_size", count("#", 0)),
        ("wsrep_local_send_queue", count("que", 0)),
        ("wsrep_local_recv_queue", count("que", 1)),
    ];
    let counts = counts.into_iter().filter_map(|(name, count)| Some((name, count?.to_string())));
    status.map(|status| ("wsrep_cluster_status", status.to_owned())).into_iter().chain(counts).collect()
}

/// Sessions of mytop's third line, those at work among them, and the threads that wait for one: `Threads:   31 (   5/  65)`.
fn threads_of_mytop(line: &str) -> Option<[u64; 3]> {
    let (_, rest) = line.split_once("qps now:")?;
    let (connected, rest) = rest.split_once("Threads:")?.1.split_once('(')?;
    let (running, cached) = rest.split_once(')')?.0.split_once('/')?;
    let [connected, running, cached] = [connected, running, cached].map(|count| count.trim().parse().ok());
    Some([connected?, running?, cached?])
}

/// Seconds that the server runs, of mytop's first line: `up 1+00:29:43 [11:32:06]`.
fn uptime_of_mytop(line: &str) -> Option<u64> {
    let (_, rest) = line.trim_end().strip_suffix(']')?.rsplit_once(" up ")?;
    let (days, rest) = rest.split_once('+')?;
    let clock = rest.split_once(" [")?.0;
    let days: u64 = days.trim().parse().ok()?;
    let parts: Vec<u64> = clock.splitn(4, ':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    let of_day = hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)?;
    days.checked_mul(86_400)?.checked_add(of_day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::{recognise, window};

    const MYTOP: &str = "MySQL on localhost (5.7.26-29)                          up 1+00:29:43 [11:32:06]\n\
                         \x20Queries: 109.1M  qps: 1297 Slow:    14.0         Se/In/Up/De(%):    68/14/08/05\n\
                         \x20            qps now: 1014 Slow qps: 0.0  Threads:   31 (   5/  65) 58/20/09/07\n\
                         \x20Cache Hits: 48.2M Hits/s: 573.7 Hits now: 386.9  Ratio: 65.1% Ratio now: 66.3%\n\
                         \x20Key Efficiency: 50.0%  Bps in/out: 707.4k/ 1.7M   Now in/out: 397.0k/956.2k\n\n\
                         \x20     Id      User         Host/IP         DB      Time    Cmd Query or State\n\
                         \x20      --      ----         -------         --      ----    --- ----------\n\
                         \x20   8123       app       10.0.0.13       shop       341  Query Waiting for table metadata lock\n";

    #[test]
    fn the_head_of_mytop_is_a_status_beside_its_sessions() {
        let parts = recognise("x", MYTOP);
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::GlobalStatus, Kind::ProcessList], "{parts:#?}");
        let window = window(&parts);
        for (name, value) in [("Threads_connected", 31.0), ("Threads_running", 5.0), ("Uptime", 88_183.0)] {
            assert_eq!(window.status(name), Some(value), "{name}");
        }
        assert_eq!(
            uptime_of_mytop("MariaDB 10.5.15 on 127.0.0.1   load (0.00 0.23 0.50) up 0+02:15:09 [00:56:52]"),
            Some(8_109)
        );
        for line in
            ["up [", "the server is up 7+ [days]", " up 999999999999999999+00:00:00 [1]", " up 1+1:1:1:1 [1]"]
        {
            assert_eq!(uptime_of_mytop(line), None, "{line}");
        }
    }

    #[test]
    fn the_sessions_of_myq_status_are_readings_of_which_the_last_counts() {
        let head = "         Connects       Threads        Pool      Tables\n\
                    \x20   time cons acns acls conn  run slow  tot idle open wait\n";
        let row =
            |time: &str, run: &str| format!("{time}    8    0    0 1.2k  {run}    0    -    - 2000    0\n");
        let text = format!(
            "{head}{}{}{head}{}",
            row("12:51:53", "  3"),
            row("12:51:54", "180"),
            row("12:51:55", " 64")
        );
        let parts = recognise("x", &text);
        assert_eq!(parts[0].kind, Kind::GlobalStatus, "{parts:#?}");
        let window = window(&parts);
        assert_eq!(
            (window.status("Threads_connected"), window.status("Threads_running")),
            (Some(1_200.0), Some(64.0))
        );
    }

    #[test]
    fn rows_of_another_list_below_a_view_are_not_its_own() {
        let read = |text: &str| as_lists(text.lines().map(str::to_owned).collect());
        let head = "time cons acns conn run\n";
        for row in ["12:51:53 8 0 512 64", "5s 8 0 512 64", "1m30s 8 0 512 64"] {
            assert!(read(&format!("{head}{row}\n")).contains(&"Threads_running\t64".to_owned()), "{row}");
            assert!(read(&format!("{head}\n{row}\n")).contains(&"Threads_running\t64".to_owned()), "{row}");
            let other = format!("r b in cs us\n{row}");
            assert!(read(&format!("{head}{other}\n")).join("\n").ends_with(&other), "{row}");
        }
        let other = "7 app h:1 shop 64";
        assert_eq!(read(&format!("{head}{other}\n")), [other]);
    }

    #[test]
    fn the_cluster_of_myq_status_has_its_state() {
        let text = "shop / db1 (idx: 1) / Galera 3.20(r7e383f7)\n        Cluster   Node  Outbound      Inbound       FlowC\n\
                    \x20   time P cnf  # stat  msgs data que msgs data que pause lcf bfa\n\
                    12:51:53 N   3  1 Init    12  34K   5   15  40K   7   0ns   0   0\n";
        let parts = recognise("x", text);
        assert_eq!(parts[0].kind, Kind::GlobalStatus, "{parts:#?}");
        let window = window(&parts);
        let counts = ["wsrep_cluster_size", "wsrep_local_send_queue", "wsrep_local_recv_queue"];
        assert_eq!(counts.map(|name| window.status(name)), [Some(1.0), Some(5.0), Some(7.0)]);
        let values = window.latest(|sample| &sample.server.status).expect("a status");
        assert_eq!(values.text("wsrep_cluster_status"), Some("non-Primary"));
    }

    #[test]
    fn another_view_is_said_to_be_one() {
        let text = "    time  sel   dml  ddl admin  show  set lock  trx   xa  prep\n12:51:53  812    43    0     0     1    0    0   40    0     0\n";
        let parts = recognise("x", text);
        assert_eq!(
            (parts[0].kind, parts[0].says.as_slice()),
            (Kind::System, [NOT_USED.to_owned()].as_slice())
        );
        for line in ["time goes by", "the time P cnf lcf bfa", "12:51:53 1 2"] {
            assert!(view(line).is_none() && !is_other_view(line), "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)(qps now: |Threads: |\\( *|/ *|\\)|up |\\+|\\[|\\]|[0-9:.kM]{1,20}| |time cons acns conn run\n|time P cnf lcf bfa # que que\n|\n|.){0,60}") {
            as_lists(text.lines().map(str::to_owned).collect());
        }
    }
}
