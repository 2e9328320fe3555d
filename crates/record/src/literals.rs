//! Statements without their literals, for recordings that keep digests only.
//!
//! The server's own digest text is taken where a source has it. Elsewhere a small tokenizer does what the server would
//! do: numbers and quoted texts become `?`, lists of them `...`, comments go. It needs no grammar, so a statement that
//! the server cut in the middle is no trouble. A backslash escapes, unless the server's `sql_mode` has
//! `NO_BACKSLASH_ESCAPES` (a session that sets it for itself alone is not known), and double quotes hold a text, as they do
//! unless `ANSI_QUOTES` is set: the name in them is lost then, and nothing shows that should not.

use std::hash::{BuildHasher as _, RandomState};

use spindoctor_model::diagnosis::Diagnosis;
use spindoctor_model::finding::Value;
use spindoctor_model::innodb_status::PrintedEvent;
use spindoctor_model::{Event, Profile, Sample, WaitGraph};

/// Between an index and what a lock on one of its records names.
const RECORD: &str = " record ";
/// What stands around the name of a user's lock.
const USER_LOCK: &str = "user lock '";

/// What a backslash in a quoted text does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Backslash {
    /// It escapes what follows.
    #[default]
    Escapes,
    /// It is a letter as any other: `NO_BACKSLASH_ESCAPES`.
    IsText,
}

/// A statement without numbers, quoted texts and comments.
///
/// ```
/// use spindoctor_record::literals::normalised;
/// assert_eq!(normalised("SELECT c FROM t1 WHERE id IN (1, 2) /* web */"), "SELECT c FROM t1 WHERE id IN (...)");
/// ```
pub fn normalised(statement: &str) -> String {
    normalised_as(statement, Backslash::Escapes)
}

fn normalised_as(statement: &str, backslash: Backslash) -> String {
    let mut text = String::with_capacity(statement.len());
    let mut rest = statement;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\'' | '"' => {
                // `x'1F'`, `_utf8'text'` and `N'text'` are one literal.
                literal(&mut text);
                quoted(rest, c, backslash)
            }
            '`' => {
                let length = quoted(rest, c, Backslash::IsText);
                text.push_str(&rest[..length]);
                length
            }
            '#' => line(rest),
            '-' if is_dash_comment(rest) => line(rest),
            '/' if rest.starts_with("/*") => {
                blank(&mut text);
                rest[2..].find("*/").map_or(rest.len(), |end| end + 4)
            }
            c if c.is_whitespace() => {
                blank(&mut text);
                c.len_utf8()
            }
            c if c.is_ascii_digit() || (c == '.' && starts_fraction(&text, rest)) => {
                literal(&mut text);
                number(rest)
            }
            c if is_word(c) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                text.push_str(&rest[..length]);
                length
            }
            c => {
                text.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[length..];
        collapse(&mut text);
    }
    text.truncate(text.trim_end().len());
    text
}

/// Letters of names and keywords; digits too, once a word has begun.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@')
}

/// A `.` with a digit behind it that does not part two names.
fn starts_fraction(text: &str, rest: &str) -> bool {
    let names = text.ends_with(|c| is_word(c) || c == '`');
    !names && rest[1..].starts_with(|c: char| c.is_ascii_digit())
}

/// MySQL wants a blank behind the dashes; `5--3` is arithmetic.
fn is_dash_comment(rest: &str) -> bool {
    rest.strip_prefix("--").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// The length of a comment that goes to the end of its line.
fn line(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// The length of what stands in quotes, both included; to the end where the closing one is missing.
fn quoted(rest: &str, quote: char, backslash: Backslash) -> usize {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && backslash == Backslash::Escapes {
            chars.next();
        } else if c == quote {
            // A doubled quote stands for itself.
            if chars.next_if(|(_, next)| *next == quote).is_none() {
                return at + 1;
            }
        }
    }
    rest.len()
}

/// The length of a number: `15`, `1.5e-3`, `0xFF`.
fn number(rest: &str) -> usize {
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        let is_exponents_sign =
            matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !rest.starts_with("0x");
        if !(c.is_ascii_alphanumeric() || c == '.' || is_exponents_sign) {
            return at;
        }
        before = c;
    }
    rest.len()
}

/// One blank, whatever there was.
fn blank(text: &mut String) {
    if !text.is_empty() && !text.ends_with(' ') {
        text.push(' ');
    }
}

/// Puts a `?`, and takes away the introducer before it (`x`, `_utf8mb4`).
fn literal(text: &mut String) {
    let word =
        text.rfind(|c| !is_word(c)).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let is_introducer =
        matches!(&text[word..], "x" | "X" | "b" | "B" | "n" | "N") || text[word..].starts_with('_');
    if is_introducer {
        text.truncate(word);
    }
    text.push('?');
}

