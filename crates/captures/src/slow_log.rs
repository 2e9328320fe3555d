//! The slow query log: which statements took the time, what part of it they waited for locks, and what they read for what they sent.
//!
//! One form for all: `# Query_time: ...` and its neighbours before each statement (sql/log.cc, File_query_log::write_slow). MySQL 8.0.14
//! adds more of them with `log_slow_extra`, MariaDB with `log_slow_verbosity`, Percona Server with a variable of that name, too; each is
//! `name: value`. What is past is no window of samples: no cause rests on it, sentences say it.

use std::collections::{HashMap, HashSet};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{ServerVersion, number};

use crate::clock;
use crate::tables::of_other;

/// Shapes that are kept: of the statements that have another one only the time is counted. As many statements that were left out are
/// held against those that were not.
const MOST_SHAPES: usize = 10_000;
/// Bytes of a statement that are read: as many as of a live server's.
const LONGEST: usize = 1_280;
/// Statements that are named.
const NAMED: usize = 5;
/// Characters of a shape that are shown.
const SHOWN: usize = 200;
/// Statements with less of the time are named only where they are the first. By judgement.
const LEAST_SHARE: f64 = 0.02;
/// From this part of the time on, waits for locks are worth a word. By judgement.
const LOCK_SHARE: f64 = 0.1;
/// Rows read in each call, and for each row that is sent or changed, from which on an index is likely missing. By judgement: below, a
/// sum over a few thousand rows is what was asked for.
const MANY_ROWS: f64 = 10_000.0;
const ROWS_FOR_ONE: f64 = 100.0;
/// A statement that takes so long, seconds, and waits for locks for nearly all of it, gave up its wait for a row: the default of
/// innodb_lock_wait_timeout is 50 s.
const LOCK_WAIT_S: std::ops::Range<f64> = 50.0..51.0;
const WHOLE_SHARE: f64 = 0.99;
/// Lines from a statement's end to the next head, over which what stands between is taken as the statement's.
const FAR: usize = 40;

/// What a slow query log says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SlowLog {
    /// In sentences.
    pub(crate) says: Vec<String>,
    /// The server that wrote it.
    pub(crate) version: Option<ServerVersion>,
}

/// True for a statement that waits for a table and for no row.
fn is_ddl(statement: &str) -> bool {
    const VERBS: [&str; 9] =
        ["ALTER", "CREATE", "DROP", "TRUNCATE", "RENAME", "OPTIMIZE", "ANALYZE", "REPAIR", "LOCK"];
    let shape = spindoctor_sql::digest(statement);
    let verb = shape.split_whitespace().next().unwrap_or_default();
    VERBS.iter().any(|ddl| verb.eq_ignore_ascii_case(ddl))
}

/// True for a line that stands before a statement of a slow query log and nowhere else.
pub(crate) fn is_head(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("# ") else { return is_of_start(line) };
    rest.starts_with("User@Host: ")
        || rest.starts_with("Query_time: ") && rest.contains("Lock_time: ")
        // Percona Server 5.0 has both on one line.
        || rest.strip_prefix("Time: ").is_some_and(|rest| clock::time(rest).is_some() || rest.contains("# User@Host: "))
}

/// `/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:`, with which a server begins such a log.
fn is_of_start(line: &str) -> bool {
    line.contains(", Version: ") && line.ends_with("started with:")
}

/// The lines below that one.
fn is_below_start(line: &str) -> bool {
    line.starts_with("Tcp port: ")
        || line.starts_with("TCP Port: ")
        || line.starts_with("Time ") && line.split_whitespace().eq(["Time", "Id", "Command", "Argument"])
}

/// `SET timestamp=1677924672;`, with `last_insert_id=` and `insert_id=` before it where they matter, and `use shop;`
fn is_setting(line: &str) -> bool {
    line.starts_with("use ") || line.starts_with("SET ") && line.contains("timestamp=")
}