/// `?, ?` becomes `...`, and `(...), (...)` becomes `(...)`: a list's length is no part of a statement's shape.
fn collapse(text: &mut String) {
    for (long, short) in [
        ("?, ?", "..."),
        ("?,?", "..."),
        ("..., ?", "..."),
        ("...,?", "..."),
        ("(?), (?)", "(?)"),
        ("(?),(?)", "(?)"),
    ] {
        if text.ends_with(long) {
            text.truncate(text.len() - long.len());
            text.push_str(short);
            return;
        }
    }
    for long in ["(...), (...)", "(...),(...)"] {
        if text.ends_with(long) {
            text.truncate(text.len() - long.len() + "(...)".len());
        }
    }
}

/// Takes the literals out of all that a recording keeps.
#[derive(Debug, Default)]
pub struct Literals {
    /// Records of tables become numbers that differ where the records do, and that nobody can turn back: the key lives as
    /// long as the process.
    key: RandomState,
    backslash: Backslash,
}

impl Literals {
    /// Learns from the server's variables, where a sample has them, how it reads quoted texts.
    pub fn learn(&mut self, sample: &Sample) {
        if let Some(mode) = sample.server.variables.value().and_then(|variables| variables.text("sql_mode")) {
            let is_text = mode.split(',').any(|mode| mode == "NO_BACKSLASH_ESCAPES");
            self.backslash = if is_text { Backslash::IsText } else { Backslash::Escapes };
        }
    }

    /// Takes them out of a sample.
    pub fn take_out_of_sample(&self, sample: &mut Sample) {
        let normalised = |text: &str| normalised_as(text, self.backslash);
        let server = &mut sample.server;
        for thread in each(&mut server.threads) {
            let digest = thread.digest_text.as_deref();
            thread.statement =
                thread.statement.as_deref().map(|text| digest.map_or_else(|| normalised(text), Into::into));
            thread.last_statement = thread.last_statement.as_deref().map(normalised);
        }
        for transaction in each(&mut server.transactions) {
            transaction.statement = transaction.statement.as_deref().map(normalised);
        }
        for wait in each(&mut server.row_lock_waits) {
            wait.record = self.record(&wait.record);
        }
        for lock in each(&mut server.metadata_locks).filter(|lock| lock.object_type == "USER LEVEL LOCK") {
            lock.name = self.record(&lock.name);
        }
        for channel in each(&mut server.replication) {
            channel.receiver_error = without_query(&channel.receiver_error);
            channel.applier_error = without_query(&channel.applier_error);
        }
        if let spindoctor_model::Reading::Available { value, .. } = &mut server.innodb_status {
            value.raw = None;
            value.unknown_lines.clear();
            for event in
                [&mut value.latest_deadlock, &mut value.latest_foreign_key_error].into_iter().flatten()
            {
                keep_heads(event);
            }
        }
    }

    /// Takes them out of a profile.
    pub fn take_out_of_profile(&self, profile: &mut Profile) {
        let normalised = |text: &str| normalised_as(text, self.backslash);
        for activity in &mut profile.activities {
            let digest = activity.digest_text.as_deref();
            activity.statement =
                activity.statement.as_deref().map(|text| digest.map_or_else(|| normalised(text), Into::into));
        }
    }

    /// Takes them out of a wait graph.
    pub fn take_out_of_graph(&self, graph: &mut WaitGraph) {
        let normalised = |text: &str| normalised_as(text, self.backslash);
        for thread in &mut graph.threads {
            thread.statement = thread.statement.as_deref().map(normalised);
        }
        for edge in &mut graph.edges {
            edge.object = self.place(&edge.object);
        }
    }

    /// Takes them out of a diagnosis.
    ///
    /// A headline may quote a statement, of which the quoted texts go, and the numbers cannot be told from others: so rules
    /// should be given samples and graphs that have none.
    pub fn take_out_of_diagnosis(&self, diagnosis: &mut Diagnosis) {
        let normalised = |text: &str| normalised_as(text, self.backslash);
        for finding in &mut diagnosis.findings {
            finding.headline = without_quoted(&finding.headline);
            finding.why = without_quoted(&finding.why);
            if let Some(root) = &mut finding.root {
                root.statement = normalised(&root.statement);
            }
            for evidence in &mut finding.evidence {
                if let Value::Text(text) = &mut evidence.value {
                    *text = without_quoted(&self.place(text));
                }
            }
            for remedy in &mut finding.remedies {
                if let Some(explained) = remedy.statement.strip_prefix("EXPLAIN ") {
                    remedy.statement = format!("EXPLAIN {}", normalised(explained));
                }
            }
        }
    }

    /// Takes them out of an event and all that belongs to it.
    pub fn take_out_of_event(&self, event: &mut Event) {
        event.head.headline = without_quoted(&event.head.headline);
        event.diagnosis.iter_mut().for_each(|diagnosis| self.take_out_of_diagnosis(diagnosis));
        event.before.iter_mut().for_each(|profile| self.take_out_of_profile(profile));
        event.during.iter_mut().for_each(|profile| self.take_out_of_profile(profile));
        event.graphs.iter_mut().for_each(|recorded| self.take_out_of_graph(&mut recorded.graph));
    }

    /// `5` as a number that stands for it as long as this process lives.
    fn record(&self, record: &str) -> String {
        if record.is_empty() || is_masked(record) {
            return record.to_owned();
        }
        format!("#{:08x}", self.key.hash_one(record) as u32)
    }

    /// `shop.stock PRIMARY record 5` with the record masked, `user lock 'nightly'` with the name.
    fn place(&self, object: &str) -> String {
        if let Some(name) = object.strip_prefix(USER_LOCK).and_then(|rest| rest.strip_suffix('\'')) {
            return format!("{USER_LOCK}{}'", self.record(name));
        }
        match object.split_once(RECORD) {
            Some((index, record)) => format!("{index}{RECORD}{}", self.record(record)),
            None => object.to_owned(),
        }
    }
}