/// True where a line belongs to the log above it.
pub(crate) fn goes_on(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    let Some(above) = at.checked_sub(1).map(|above| lines[above]) else { return false };
    let is_ended = above.is_empty() || above.ends_with(';') && !is_setting(above);
    line.is_empty()
        || line.starts_with('#')
        || is_below_start(line)
        || !is_ended
        || lines[at..].iter().take(FAR).any(|line| is_head(line))
}

/// One statement, or all of a shape.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    calls: u64,
    /// Seconds.
    time_s: f64,
    locked_s: f64,
    /// Seconds of reads from disk, as Percona Server measures them.
    reads_s: f64,
    read_rows: f64,
    /// Sent to the client, or changed.
    wanted_rows: f64,
    /// Statements with a temporary table on disk.
    on_disk: u64,
    /// Statements that ended when they had waited for a lock for as long as a statement waits for a row by default.
    given_up: u64,
}

impl Numbers {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.time_s += other.time_s;
        self.locked_s += other.locked_s;
        self.reads_s += other.reads_s;
        self.read_rows += other.read_rows;
        self.wanted_rows += other.wanted_rows;
        self.on_disk += other.on_disk;
        self.given_up += other.given_up;
    }

    /// True for a statement that gave up its wait for a row.
    fn is_given_up(&self) -> bool {
        LOCK_WAIT_S.contains(&self.time_s)
            && self.locked_s >= WHOLE_SHARE * self.time_s
            && self.wanted_rows == 0.0
    }

    /// What two lines of one statement have in common, and those of two statements have not: microseconds.
    fn key(&self) -> (u64, u64) {
        (self.time_s.to_bits(), self.locked_s.to_bits())
    }

    /// Takes `Query_time: 41.301245  Lock_time: 40.900112 Rows_sent: 0  Rows_examined: 1` and its like.
    fn take(&mut self, fields: &str) {
        let mut words = fields.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_suffix(':') else { continue };
            let Some(value) = words.next_if(|value| !value.ends_with(':')) else { continue };
            let number = || value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
            let number = || number().unwrap_or(0.0);
            match name {
                "Query_time" => self.time_s = number(),
                "Lock_time" => self.locked_s = number(),
                "InnoDB_IO_r_wait" => self.reads_s = number(),
                "Rows_examined" => self.read_rows = number(),
                "Rows_sent" | "Rows_affected" => self.wanted_rows += number(),
                "Tmp_disk_tables" | "Created_tmp_disk_tables" => self.on_disk = u64::from(number() > 0.0),
                "Tmp_table_on_disk" if value == "Yes" => self.on_disk = 1,
                _ => {}
            }
        }
    }
}

/// From a time to a time.
type Span = (DateTime, DateTime);