/// What was masked once stays as it is.
fn is_masked(record: &str) -> bool {
    record.strip_prefix('#').is_some_and(|hex| hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The rows of a reading that answered.
fn each<T>(reading: &mut spindoctor_model::Reading<Vec<T>>) -> impl Iterator<Item = &mut T> {
    let rows = match reading {
        spindoctor_model::Reading::Available { value, .. } => value.as_mut_slice(),
        _ => &mut [],
    };
    rows.iter_mut()
}

/// `Error 'Duplicate entry '5' for key 'PRIMARY'' on query. Default database: 'shop'. Query: 'INSERT ...'`: the numbered
/// error is what comes before the first quote.
fn without_query(error: &str) -> String {
    match error.find(['\'', '"']) {
        Some(at) => format!("{} ...", error[..at].trim_end()),
        None => error.to_owned(),
    }
}

/// A sentence with the texts in quotes replaced by `?`. A lone apostrophe is none.
fn without_quoted(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(at) = rest.find(['\'', '"']) {
        let quote = if rest[at..].starts_with('"') { '"' } else { '\'' };
        let is_apostrophe = quote == '\'' && rest[..at].ends_with(char::is_alphanumeric);
        text.push_str(&rest[..at]);
        let length = if is_apostrophe {
            text.push('\'');
            1
        } else {
            text.push('?');
            quoted(&rest[at..], quote, Backslash::Escapes)
        };
        rest = &rest[at + length..];
    }
    text + rest
}

/// Of a printed deadlock the lines that never hold a statement or a row: who waits for which lock of which index.
fn keep_heads(event: &mut PrintedEvent) {
    const HEADS: [&str; 4] = ["*** ", "TRANSACTION ", "RECORD LOCKS ", "TABLE LOCK "];
    let kept: Vec<&str> =
        event.text.lines().filter(|line| HEADS.iter().any(|head| line.starts_with(head))).collect();
    event.text = kept.join("\n");
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerThread};
    use spindoctor_model::wait_graph::WaitingThread;
    use spindoctor_model::{Reading, ServerSample};

    use super::*;

    #[test]
    fn numbers_texts_and_comments_go_and_names_stay() {
        for (statement, expected) in [
            (
                r"SELECT c1 FROM t2 WHERE a = 'it\'s' AND b = 1.5e-3 AND `k3` = 22",
                "SELECT c1 FROM t2 WHERE a = ? AND b = ? AND `k3` = ?",
            ),
            ("SELECT 'a''b', \"c\" -- tail\n FROM t", "SELECT ... FROM t"),
            ("SELECT /* user=17 */ x'1F', _utf8mb4'text', 0xFF, .5", "SELECT ..."),
            ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO t VALUES (...)"),
            ("INSERT INTO t VALUES (1),(2),(3)", "INSERT INTO t VALUES (?)"),
            ("UPDATE t1.t2 SET a = -5 # 42", "UPDATE t1.t2 SET a = -?"),
            ("SELECT * FROM t WHERE a = 'cut in the mid", "SELECT * FROM t WHERE a = ?"),
            ("SELECT @@x1, `1`.`2`.3a FROM db.1t", "SELECT @@x1, `1`.`2`.? FROM db.?"),
            ("SELECT 5--3", "SELECT ?--?"),
            ("", ""),
        ] {
            assert_eq!(normalised(statement), expected, "{statement}");
        }
    }

    #[test]
    fn a_sample_keeps_no_literal() {
        let mut sample = Sample::default();
        let threads = vec![
            ServerThread {
                statement: Some("SELECT 'secret'".into()),
                digest_text: Some("SELECT ?".into()),
                ..Default::default()
            },
            ServerThread {
                last_statement: Some("DELETE FROM t WHERE k = 'secret'".into()),
                ..Default::default()
            },
        ];
        sample.server.threads = Reading::Available { at_s: 0.0, took_ms: 1.0, value: threads };
        let wait = RowLockWait { record: "'secret', 5".into(), ..RowLockWait::default() };
        let other = RowLockWait { record: "6".into(), ..RowLockWait::default() };
        sample.server.row_lock_waits =
            Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![wait.clone(), wait, other] };
        let literals = Literals::default();
        literals.take_out_of_sample(&mut sample);
        assert!(!serde_json::to_string(&sample).unwrap().contains("secret"));
        let threads = sample.server.threads.value().unwrap();
        assert_eq!(threads[0].statement.as_deref(), Some("SELECT ?"));
        assert_eq!(threads[1].last_statement.as_deref(), Some("DELETE FROM t WHERE k = ?"));
        let waits = sample.server.row_lock_waits.value().unwrap();
        assert_eq!(waits[0].record, waits[1].record, "one record is still one");
        assert_ne!(waits[0].record, waits[2].record, "two records are still two");
        let once = sample.clone();
        literals.take_out_of_sample(&mut sample);
        assert_eq!(sample, once);
    }

    #[test]
    fn a_backslash_is_a_letter_where_the_server_says_so() {
        let mut literals = Literals::default();
        let statement = r"SELECT c FROM t WHERE a = 'C:\' AND b = 'secret'".to_owned();
        let variables = |mode: &str| {
            let value = [("sql_mode".to_owned(), mode.to_owned())].into_iter().collect();
            let variables = Reading::Available { at_s: 0.0, took_ms: 1.0, value };
            Sample { server: ServerSample { variables, ..ServerSample::default() }, ..Sample::default() }
        };
        literals.learn(&variables("STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES"));
        let mut graph = WaitGraph {
            threads: vec![WaitingThread { statement: Some(statement), ..WaitingThread::default() }],
            ..WaitGraph::default()
        };
        literals.take_out_of_graph(&mut graph);
        assert_eq!(graph.threads[0].statement.as_deref(), Some("SELECT c FROM t WHERE a = ? AND b = ?"));
        literals.learn(&variables("STRICT_TRANS_TABLES"));
        assert_eq!(literals.backslash, Backslash::Escapes);
    }

    #[test]
    fn the_name_of_a_users_lock_is_a_literal_too_and_is_the_same_wherever_it_stands() {
        let literals = Literals::default();
        let lock = MetadataLock {
            object_type: "USER LEVEL LOCK".into(),
            name: "customer:4711".into(),
            ..MetadataLock::default()
        };
        let table = MetadataLock { object_type: "TABLE".into(), name: "t".into(), ..MetadataLock::default() };
        let mut sample = Sample::default();
        sample.server.metadata_locks =
            Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![lock, table] };
        literals.take_out_of_sample(&mut sample);
        let locks = sample.server.metadata_locks.value().unwrap();
        assert!(is_masked(&locks[0].name), "{locks:?}");
        assert_eq!(locks[1].name, "t");
        let place = literals.place("user lock 'customer:4711'");
        assert_eq!(place, format!("user lock '{}'", locks[0].name));
        assert_eq!(literals.place(&place), place);
    }

    #[test]
    fn sentences_lose_what_is_quoted_and_keep_their_apostrophes() {
        assert_eq!(
            without_quoted("the server's DROP of 'secret' and \"secret\" waits"),
            "the server's DROP of ? and ? waits"
        );
        assert_eq!(without_query("Error 'Duplicate entry '5'' on query. Query: 'INSERT'"), "Error ...");
    }

    #[test]
    fn of_a_deadlock_the_locks_stay_and_the_rows_go() {
        let mut event = PrintedEvent {
            text: "*** (1) TRANSACTION:\nTRANSACTION 7, ACTIVE 3 sec\nUPDATE t SET a = 'secret'\n*** (1) HOLDS THE LOCK(S):\n\
                   RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `a`.`t`\n 0: len 6; asc secret;;"
                .into(),
            ..PrintedEvent::default()
        };
        keep_heads(&mut event);
        assert_eq!(event.text.lines().count(), 4);
        assert!(!event.text.contains("secret"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic_and_no_literal_comes_through(
            before in "[ -~äß\n]{0,30}", hidden in "[a-z]{12}", after in "[ -~äß\n]{0,30}",
        ) {
            normalised(&format!("{before}'{hidden}'{after}"));
            let plain = normalised(&format!("SELECT a FROM t WHERE b = '{hidden}' AND c = \"{hidden}\" {after}"));
            proptest::prop_assert!(!plain.contains(&hidden));
        }
    }
}