#[derive(Default)]
struct Reader {
    shapes: HashMap<String, Numbers>,
    all: Numbers,
    open: Option<Numbers>,
    statement: String,
    /// The statement has its end: what stands below it a person wrote.
    is_whole: bool,
    /// Its `SET timestamp` stands above it.
    has_setting: bool,
    /// Statements that were left out, and what the others took.
    left_out: Vec<Numbers>,
    seen: HashSet<(u64, u64)>,
    /// The first and the last `# Time:`; where there is none, those of `SET timestamp`.
    times: Option<Span>,
    has_times: bool,
    /// The last of these: a statement is logged when it has ended.
    now: Option<DateTime>,
    /// When the first of the statements began, and the last one ended.
    ran: Option<Span>,
    version: Option<ServerVersion>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if is_below_start(line) {
            return;
        }
        if is_head(line) {
            self.head(line);
        } else if self.statement.is_empty() && line.starts_with('#') {
            match (line.strip_prefix("# administrator command: "), &mut self.open) {
                (Some(command), Some(_)) => self.statement.push_str(command),
                (None, Some(open)) => open.take(line),
                _ => {}
            }
        } else if is_setting(line) && (self.statement.is_empty() || self.ends_remark(line)) {
            self.statement.clear();
            self.has_setting |= line.starts_with("SET ");
            self.set_time(line);
        } else if line.trim().is_empty() || line.starts_with("```") {
            self.is_whole |= self.statement.ends_with(';');
        } else if self.open.is_some() && !self.is_whole && self.statement.len() < LONGEST {
            if !self.statement.is_empty() {
                self.statement.push('\n');
            }
            self.statement.push_str(&line[..line.floor_char_boundary(LONGEST)]);
        }
    }

    /// True for the server's own `SET timestamp=...;` below words that are the end of a remark (`# explain: ...`) which was wrapped: it is
    /// the first line below the remarks. A statement that changes rows may have such a line.
    fn ends_remark(&self, line: &str) -> bool {
        const MAY_SET: [&str; 4] = ["update", "insert", "replace", "with"];
        let time = line.strip_prefix("SET timestamp=").and_then(|rest| rest.strip_suffix(';'));
        let is_time = time.is_some_and(|time| {
            !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        });
        let first = self.statement.split_whitespace().next().unwrap_or_default();
        let may_set = first.starts_with("/*") || MAY_SET.iter().any(|word| first.eq_ignore_ascii_case(word));
        self.open.is_some() && !self.has_setting && !self.is_whole && is_time && !may_set
    }

    fn head(&mut self, line: &str) {
        if let Some((_, rest)) = line.split_once(", Version: ").filter(|_| is_of_start(line)) {
            self.end();
            let version = rest.split([' ', ',']).next().unwrap_or_default();
            self.version = ServerVersion::parse(version, rest).or(self.version);
        } else if let Some(rest) = line.strip_prefix("# Time: ") {
            self.end();
            let Some(time) = clock::time(rest) else { return };
            self.times = match self.times.filter(|_| self.has_times) {
                Some((first, last)) => Some((first.min(time), last.max(time))),
                None => Some((time, time)),
            };
            self.has_times = true;
            self.now = Some(time);
        } else if line.starts_with("# User@Host: ") {
            self.end();
        } else {
            self.end();
            let mut numbers = Numbers { calls: 1, ..Numbers::default() };
            numbers.take(line);
            self.open = Some(numbers);
        }
    }

    /// The server's own time of the statement, in seconds since 1970.
    fn set_time(&mut self, line: &str) {
        let Some((_, rest)) = line.split_once("timestamp=").filter(|_| !self.has_times) else { return };
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let time = digits.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let Some(time) = time.map(|time| time.to_zoned(TimeZone::UTC).datetime()) else { return };
        self.now = Some(time);
        self.times = match self.times {
            Some((first, last)) => Some((first.min(time), last.max(time))),
            None => Some((time, time)),
        };
    }

    fn end(&mut self) {
        self.is_whole = false;
        self.has_setting = false;
        let statement = std::mem::take(&mut self.statement);
        let Some(mut numbers) = self.open.take() else { return };
        numbers.given_up = u64::from(numbers.is_given_up() && !is_ddl(&statement));
        let began = |ended: DateTime| {
            let took = SignedDuration::try_from_secs_f64(numbers.time_s).ok()?;
            Some((ended.checked_sub(took).ok()?, ended))
        };
        if let Some((began, ended)) = self.now.and_then(began) {
            self.ran = match self.ran {
                Some((first, last)) => Some((first.min(began), last.max(ended))),
                None => Some((began, ended)),
            };
        }
        let shape = spindoctor_sql::digest(statement.trim_end().trim_end_matches(';'));
        // Whole seconds, as old versions print them, do not tell one statement from another.
        let is_telling = numbers.time_s.fract() != 0.0;
        if shape.is_empty() && is_telling && self.left_out.len() < MOST_SHAPES {
            self.left_out.push(numbers);
            return;
        }
        if !shape.is_empty() && self.seen.len() < MOST_SHAPES {
            self.seen.insert(numbers.key());
        }
        self.count(shape, numbers);
    }

    fn count(&mut self, shape: String, numbers: Numbers) {
        self.all.add(numbers);
        if self.shapes.len() < MOST_SHAPES || self.shapes.contains_key(&shape) {
            self.shapes.entry(shape).or_default().add(numbers);
        }
    }

    /// Counts the statements that were left out, but not those that stand elsewhere in the text: who shows the longest times of a log
    /// (`grep Query_time | sort`) shows an entry of it, too.
    fn count_left_out(&mut self) {
        for numbers in std::mem::take(&mut self.left_out) {
            if !self.seen.contains(&numbers.key()) {
                self.count(String::new(), numbers);
            }
        }
    }
}

/// Reads a log; None for a text without one statement of it.
pub(crate) fn read(text: &str) -> Option<SlowLog> {
    let mut reader = Reader::default();
    text.lines().for_each(|line| reader.line(line));
    reader.end();
    reader.count_left_out();
    let Reader { shapes, all, times, ran, version, .. } = reader;
    if all.calls == 0 {
        let is_of_tidb = text.lines().any(|line| line.starts_with("# Txn_start_ts: "));
        return is_of_tidb.then(|| SlowLog { says: vec![of_other("TiDB")], version: None });
    }
    let mut shapes: Vec<(String, Numbers)> = shapes.into_iter().collect();
    shapes.sort_by(|one, other| other.1.time_s.total_cmp(&one.1.time_s).then_with(|| one.0.cmp(&other.0)));
    let mut says = vec![summary(&all, shapes.len() as u64, times, ran)];
    let share = |numbers: &Numbers| if all.time_s > 0.0 { numbers.time_s / all.time_s } else { 0.0 };
    let named = shapes.iter().enumerate().take(NAMED);
    let named = named.filter(|(at, (_, numbers))| *at == 0 || share(numbers) >= LEAST_SHARE);
    says.extend(named.map(|(_, (shape, numbers))| sentence(shape, numbers, share(numbers))));
    Some(SlowLog { says, version })
}

/// `3 statements of 2 shapes took 95.9 s in all, from 2023-03-04 10:11:12 to 10:11:14; they waited 82.8 s (86 %) of that for locks`
fn summary(all: &Numbers, shapes: u64, times: Option<Span>, ran: Option<Span>) -> String {
    let shown = |time: DateTime| time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let is_apart = |(first, last): &Span| last.duration_since(*first) >= SignedDuration::from_secs(1);
    let when = times.map_or_else(String::new, |span| match is_apart(&span) {
        true => format!(", logged from {} to {}", shown(span.0), shown(span.1)),
        false => format!(", logged at {}", shown(span.1)),
    });
    // The first of them began before the first time in the log: it has the times at which they ended.
    let ran = ran.filter(|span| all.calls > 1 && is_apart(span));
    let at_once = ran.map_or_else(String::new, |(began, ended)| {
        let at_once = all.time_s / ended.duration_since(began).as_secs_f64();
        format!(": {at_once:.1} of them at once on average")
    });
    let statements = number::counted(all.calls, "statement", "statements");
    let kinds = number::counted(shapes, "shape", "shapes");
    let took = number::duration(all.time_s);
    format!("{statements} of {kinds} took {took} in all{when}{at_once}{}", locks(all, "they"))
}

fn locks(numbers: &Numbers, who: &str) -> String {
    let share = numbers.locked_s / numbers.time_s.max(numbers.locked_s);
    match share.is_finite() && share >= LOCK_SHARE {
        true => format!(
            "; {who} waited {} ({}) of that for locks",
            number::duration(numbers.locked_s),
            number::percent(share)
        ),
        false => String::new(),
    }
}

/// `87 % of the time: UPDATE stock SET n = n - ? WHERE id = ?, 2 times, 41.8 s each; it waited 82.8 s (99 %) of that for locks`
fn sentence(shape: &str, numbers: &Numbers, share: f64) -> String {
    let calls = numbers.calls.max(1) as f64;
    let shown: String = shape.chars().take(SHOWN).collect();
    let shown = if shown.is_empty() { "a statement that was left out" } else { &shown };
    let mut sentence = format!(
        "{} of the time: {shown}, {}, {} each{}",
        number::percent(share),
        number::counted(numbers.calls, "time", "times"),
        number::duration(numbers.time_s / calls),
        locks(numbers, "it")
    );
    let (read, wanted) = (numbers.read_rows / calls, numbers.wanted_rows / calls);
    if read >= MANY_ROWS && read >= ROWS_FOR_ONE * wanted.max(1.0) {
        let rows = number::whole(read.round());
        sentence.push_str(&format!(
            "; it reads {rows} rows each time for {wanted:.0}: EXPLAIN says whether an index is missing"
        ));
    }
    if numbers.reads_s >= LOCK_SHARE * numbers.time_s && numbers.reads_s > 0.0 {
        let share = number::percent((numbers.reads_s / numbers.time_s).min(1.0));
        sentence.push_str(&format!("; {share} of that went into reads from disk"));
    }
    if numbers.on_disk > 0 {
        let times = number::counted(numbers.on_disk, "time", "times");
        sentence.push_str(&format!("; its temporary table was on disk {times}"));
    }
    if numbers.given_up > 0 {
        let times = number::counted(numbers.given_up, "time", "times");
        sentence.push_str(&format!(
            "; {times} it ended after 50 s of waiting and changed nothing, as where innodb_lock_wait_timeout is over (error 1205): the \
             transaction that had the row was open for longer"
        ));
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(head: &str, statement: &str) -> String {
        format!(
            "# User@Host: app[app] @ web3 [10.0.0.13]  Id:  8123\n{head}SET timestamp=1677924672;\n{statement}\n"
        )
    }

    #[test]
    fn what_a_person_wrote_below_a_statement_is_no_part_of_it() {
        let one =
            entry("# Query_time: 5.2  Lock_time: 0.1 Rows_sent: 1  Rows_examined: 9\n", "SELECT a\nFROM b;");
        let other =
            entry("# Query_time: 1.2  Lock_time: 0.1 Rows_sent: 1  Rows_examined: 9\n", "SELECT c FROM d;");
        for between in ["\nand on the other server\n\n", "```\n\non the other server\n```\n"] {
            let says = read(&format!("{one}{between}{other}")).unwrap().says;
            assert!(says[1].contains(": SELECT a FROM b, 1 time"), "{says:?}");
            assert!(says[2].contains(": SELECT c FROM d, 1 time"), "{says:?}");
        }
    }

    #[test]
    fn a_statement_whose_line_was_copied_twice_is_one() {
        let head = "# Query_time: 5.2  Lock_time: 0.1 Rows_sent: 1  Rows_examined: 9\n";
        let one = entry(head, "SELECT a FROM b;");
        let sorted = format!("$ grep Query_time slow.log | sort -k 3\n{head}{}", head.replace("5.2", "4.8"));
        for text in [format!("{one}\n```\n{sorted}"), format!("{sorted}\n{one}")] {
            let says = read(&text).unwrap().says;
            assert!(says[0].starts_with("2 statements of 2 shapes took 10 s in all"), "{says:?}");
        }
    }

    #[test]
    fn the_end_of_a_remark_that_was_wrapped_is_no_statement() {
        let remarks = "# Query_time: 0.9  Lock_time: 0.1  Rows_sent: 20  Rows_examined: 24\n\
                       # explain: 1\tSIMPLE\tc\tALL\tUsing where; Scanned all database\ns; Using join buffer (flat, BNL join)\n#\n";
        let says = read(&entry(remarks, "SELECT a FROM b;")).unwrap().says;
        assert!(says[1].contains(": SELECT a FROM b, 1 time"), "{says:?}");
        let change =
            "# Query_time: 1  Lock_time: 0  Rows_sent: 0  Rows_examined: 24\nUPDATE a\nSET timestamp=16;\n";
        let says = read(change).unwrap().says;
        assert!(says[1].contains(": UPDATE a SET timestamp"), "{says:?}");
    }

    #[test]
    fn a_statement_that_gave_up_its_wait_for_a_row_is_said() {
        let says = |time: &str, locked: &str, rows: u64| {
            let head = format!(
                "# Query_time: {time}  Lock_time: {locked} Rows_sent: 0  Rows_examined: 0  Rows_affected: {rows}\n"
            );
            read(&entry(&head, "UPDATE stock SET n = n - 1;")).unwrap().says[1].clone()
        };
        let wanted = "; 1 time it ended after 50 s of waiting and changed nothing";
        assert!(says("50.004", "50.003", 0).contains(wanted), "{}", says("50.004", "50.003", 0));
        for (time, locked, rows) in
            [("49.2", "49.1", 0), ("50.4", "12.0", 0), ("50.4", "50.3", 1), ("61.0", "61.0", 0)]
        {
            assert!(!says(time, locked, rows).contains("it ended after"), "{time}");
        }
        let head =
            "# Query_time: 50.004  Lock_time: 50.003 Rows_sent: 0  Rows_examined: 0  Rows_affected: 0\n";
        for ddl in ["ALTER TABLE stock ADD n2 INT;", "/* app */ truncate TABLE stock;"] {
            let said = read(&entry(head, ddl)).unwrap().says;
            assert!(!said[1].contains("it ended after"), "{said:?}");
        }
    }

    #[test]
    fn what_took_the_time_and_what_it_waited_for_is_said() {
        let update = |lock: &str| {
            entry(
                &format!("# Query_time: 41.5  Lock_time: {lock} Rows_sent: 0  Rows_examined: 1\n"),
                "UPDATE stock SET n = n - 1\nWHERE id = 7;",
            )
        };
        let select = entry(
            "# Query_time: 12.0  Lock_time: 0.000112 Rows_sent: 10  Rows_examined: 98123456\n",
            "SELECT * FROM orders WHERE note LIKE '%x%';",
        );
        let log = format!(
            "/usr/sbin/mysqld, Version: 8.0.36 (Source distribution). started with:\nTcp port: 3306  Unix socket: /tmp/a.sock\n\
             Time                 Id Command    Argument\n# Time: 2023-03-04T10:11:12.123456Z\n{}# Time: 2023-03-04T10:12:02.123456Z\n\
             use shop;\n{}{select}",
            update("40.5"),
            update("41.0")
        );
        let read = read(&log).unwrap();
        assert_eq!(read.version.map(|version| version.to_string()).as_deref(), Some("MySQL 8.0.36"));
        assert_eq!(
            read.says,
            [
                "3 statements of 2 shapes took 95 s in all, logged from 2023-03-04 10:11:12 to 2023-03-04 10:12:02: 1.0 of them at \
                 once on average; they waited 81.5 s (86 %) of that for locks",
                "87 % of the time: UPDATE stock SET n = n - ? WHERE id = ?, 2 times, 41.5 s each; it waited 81.5 s (98 %) of that for locks",
                "13 % of the time: SELECT * FROM orders WHERE note LIKE ?, 1 time, 12 s each; it reads 98,123,456 rows each time for \
                 10: EXPLAIN says whether an index is missing",
            ]
        );
    }

    #[test]
    fn each_server_s_further_lines_are_read() {
        let percona = entry(
            "# Schema: shop  Last_errno: 0  Killed: 0\n\
             # Query_time: 3.0  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 1812  Rows_affected: 0\n\
             # Bytes_sent: 56  Tmp_tables: 1  Tmp_disk_tables: 1  Tmp_table_sizes: 8388608\n\
             # Filesort: Yes  Filesort_on_disk: No  Merge_passes: 0\n\
             #   InnoDB_IO_r_ops: 1543  InnoDB_IO_r_bytes: 25280512  InnoDB_IO_r_wait: 1.500000\n",
            "SELECT 1 FROM a WHERE b = 2;",
        );
        let says = read(&percona).unwrap().says;
        assert!(
            says[1].contains("50 % of that went into reads from disk") && says[1].contains("on disk 1 time"),
            "{says:?}"
        );
        let maria = entry(
            "# Thread_id: 812  Schema: shop  QC_hit: No\n# Query_time: 31.0  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 18\n\
             # Full_scan: Yes  Full_join: No  Tmp_table: Yes  Tmp_table_on_disk: Yes\n#\n\
             # explain: id\tselect_type\ttable\ttype\n# explain: 1\tSIMPLE\torders\tALL\n#\n",
            "SELECT kind FROM orders;",
        );
        let says = read(&maria).unwrap().says;
        assert!(says[1].contains("kind FROM orders") && says[1].contains("on disk 1 time"), "{says:?}");
        let extra = entry(
            "# Query_time: 2.0  Lock_time: 1.0 Rows_sent: 1  Rows_examined: 3 Thread_id: 8 Errno: 0 Killed: 0 Bytes_received: 0 \
             Bytes_sent: 63 Read_first: 1 Created_tmp_disk_tables: 0 Start: 2023-03-04T10:11:12.1Z End: 2023-03-04T10:11:14.1Z\n",
            "SELECT 1;",
        );
        let says = read(&extra).unwrap().says;
        assert!(says[1].contains("it waited 1 s (50 %) of that for locks"), "{says:?}");
        assert!(!says[1].contains("on disk"), "{says:?}");
    }

    #[test]
    fn no_more_run_at_once_than_their_own_times_allow() {
        let of = |ends: &[u32]| {
            let logged = |second: &u32| {
                let head = "# Query_time: 49.5  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 3\n";
                format!("# Time: 2023-03-04T10:11:{second:02}Z\n{}", entry(head, "SELECT 1;"))
            };
            read(&ends.iter().map(logged).collect::<String>()).unwrap().says.swap_remove(0)
        };
        // Three that took 49.5 s and ended within two seconds ran side by side.
        let said = of(&[10, 11, 12]);
        assert!(said.ends_with("to 2023-03-04 10:11:12: 2.9 of them at once on average"), "{said}");
        // And so they did where the log has one time for all.
        assert!(of(&[10, 10, 10]).ends_with(": 3.0 of them at once on average"), "{}", of(&[10, 10, 10]));
        assert!(of(&[10]).ends_with("logged at 2023-03-04 10:11:10"), "{}", of(&[10]));
    }

    #[test]
    fn no_literal_is_shown_and_a_log_without_statements_is_none() {
        let secret = entry(
            "# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: 3\n",
            "SELECT 'hunter2' FROM a;",
        );
        assert!(!format!("{:?}", read(&secret)).contains("hunter2"));
        assert_eq!(read("# Time: 230304 10:11:12\n# User@Host: a[a] @ b []\n"), None);
        assert_eq!(
            read("mysqld, Version: 8.0.36. started with:\n2023-03-04T10:11:12Z\t7 Query\tSELECT 1\n"),
            None
        );
    }

    #[test]
    fn a_log_of_tidb_is_said_to_be_one() {
        let log = "# Time: 2024-03-04T10:11:12.3+08:00\n# Txn_start_ts: 41\n# Conn_ID: 2\n# Query_time: 42.7\n\
                   # Process_time: 0.1 Wait_time: 2.2\nselect 1 from a;\n";
        let parts = crate::recognise("x", log);
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert_eq!(parts[0].says, [of_other("TiDB")]);
    }

    #[test]
    fn a_long_log_is_read_in_time_that_grows_with_it() {
        let mut log = String::new();
        for at in 0..20_000 {
            let name = format!("SELECT a{at} FROM t WHERE b = {at};");
            log.push_str(&entry("# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: 3\n", &name));
        }
        let says = read(&log).unwrap().says;
        assert!(says[0].starts_with("20,000 statements of 10,000 shapes took"), "{}", says[0]);
    }
}
